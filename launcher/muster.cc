// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/muster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "base/words.h"
#include "launcher/agent.h"
#include "launcher/process.h"

namespace rlx::launcher {
namespace {

constexpr double kEndTime = 1;  // seconds between asking the command to end and making it

std::string without_noise(std::string_view said, std::string_view noise) {
  std::string out;
  for (const auto& line : words_of(said, "\n"))
    if (noise.empty() || line.find(noise) == std::string::npos) out += line + '\n';
  return out;
}

bool holds_one_of(std::string_view text, const std::vector<std::string_view>& signs) {
  return std::any_of(signs.begin(), signs.end(),
                     [&](auto sign) { return text.find(sign) != std::string_view::npos; });
}

}  // namespace

Status Muster::listen() {
  RLX_TRY_ASSIGN(listener_, Listener::open(loop_, secret_, calls_.daemons));
  return {};
}

Result<std::unique_ptr<Muster>> Muster::by_step(Loop& loop, Helpers& helpers, Step step,
                                                const TreeSettings& settings, MusterCalls calls) {
  std::unique_ptr<Muster> muster(new Muster(loop, std::move(calls)));
  RLX_TRY(muster->listen());
  Fd their_in, our_in, their_err;
  RLX_TRY(make_pipe(their_in, our_in));
  RLX_TRY(make_pipe(muster->errors_, their_err));
  fcntl(muster->errors_.get(), F_SETFL, O_NONBLOCK);
  // The command hands its input to all daemons. It fits into the pipe.
  const std::string line = to_text({muster->secret_, muster->listener_->addresses(), ""}) + "\n";
  if (write(our_in.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return fail_errno("cannot write to a pipe");
  const Fd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!settings.library_path.empty()) {
    const auto usual = step.environment.get("LD_LIBRARY_PATH");
    step.environment.set("LD_LIBRARY_PATH", settings.library_path + (usual ? ":" + *usual : ""));
  }
  Muster* raw = muster.get();
  auto pid =
      helpers.start(step.command, step.environment, {their_in.get(), null.get(), their_err.get()},
                    [raw](int status) { raw->ended(status); });
  if (!pid) return fail(pid.error().code, pid.error().text + step.way_out);
  muster->step_ = std::move(step);
  muster->pid_ = *pid;
  muster->errors_watch_ = loop.on_readable(muster->errors_.get(), [raw] { raw->read_errors(); });
  return muster;
}

Result<std::unique_ptr<Muster>> Muster::by_hand(Loop& loop, const TreeSettings& settings,
                                                const std::vector<TreeHost>& hosts,
                                                MusterCalls calls) {
  std::unique_ptr<Muster> muster(new Muster(loop, std::move(calls)));
  RLX_TRY(muster->listen());
  fmt::print(stderr, "rlxrun: waiting; type this on each host:\n");
  for (const auto& host : hosts)
    fmt::print(stderr, "  {}:  echo '{}' | {}\n", host.name,
               to_text({muster->secret_, muster->listener_->addresses(), host.name}),
               daemon_command(settings, "=dial"));
  return muster;
}

void Muster::ended(int wait_status) {
  pid_ = -1;
  read_errors();
  const auto words = last_words(without_noise(said_, step_.noise));
  std::string why = ending_text(step_.name, wait_status);
  if (!words.empty()) why += ": " + words;
  calls_.ended(holds_one_of(words, step_.no_job) ? why + step_.way_out : why);
}

void Muster::read_errors() {
  ssize_t n = 0;
  while ((n = read_said(errors_.get(), said_)) > 0) continue;
  if (n == 0 || errno != EAGAIN) errors_watch_.reset();
  if (!holds_one_of(said_, step_.fatal)) return;
  errors_watch_.reset();  // what follows is of daemons that are told to end
  calls_.ended(last_words(without_noise(said_, step_.noise)));
}

void Muster::end() {
  if (pid_ < 0 || last_resort_) return;
  kill(-pid_, SIGTERM);
  last_resort_ = loop_.after(kEndTime, [this] {
    if (pid_ > 0) kill(-pid_, SIGKILL);
  });
}

}  // namespace rlx::launcher
