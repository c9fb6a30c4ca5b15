// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "coll/task.h"
#include "coll/trouble.h"

namespace rlx {
namespace {

// Every so many sweeps that move nothing, somebody looks at the clock. Asleep, a process makes a
// sweep in 50 ms.
constexpr std::uint32_t kQuietSweeps = 8;
// Tries before the first poll: a peer that is only a cache line away is worth a short look, unless
// it needs our core to come here.
constexpr int kBriskTries = 32, kBriskTriesCrowded = 2;
// How long a rank waits for the words of a call that differs from its own.
constexpr std::int64_t kHearingMs = 1000;

}  // namespace

struct Engine::Impl {
  std::vector<Task*> active;
  std::vector<Task*> idle;  // kept for reuse
  std::vector<std::unique_ptr<Task>> all;
  std::vector<Channel*> channels;
  std::vector<Request*> abandoned;  // messages of failed tasks that cannot be taken back
  std::uint32_t quiet_sweeps = 0;
  int brisk_tries = kBriskTries;
  std::int64_t looked_at_ns = 0;
};

Engine::Engine(Links& links) : links_(links), impl_(std::make_unique<Impl>()) {
  if (links.crowded()) impl_->brisk_tries = kBriskTriesCrowded;
}
Engine::~Engine() = default;

void Engine::add(Channel* channel) { impl_->channels.push_back(channel); }
void Engine::remove(Channel* channel) { std::erase(impl_->channels, channel); }

// --- starting --------------------------------------------------------------------------------

Task* Engine::make_task(const Job& job) {
  if (impl_->idle.empty()) {
    impl_->all.push_back(std::make_unique<Task>());
    impl_->all.back()->owner = this;
    impl_->idle.push_back(impl_->all.back().get());
  }
  Task* task = impl_->idle.back();
  impl_->idle.pop_back();
  Channel& channel = *job.channel;
  const Plan& plan = job.owned ? *job.owned : *job.plan;
  task->bind(job, ++channel.calls, plan.shared ? ++channel.shared_calls : 0);
  note_call(channel, task->call);
  ++channel.n_pending;
  return task;
}

Request* Engine::start(const Job& job) {
  Task* task = make_task(job);
  begin(*task, job);
  if (!task->done) impl_->active.push_back(task);
  return task;
}

// The first steps of a task, unless it has to wait for its turn.
void Engine::begin(Task& task, const Job& job) {
  Channel& channel = *task.channel;
  if (!channel.broken) return end(task, channel.broken.error());
  if (const std::string clash = early_clash(channel, task.call); !clash.empty())
    return disagree(channel, task.call, clash), end(task, channel.broken.error());
  if (job.own_sent != job.own_expected) {
    const int rank = channel.group.rank;
    task.fail_with(Code::kMismatch, uneven_text(rank, job.own_sent, rank, job.own_expected));
    return fail(task);
  }
  if (task.plan->shared) {
    if (channel.running != nullptr) {
      channel.waiting.push_back(&task);
      return;
    }
    take_turn(task);
  }
  step(task);
}

// Of the shared plans on a channel this one runs now; those before it have ended here.
void Engine::take_turn(Task& task) {
  task.channel->running = &task;
  task.choose_stores();
}

// A report that came before this rank made the call.
std::string Engine::early_clash(const Channel& channel, const CallText& call) const {
  if (!channel.any_report) [[likely]]
    return {};
  for (int r = 0; r < channel.group.size(); ++r) {
    const CallText& other = channel.reported[r];
    if (other.number == call.number && !same_call(other, call))
      return mismatch_text(channel, r, other, channel.group.rank, call);
  }
  return {};
}

// Advances a task that may run; true if anything moved.
bool Engine::step(Task& task) {
  if (task.closing) [[unlikely]] {
    read_reports();
    if (settled(*task.channel)) close(task);
    return task.done;
  }
  if (task.plan->shared && task.channel->running != &task) return false;
  const bool moved = task.advance(links_);
  if (task.ended) {
    if (task.trouble == Code::kOk)
      end(task);
    else
      fail(task);
  } else if (moved) {
    task.idle_since_ns = 0;
  }
  return moved;
}

// --- ending ----------------------------------------------------------------------------------

void Engine::end(Task& task) {
  task.finish();
  Channel& channel = *task.channel;
  --channel.n_pending;
  if (channel.running != &task) return;
  channel.running = nullptr;
  if (channel.waiting.empty()) return;
  take_turn(*channel.waiting.front());
  channel.waiting.erase(channel.waiting.begin());
}

void Engine::end(Task& task, const Error& why) {
  for (const Task::InFlight& item : task.in_flight) {
    links_.cancel(item.request);
    if (item.request->done)
      item.request->release();
    else
      impl_->abandoned.push_back(item.request);
  }
  task.in_flight.clear();
  if (task.plan->shared) task.give_up();
  std::erase(task.channel->waiting, &task);
  if (task.channel->running == &task) task.channel->running = nullptr;
  task.ended = task.closing = true;
  task.code = why.code;
  task.text = why.text;
  if (settled(*task.channel)) close(task);
}

void Engine::close(Task& task) {
  --task.channel->n_pending;
  task.finish();
}

// A task that ended with an error of its own.
void Engine::fail(Task& task) {
  Channel& channel = *task.channel;
  // A rank that is gone may have told why it went.
  if (task.trouble == Code::kPeerFailed) read_reports();
  if (task.mismatched_with >= 0) {
    disagree(channel, task.call, describe_mismatch(task));
  } else {
    // The rank a message was for may be gone only because another one went before.
    const Error* death = task.trouble == Code::kPeerFailed ? first_death(channel) : nullptr;
    const std::string text = fmt::format("{} on {}: {}", to_string(task.call), channel.group.name,
                                         death == nullptr ? task.trouble_text : death->text);
    if (task.trouble == Code::kMismatch)
      disagree(channel, task.call, text);
    else
      break_channel(channel, {task.trouble, text});
  }
  if (!task.done && !task.closing) end(task, channel.broken.error());
}

// This rank knows of a mismatch.
void Engine::disagree(Channel& channel, const CallText& own, const std::string& text) {
  if (!channel.broken) return;
  send_report(channel, links_, own, text);
  channel.settle_by_ns = now_ns() + kSettleNs;
  break_channel(channel, {Code::kMismatch, text});
}

// Nobody is left who might not know of the channel's mismatch, or it was waited for long enough.
bool Engine::settled(const Channel& channel) {
  if (channel.settle_by_ns == 0) [[likely]]
    return true;
  for (int r = 0; r < channel.group.size(); ++r)
    if (r != channel.group.rank && !channel.knows[r] &&
        links_.failed(channel.group.world[r]) == nullptr)
      return now_ns() >= channel.settle_by_ns;
  return true;
}

// Of the channel's ranks that are gone, the one that went first.
const Error* Engine::first_death(const Channel& channel) {
  const auto& world = channel.group.world;
  const int first = links_.first_failed();
  if (std::find(world.begin(), world.end(), first) != world.end()) return links_.failed(first);
  for (const int r : world)
    if (const Error* dead = links_.failed(r)) return dead;
  return nullptr;
}

// Fails everything under way on the channel, and all that comes later.
void Engine::break_channel(Channel& channel, const Error& why) {
  if (channel.broken) channel.broken = rlx::fail(why.code, why.text);
  for (Task* task : impl_->active)
    if (task->channel == &channel && !task->done && !task->closing)
      end(*task, channel.broken.error());
  if (channel.running != nullptr) end(*channel.running, channel.broken.error());
}

std::string Engine::describe_mismatch(const Task& task) {
  Channel& channel = *task.channel;
  const int rank = task.mismatched_with;
  if (task.shared_number != 0) {
    const CallText& theirs = channel.group.areas[rank]->words[task.shared_number & 1].text;
    if (!same_call(theirs, task.call))
      return mismatch_text(channel, rank, theirs, channel.group.rank, task.call);
  }
  // What showed it carries no words, or the calls before differ. The peer answers our report with
  // its verdict.
  send_report(channel, links_, task.call);
  struct Hearing {
    Engine* engine;
    Channel* channel;
    int rank;
  } hearing{this, &channel, rank};
  const auto turn = [](void* state) {
    const auto& h = *static_cast<Hearing*>(state);
    const bool moved = h.engine->links_.poll();
    h.engine->read_reports();
    if (!h.channel->broken || h.engine->links_.failed(h.channel->group.world[h.rank]) != nullptr)
      return Turn::kDone;
    return moved ? Turn::kMoved : Turn::kIdle;
  };
  (void)links_.until(turn, &hearing, Deadline::after_ms(kHearingMs));
  if (!channel.broken) return channel.broken.error().text;
  return fmt::format("{}: rank {} called something else, now or before, while rank {} called {}",
                     channel.group.name, rank, channel.group.rank, to_string(task.call));
}

// --- waiting ---------------------------------------------------------------------------------

Status Engine::run(const Job& job, Deadline deadline) {
  Task* task = make_task(job);
  begin(*task, job);
  for (int i = impl_->brisk_tries; i > 0 && !task->done; --i) step(*task);
  if (!task->done) {
    impl_->active.push_back(task);
    (void)wait(task, deadline);  // the task is done after it, well or not
  }
  Status status = task->status();
  release(task);
  return status;
}

Status Engine::wait(Request* request, Deadline deadline) {
  const Status waited = until([request] { return request->done; }, deadline);
  if (waited || request->done) return request->status();
  if (waited.error().code != Code::kTimeout) return waited;
  if (request->kind != Request::Kind::kCollective) {
    links_.abandon(request, deadline.limit_ms());
    return request->status();
  }
  auto& task = static_cast<Task&>(*request);
  read_reports();
  if (task.closing && !task.done) close(task);
  if (task.done) return task.status();
  const std::string text =
      fmt::format("{} on {} did not end within {} ms; {}", to_string(task.call),
                  task.channel->group.name, deadline.limit_ms(), missing_text(task, links_));
  // What was sent must not be read once the caller has its buffers back.
  for (const Task* other : impl_->active)
    if (other->channel == task.channel)
      for (const Task::InFlight& item : other->in_flight)
        links_.abandon(item.request, deadline.limit_ms());
  break_channel(*task.channel, {Code::kTimeout, text});
  if (!task.done && !task.closing) end(task, task.channel->broken.error());
  if (!task.done) close(task);
  return request->status();
}

void Engine::release(Request* request) {
  auto* task = static_cast<Task*>(request);
  if (!impl_->active.empty()) std::erase(impl_->active, task);
  if (task->plan_owned) task->plan_owned.reset();
  impl_->idle.push_back(task);
}

bool Engine::progress() {
  bool moved = false;
  auto& active = impl_->active;
  for (std::size_t i = 0; i < active.size(); ++i)
    if (!active[i]->done) moved |= step(*active[i]);
  std::erase_if(active, [](const Task* task) { return task->done; });
  moved |= links_.poll();
  if (moved)
    impl_->quiet_sweeps = 0;
  else if (++impl_->quiet_sweeps % kQuietSweeps == 0)
    look_around();
  return moved;
}

// Nothing has moved for a while: is somebody dead, or does somebody wait in another call?
void Engine::look_around() {
  const std::int64_t now = now_ns();
  if (now - impl_->looked_at_ns < kLookAfterNs) return;
  impl_->looked_at_ns = now;
  std::erase_if(impl_->abandoned, [](Request* request) {
    if (request->done) request->release();
    return request->done;
  });
  read_reports();
  const std::vector<Task*> tasks = impl_->active;
  for (Task* task : tasks) {
    if (task->done || step(*task) || task->closing) continue;
    Channel& channel = *task->channel;
    if (const Error* dead = first_death(channel)) {
      break_channel(channel, {dead->code, fmt::format("{} on {}: {}", to_string(task->call),
                                                      channel.group.name, dead->text)});
      continue;
    }
    if (task->idle_since_ns == 0) task->idle_since_ns = now;
    if (now - task->idle_since_ns < kReportAfterNs) continue;
    // A rank that left because calls differ has told so before: that was read above. One that left
    // because another one never came has no news.
    const int rank = task->plan->shared && all_came(*task) ? task->gave_up() : -1;
    if (rank >= 0) {
      break_channel(channel, {Code::kPeerFailed,
                              fmt::format("{} on {}: rank {} has given it up",
                                          to_string(task->call), channel.group.name, rank)});
      continue;
    }
    if (task->reported) continue;
    task->reported = true;
    send_report(channel, links_, task->call);
  }
}

void Engine::read_reports() {
  while (auto message = links_.take(kReportTag, kReportMask)) {
    const std::uint32_t context = message->tag >> 32 & 0xffff;
    const auto report = read_report(message->bytes);
    if (!report) continue;
    for (Channel* channel : impl_->channels) {
      if (channel->group.context != context) continue;
      const auto& world = channel->group.world;
      const auto at = std::find(world.begin(), world.end(), message->source);
      if (at == world.end()) continue;
      const auto rank = static_cast<int>(at - world.begin());
      channel->any_report = true;
      const std::string clash = take_report(*channel, rank, *report);
      const std::string& verdict = report->verdict.empty() ? clash : report->verdict;
      if (!report->verdict.empty()) channel->knows[rank] = true;
      if (!verdict.empty()) disagree(*channel, recent_call(*channel, report->call.number), verdict);
    }
  }
}

}  // namespace rlx
