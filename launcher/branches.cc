// SPDX-License-Identifier: MIT OR Apache-2.0
// Branches that are there, and how they end; how they come to be is in branches_start.cc.
#include "launcher/branches.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>

#include "launcher/agent.h"

namespace rlx::launcher {
namespace {

constexpr double kLastWords = 0.3;    // seconds for an agent to end behind its connection
constexpr double kGreetingTime = 10;  // for what an agent that ended well has left running
constexpr double kLeaveTime = 3;      // for a daemon to clean up
// Periods of Link::kAnswerPeriod for a daemon to say that it is there though its agent has ended.
// At first it looks what its host is like, which may take seconds.
constexpr int kPeriodsOfRun = 2, kPeriodsOfStart = 10;

}  // namespace

Branches::Branch* Branches::find(std::uint32_t node) {
  const auto branch = branches_.find(node);
  return branch == branches_.end() ? nullptr : branch->second.get();
}

void Branches::read_errors(Branch& branch) {
  const ssize_t n = read_said(branch.errors.get(), branch.said);
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  branch.errors_watch.reset();
  branch.errors.reset();
  finish_when_known(branch);
}

void Branches::link_down(Branch& branch, const LinkEnd& end) {
  branch.down = true;
  branch.cause = end.cause;
  branch.misbehaved = !end.closed;
  branch.patience.reset();
  finish_when_known(branch);
  kill_after(branch, kLastWords);
}

void Branches::agent_ended(Branch& branch, int wait_status) {
  branch.agent = -1;
  branch.agent_status = wait_status;
  // Something that it left behind may hold its output; or it was not needed any more.
  if (branch.greeted && !branch.down)
    demand_answer(branch);
  else if (!branch.down)
    branch.patience = loop_.after(wait_status == 0 ? kGreetingTime : kLastWords,
                                  [this, &branch] { finish(branch); });
  finish_when_known(branch);
}

void Branches::demand_answer(Branch& branch) {
  branch.link->demand_answer(branch.answered ? kPeriodsOfRun : kPeriodsOfStart);
}

void Branches::finish_when_known(Branch& branch) {
  if (branch.down && branch.agent < 0 && !branch.errors)
    branch.patience = loop_.after(0, [this, &branch] { finish(branch); });
}

// A second time is for an agent that does not go even then.
void Branches::kill_after(Branch& branch, double seconds) {
  if (branch.patience) return;
  branch.patience = loop_.after(seconds, [this, &branch] {
    if (branch.agent > 0) kill(-branch.agent, SIGKILL);
    branch.patience = loop_.after(kLastWords, [this, &branch] { finish(branch); });
  });
}

std::string Branches::cause_of(const Branch& branch) const {
  if (branch.misbehaved) return branch.cause;
  const std::string name = settings_.agent[0].substr(settings_.agent[0].rfind('/') + 1);
  std::string text = branch.agent_status ? ending_text(name, *branch.agent_status) : branch.cause;
  if (const auto words = last_words(branch.said); !words.empty()) text += ": " + words;
  if (!branch.greeted && branch.agent_status)
    text += fmt::format(" (tried {} there)", settings_.program);
  return text;
}

void Branches::finish(Branch& branch) {
  Lost lost;
  lost.cause = cause_of(branch);
  lost.nodes.push_back(branch.host.node);
  for (const auto& host : branch.hello.below) lost.nodes.push_back(host.node);
  for (const auto node : lost.nodes) way_.erase(node);
  branches_.erase(branch.host.node);
  if (leaving_)
    check_gone();
  else
    owner_.lost_below(lost);
}

void Branches::send(const Frame& frame) {
  const FrameBytes bytes = encode(frame);
  if (frame.to == kAllNodes) {
    for (const auto& [node, branch] : branches_)
      if (branch->greeted) branch->link->send(bytes);
    return;
  }
  const auto way = way_.find(frame.to);
  if (way != way_.end() && branches_.at(way->second)->greeted)
    branches_.at(way->second)->link->send(bytes);
}

void Branches::leave() {
  leaving_ = true;
  send({Kind::kLeave, kHeadNode, kAllNodes, {}});
  for (const auto& [node, branch] : branches_) kill_after(*branch, kLeaveTime);
  check_gone();
}

void Branches::abandon() {
  leaving_ = true;
  for (const auto& [node, branch] : branches_) {
    if (branch->link) branch->link->close();
    branch->down = true;
    branch->errors_watch.reset();
    branch->errors.reset();
    finish_when_known(*branch);
    kill_after(*branch, branch->greeted ? kLeaveTime : kLastWords);
  }
  if (muster_) muster_->end();
  check_gone();
}

void Branches::check_gone() {
  if (!leaving_ || !branches_.empty() || gone_) return;
  if (muster_ && !muster_->has_ended()) {  // which it does by itself
    if (!patience_) patience_ = loop_.after(kLeaveTime, [this] { muster_->end(); });
    return;
  }
  gone_ = loop_.after(0, [this] { owner_.branches_gone(); });
}

}  // namespace rlx::launcher
