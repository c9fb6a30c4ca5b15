// SPDX-License-Identifier: MIT OR Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "launcher/agent.h"
#include "launcher/branches.h"
#include "launcher/hosts.h"
#include "launcher/process.h"

namespace rlx::launcher {
namespace {

bool calls_in(const TreeSettings& settings) {
  return settings.agent[0] == kSlurmAgent || settings.agent[0] == kFluxAgent ||
         settings.agent[0] == kManualAgent;
}

}  // namespace

std::vector<std::vector<TreeHost>> parts_of(const std::vector<TreeHost>& hosts,
                                            const TreeSettings& settings) {
  const std::size_t n_parts =
      calls_in(settings) ? hosts.size() : std::min<std::size_t>(settings.radix, hosts.size());
  std::vector<std::vector<TreeHost>> parts(n_parts);
  for (std::size_t i = 0, next = 0; i < n_parts; ++i)
    for (const std::size_t end = (i + 1) * hosts.size() / n_parts; next < end; ++next)
      parts[i].push_back(hosts[next]);
  return parts;
}

Branches::~Branches() = default;

void Branches::start(std::uint32_t self, const TreeSettings& settings,
                     const std::string& known_topology, const std::vector<TreeHost>& hosts) {
  settings_ = settings;
  const bool call_in = calls_in(settings);
  for (const auto& part : parts_of(hosts, settings)) {
    auto owned = std::make_unique<Branch>();
    Branch& branch = *owned;
    branch.host = part[0];
    branch.hello = {branch.host.node, self, branch.host.name, known_topology, settings, {}};
    branch.hello.below.assign(part.begin() + 1, part.end());
    for (const auto& host : part) way_[host.node] = branch.host.node;
    branches_[branch.host.node] = std::move(owned);
    if (call_in) continue;
    if (const auto problem = start_agent(branch)) give_up(branch, *problem);
  }
  if (call_in && !hosts.empty()) gather(hosts);
}

void Branches::give_up(Branch& branch, const std::string& cause) {
  branch.cause = cause;
  if (branch.link) branch.link->close();
  branch.patience = loop_.after(0, [this, &branch] { finish(branch); });
}

void Branches::gather(const std::vector<TreeHost>& hosts) {
  MusterCalls calls;
  calls.daemons.is_taken = [this](const std::string& name) {
    const Branch* const branch = find_called(name);
    return branch && branch->link;
  };
  calls.daemons.arrived = [this](const std::string& name, Fd socket) {
    arrived(name, std::move(socket));
  };
  calls.daemons.turned_away = [this](const std::string& from) { owner_.turned_away(from); };
  calls.ended = [this](const std::string& why) { muster_ended(why); };
  const auto by = [&](auto make_step) {
    return Muster::by_step(loop_, helpers_, make_step(settings_, hosts, environment_), settings_,
                           std::move(calls));
  };
  auto muster = settings_.agent[0] == kSlurmAgent ? by(srun_step)
                : settings_.agent[0] == kFluxAgent
                    ? by(flux_step)
                    : Muster::by_hand(loop_, settings_, hosts, calls);
  if (muster)
    muster_ = std::move(*muster);
  else
    muster_ended(muster.error().text);
}

// A daemon knows its host by the name that this has there, which may have a domain more or less.
Branches::Branch* Branches::find_called(const std::string& name) {
  Branch* same = nullptr;
  for (const auto& [node, branch] : branches_) {
    if (branch->host.name == name) return branch.get();
    if (is_same_name(branch->host.name, name) && (!same || same->link)) same = branch.get();
  }
  return same;
}

void Branches::arrived(const std::string& name, Fd socket) {
  Branch* const branch = find_called(name);
  if (!branch) {  // and so one of them will not come
    for (const auto& [node, waiting] : branches_)
      if (!waiting->link)
        give_up(*waiting, fmt::format("a daemon called in from '{}', which is none of the hosts; "
                                      "they must be named as hostname prints it there",
                                      name));
    return;
  }
  if (branch->patience) return;
  Fd out(fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  open_link(*branch, std::move(socket), std::move(out));
  if (std::all_of(branches_.begin(), branches_.end(),
                  [](const auto& entry) { return entry.second->link != nullptr; }))
    muster_->all_are_here();
}

// Nobody watches the step any more: its daemons are as good as lost. Where it was a daemon's end
// that ended the command, its link says so first.
void Branches::muster_ended(const std::string& why) {
  for (const auto& [node, branch] : branches_)
    if (!branch->link || !leaving_) give_up(*branch, why);
  check_gone();
}

std::vector<pmix::TreePlace::Child> Branches::children() const {
  std::vector<pmix::TreePlace::Child> children;
  for (const auto& [node, branch] : branches_) {
    auto& child = children.emplace_back();
    child.node = node;
    child.subtree.push_back(node);
    for (const auto& host : branch->hello.below) child.subtree.push_back(host.node);
  }
  return children;
}

// Returns why it could not be started.
std::optional<std::string> Branches::start_agent(Branch& branch) {
  Fd theirs[3], ours[3];
  for (int i = 0; i < 3; ++i) {
    const auto made = i == 0 ? make_pipe(theirs[i], ours[i]) : make_pipe(ours[i], theirs[i]);
    if (!made) return made.error().text;
  }
  const std::uint32_t node = branch.host.node;
  auto pid =
      helpers_.start(agent_command(settings_, branch.host), environment_,
                     {theirs[0].get(), theirs[1].get(), theirs[2].get()}, [this, node](int status) {
                       if (Branch* ended = find(node)) agent_ended(*ended, status);
                     });
  if (!pid) return pid.error().text;
  branch.agent = *pid;
  branch.errors = std::move(ours[2]);
  fcntl(branch.errors.get(), F_SETFL, O_NONBLOCK);
  branch.errors_watch =
      loop_.on_readable(branch.errors.get(), [this, &branch] { read_errors(branch); });
  open_link(branch, std::move(ours[1]), std::move(ours[0]));
  return std::nullopt;
}

void Branches::open_link(Branch& branch, Fd in, Fd out) {
  branch.link = std::make_unique<Link>(
      loop_, std::move(in), std::move(out),
      LinkCalls{[this, &branch] { greeted(branch); },
                [this, &branch](Frame frame) {
                  branch.answered = true;
                  owner_.from_below(std::move(frame));
                },
                [this, &branch](const LinkEnd& end) { link_down(branch, end); },
                [this, &branch](double silent_s, double limit_s) {
                  owner_.silent_below(
                      {{branch.host.node},
                       fmt::format("has been silent for {:g} s; after {:g} s it is lost", silent_s,
                                   limit_s)});
                }});
  branch.link->await_greeting();
}

void Branches::greeted(Branch& branch) {
  branch.greeted = true;
  branch.link->send({Kind::kHello, kHeadNode, branch.host.node, encode(branch.hello)});
  branch.link->start_heartbeat(settings_.ping_s);
  branch.patience.reset();
  if (branch.agent_status) demand_answer(branch);  // it has ended already
}

}  // namespace rlx::launcher
