// SPDX-License-Identifier: MIT OR Apache-2.0
// The daemons that this process, head or daemon, has started, each with those below it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/helpers.h"
#include "launcher/link.h"
#include "launcher/muster.h"
#include "launcher/node_codec.h"
#include "pmix_glue/carrier.h"

namespace rlx::launcher {

// How a process divides hosts among the daemons that it starts: each is on the first host of a part
// and starts the rest of it in the same way.
std::vector<std::vector<TreeHost>> parts_of(const std::vector<TreeHost>& hosts,
                                            const TreeSettings& settings);

class BranchOwner {
 public:
  virtual ~BranchOwner() = default;
  virtual void from_below(Frame frame) = 0;
  // Not after leave() or abandon().
  virtual void lost_below(const Lost& lost) = 0;
  // Perhaps it will be lost soon; what to say of it.
  virtual void silent_below(const Lost& suspect) = 0;
  // Somebody called in from there who does not know the secret.
  virtual void turned_away(const std::string& from) { (void)from; }
  // After leave() or abandon(): no daemon and no agent is left.
  virtual void branches_gone() = 0;
};

class Branches {
 public:
  Branches(Loop& loop, Helpers& helpers, BranchOwner& owner, const Environment& environment)
      : loop_(loop), helpers_(helpers), owner_(owner), environment_(environment) {}
  ~Branches();

  // `self` is the node of this process, or kHeadNode. Cuts `hosts` into as many parts as there may
  // be branches, and starts the first daemon of each, which starts the rest of its part.
  void start(std::uint32_t self, const TreeSettings& settings, const std::string& known_topology,
             const std::vector<TreeHost>& hosts);
  // The branches that were started, as PMIx servers see them.
  std::vector<pmix::TreePlace::Child> children() const;
  bool lead_to(std::uint32_t node) const { return way_.contains(node); }
  bool empty() const { return branches_.empty(); }
  // To the node it is for, or to all. A node that is gone gets nothing.
  void send(const Frame& frame);
  // Ends daemons that have nothing left to do.
  void leave();
  // Ends daemons in whatever state: they end their ranks at once.
  void abandon();

 private:
  struct Branch {
    TreeHost host;
    Hello hello;
    pid_t agent = -1;  // -1 once it has ended
    std::unique_ptr<Link> link;
    Fd errors;  // what the agent says
    Watch errors_watch, patience;
    std::string said;
    std::optional<int> agent_status;
    std::string cause;
    bool greeted = false, answered = false, down = false;
    bool misbehaved = false;  // the cause is what it did, not how its agent ended
  };
  std::optional<std::string> start_agent(Branch& branch);
  void open_link(Branch& branch, Fd in, Fd out);
  void gather(const std::vector<TreeHost>& hosts);
  Branch* find_called(const std::string& name);
  void arrived(const std::string& name, Fd socket);
  void muster_ended(const std::string& why);
  void give_up(Branch& branch, const std::string& cause);
  Branch* find(std::uint32_t node);
  void greeted(Branch& branch);
  void read_errors(Branch& branch);
  void link_down(Branch& branch, const LinkEnd& end);
  void demand_answer(Branch& branch);
  void agent_ended(Branch& branch, int wait_status);
  void finish_when_known(Branch& branch);
  void finish(Branch& branch);
  void kill_after(Branch& branch, double seconds);
  std::string cause_of(const Branch& branch) const;
  void check_gone();

  Loop& loop_;
  Helpers& helpers_;
  BranchOwner& owner_;
  const Environment& environment_;
  TreeSettings settings_;
  std::map<std::uint32_t, std::unique_ptr<Branch>> branches_;  // by the node of its daemon
  std::map<std::uint32_t, std::uint32_t> way_;                 // to a node: by which branch
  std::unique_ptr<Muster> muster_;
  bool leaving_ = false;
  Watch gone_, patience_;
};

}  // namespace rlx::launcher
