// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/bytes.h"
#include "launcher/branches.h"
#include "launcher/dial.h"
#include "launcher/gpu_probe.h"
#include "launcher/hosts.h"
#include "launcher/local_node.h"
#include "launcher/node_facts.h"
#include "launcher/node_home.h"
#include "launcher/plan.h"
#include "pmix_glue/tree_exchange.h"

namespace rlx::launcher {
namespace {

constexpr double kTermGrace = 2;   // for ranks, when nobody above can say how long they have
constexpr double kLastResort = 4;  // seconds, until a daemon that cannot end leaves anyway

// Moves standard input and output out of reach of everything else in this process.
Fd take_over(int fd, int flags) {
  Fd taken(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  const Fd null(open("/dev/null", flags | O_CLOEXEC));
  dup2(null.get(), fd);
  return taken;
}

class Daemon final : private BranchOwner, private pmix::Carrier {
 public:
  Daemon(const Guard& guard, const Environment& environment)
      : guard_(guard),
        environment_(environment),
        helpers_(loop_),
        branches_(loop_, helpers_, *this, environment_) {}

  int run(Fd in, Fd out);

 private:
  // BranchOwner
  void from_below(Frame frame) override;
  void lost_below(const Lost& lost) override;
  void silent_below(const Lost& suspect) override;
  void branches_gone() override;
  // Of the PMIx server.
  void send(std::uint32_t to, std::string bytes) override;

  void from_above(Frame frame);
  Status hear(const Frame& frame);
  Status begin(const Hello& hello);
  Status host_ranks(const Hello& hello);
  void up(Frame frame) { link_->send(frame); }
  void give_up(const std::string& why);
  void above_is_gone() { leave(told_ ? kTermGrace : 0, false); }
  // `in_order`: everything has ended already, here and below.
  void leave(double grace_s, bool in_order);
  void on_signal();
  void told_to_end(int signal_number);
  void quiet();
  void leave_when_done();

  const Guard& guard_;
  const Environment& environment_;
  Loop loop_;
  Helpers helpers_;
  Branches branches_;
  std::unique_ptr<Link> link_;
  std::optional<Topology> topology_;
  Directories directories_;
  NodeSetup setup_;
  std::unique_ptr<NodeEvents> events_;
  pmix::TreeExchange* exchange_ = nullptr;  // node_ owns it
  std::unique_ptr<LocalNode> node_;
  Fd signal_fd_;
  Watch signal_watch_, last_resort_;
  std::uint32_t index_ = kHeadNode;
  bool begun_ = false, told_ = false, leaving_ = false, quiet_ = true, gone_ = false;
};

int Daemon::run(Fd in, Fd out) {
  setup_.ignores_sigpipe = ignore_sigpipe();
  const sigset_t signals = block_signals(setup_.signal_mask);
  signal_fd_ = Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  signal_watch_ = loop_.on_readable(signal_fd_.get(), [this] { on_signal(); });
  const std::string greeting = greeting_line();
  if (write(out.get(), greeting.data(), greeting.size()) < 0) return 1;
  link_ =
      std::make_unique<Link>(loop_, std::move(in), std::move(out),
                             LinkCalls{[] {}, [this](Frame frame) { from_above(std::move(frame)); },
                                       [this](const LinkEnd&) { above_is_gone(); }});
  loop_.run();
  if (node_ && !quiet_) return 1;  // the guard ends what is left
  guard_.dismiss();
  if (node_ && !node_->used_pmix()) [[maybe_unused]]
    const LocalNode* left_behind = node_.release();
  node_.reset();
  return 0;
}

void Daemon::from_above(Frame frame) {
  Status status;
  if (!begun_) {
    auto hello = frame.kind == Kind::kHello
                     ? decode_hello(frame.body)
                     : Result<Hello>(fail(Code::kInvalid, "the first message is no hello"));
    status = hello ? begin(*hello) : Status(tl::unexpected(hello.error()));
  } else if (frame.kind == Kind::kLeave) {
    return leave(0, true);
  } else {
    if (frame.to != index_) branches_.send(frame);
    if (frame.to == index_ || frame.to == kAllNodes) status = hear(frame);
  }
  if (!status) give_up(status.error().text);
}

Status Daemon::hear(const Frame& frame) {
  if (leaving_) return {};
  if (frame.kind == Kind::kExchange)
    return exchange_->deliver(frame.from == kHeadNode ? pmix::kRoot : frame.from, frame.body);
  if (frame.kind == Kind::kSignal && ByteReader(frame.body).get<int>() == SIGSTOP)
    link_->forgive_silence();  // the head stops as well
  return deliver(frame, *node_);
}

Status Daemon::begin(const Hello& hello) {
  begun_ = true;
  index_ = hello.node;
  link_->start_heartbeat(hello.settings.ping_s);
  branches_.start(index_, hello.settings, hello.known_topology, hello.below);
  TopologySource source;
  source.devices = may_have_gpus();
  RLX_TRY_ASSIGN(topology_, Topology::load(source));
  NodeFacts facts = facts_of(*topology_, environment_, own_hostname());
  if (facts.signature != hello.known_topology) {
    RLX_TRY_ASSIGN(facts.xml, topology_->xml());
  }
  Welcome welcome;
  welcome.facts = encode(facts);
  welcome.free_port = free_port();
  welcome.addresses = own_addresses();
  up({Kind::kWelcome, index_, kHeadNode, encode(welcome)});
  return host_ranks(hello);
}

Status Daemon::host_ranks(const Hello& hello) {
  RLX_TRY(make_directories(environment_, guard_, directories_));
  setup_.hostname = hello.name;
  setup_.index = index_;
  setup_.topology = topology_->handle();
  setup_.scratch = directories_.main->path();
  if (directories_.shm) setup_.shm_scratch = directories_.shm->path();
  setup_.guard = &guard_;
  setup_.environment = &environment_;
  setup_.helpers = &helpers_;
  events_ = std::make_unique<EventSender>(index_, [this](Frame frame) {
    const bool is_quiet = frame.kind == Kind::kQuiet;
    up(std::move(frame));
    if (is_quiet) quiet();
  });
  pmix::TreePlace place;
  place.self = index_;
  place.parent = hello.parent == kHeadNode ? pmix::kRoot : hello.parent;
  place.children = branches_.children();
  pmix::Carrier& carrier = *this;
  auto exchange = std::make_unique<pmix::TreeExchange>(place, carrier);
  exchange_ = exchange.get();
  RLX_TRY_ASSIGN(node_, LocalNode::create(loop_, setup_, *events_, std::move(exchange)));
  quiet_ = false;
  return {};
}

void Daemon::from_below(Frame frame) {
  if (frame.kind != Kind::kExchange || !branches_.lead_to(frame.to)) return up(std::move(frame));
  branches_.send(frame);
}

void Daemon::send(std::uint32_t to, std::string bytes) {
  Frame frame{Kind::kExchange, index_, to == pmix::kRoot ? kHeadNode : to, std::move(bytes)};
  if (!branches_.lead_to(frame.to)) return up(std::move(frame));
  branches_.send(frame);
}

void Daemon::lost_below(const Lost& lost) { up({Kind::kLost, index_, kHeadNode, encode(lost)}); }

void Daemon::silent_below(const Lost& suspect) {
  up({Kind::kSilent, index_, kHeadNode, encode(suspect)});
}

// Those below are lost with us.
void Daemon::give_up(const std::string& why) {
  if (leaving_) return;
  up({Kind::kLost, index_, kHeadNode, encode(Lost{{index_}, why})});
  leave(kTermGrace, false);
}

void Daemon::leave(double grace_s, bool in_order) {
  if (!std::exchange(leaving_, true)) {
    if (in_order)
      branches_.leave();
    else
      branches_.abandon();
  }
  if (node_ && !quiet_) node_->end(grace_s, SIGTERM);
  last_resort_ = loop_.after(kLastResort, [this] { loop_.stop(); });
  leave_when_done();
}

void Daemon::on_signal() {
  signalfd_siginfo info;
  while (read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number != SIGTERM && number != SIGINT && number != SIGHUP && number != SIGQUIT) continue;
    told_to_end(number);
  }
}

// Whoever ends one daemon, such as Slurm, means the job: the head ends all of it, with its grace.
void Daemon::told_to_end(int signal_number) {
  if (!begun_)
    return give_up(fmt::format("its daemon was told to end ({})", strsignal(signal_number)));
  if (!leaving_ && !std::exchange(told_, true)) up({Kind::kToldToEnd, index_, kHeadNode, {}});
}

void Daemon::quiet() {
  quiet_ = true;
  leave_when_done();
}

void Daemon::branches_gone() {
  gone_ = true;
  leave_when_done();
}

void Daemon::leave_when_done() {
  if (leaving_ && quiet_ && gone_) loop_.stop();
}

Result<Fd> call_in(const Environment& environment) {
  constexpr std::size_t kMostLine = 64 << 10;
  std::string line;
  char c = 0;
  while (line.size() < kMostLine && read(STDIN_FILENO, &c, 1) == 1 && c != '\n') line += c;
  RLX_TRY_ASSIGN(auto invitation, read_invitation(line));
  std::string name = invitation.name;
  if (name.empty()) name = environment.get("SLURMD_NODENAME").value_or(own_hostname());
  return dial(invitation, name);
}

// A start-up file of a shell may have put something else there ("exec </dev/null").
bool can_be_a_link(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 &&
         (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || isatty(fd) != 0);
}

int refuse(std::string_view why) {
  fmt::print(stderr, "rlxrun: {}\n", why);
  return 1;
}

}  // namespace

int run_daemon(bool dials) {
  open_missing_standard_streams();
  Environment environment = Environment::of_this_process();
  ensure_home(environment);
  Fd in, out;
  if (dials) {
    auto socket = call_in(environment);
    if (!socket) return refuse(socket.error().text);
    in = std::move(*socket);
    out = Fd(fcntl(in.get(), F_DUPFD_CLOEXEC, 3));
  } else if (!can_be_a_link(STDIN_FILENO)) {
    return refuse(
        "standard input is no pipe from rlxrun; does a start-up file of the shell redirect it?");
  }
  Fd pipe_in = take_over(STDIN_FILENO, O_RDONLY), pipe_out = take_over(STDOUT_FILENO, O_WRONLY);
  const Guard guard = Guard::start(dials ? in.get() : pipe_in.get());
  Daemon daemon(guard, environment);
  return dials ? daemon.run(std::move(in), std::move(out))
               : daemon.run(std::move(pipe_in), std::move(pipe_out));
}

}  // namespace rlx::launcher
