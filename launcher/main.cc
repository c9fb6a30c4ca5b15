// SPDX-License-Identifier: MIT OR Apache-2.0
// rlxrun: reads the command line, and becomes the head of a job or a daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/knobs.h"
#include "launcher/daemon.h"
#include "launcher/help.h"
#include "launcher/launch.h"
#include "launcher/node_home.h"
#include "launcher/status.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

int complain(const std::string& text, int exit_code) {
  fmt::print(stderr, "rlxrun: {}\n", text);
  if (exit_code == kExitUsage) fmt::print(stderr, "Try 'rlxrun --help'.\n");
  return exit_code;
}

std::optional<std::string> text_that_was_asked(Action action) {
  switch (action) {
    case Action::kHelp:
      return help_text();
    case Action::kVersion:
      return version_text();
    case Action::kMan:
      return man_page();
    case Action::kCompletion:
      return bash_completion();
    case Action::kStatus:
    case Action::kRun:
      break;
  }
  return std::nullopt;
}

// What was asked for, alone.
int show(const std::string& text) {
  const Status shown = print_out(text);
  return shown ? 0 : complain(shown.error().text, 1);
}

int print_status(const Environment& environment, bool as_json) {
  std::vector<std::string> silent;
  const auto running = running_launchers(scratch_parents(environment), silent);
  const int exit_code = show(as_json ? json_of(running) : table_of(running));
  for (const auto& directory : silent)
    fmt::print(stderr, "rlxrun: the launcher of {} does not answer (stopped?)\n", directory);
  return exit_code;
}

constexpr int kMostDoublings = 5;  // of the pause before a restart

// How we were started, to be started again in the same way.
struct Start {
  char** argv;
  sigset_t signal_mask;
  void (*on_sigpipe)(int);

  explicit Start(char** words) : argv(words), on_sigpipe(signal(SIGPIPE, SIG_IGN)) {
    signal(SIGPIPE, on_sigpipe);
    sigprocmask(SIG_BLOCK, nullptr, &signal_mask);
  }
};

// Becomes a new rlxrun with the same words: libpmix cannot be started twice in a process. Returns
// if that cannot be done.
void start_again(const Start& start, const CommandLine& line, const LaunchEnd& end) {
  const std::string number = std::to_string(line.restarted + 1);
  const unsigned pause_s = end.awaits ? 1u << std::min(line.restarted, kMostDoublings) : 0;
  std::string more[] = {
      "--restarted",     number,
      "--used",          fmt::format("{:f}", now_ns() * 1e-9 - line.began_s + pause_s),
      "--without-hosts", end.without};
  std::vector<char*> words{start.argv[0]};
  for (auto& word : more) words.push_back(word.data());
  for (char** word = start.argv + (line.restarted > 0 ? words.size() : 1); *word; ++word)
    words.push_back(*word);
  words.push_back(nullptr);
  if (line.verbosity > 0)
    fmt::print(stderr, "rlxrun: starting the job again{} (restart {} of {})\n",
               pause_s > 0 ? fmt::format(" in {} s", pause_s) : "", number, line.end.max_restarts);
  close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  signal(SIGPIPE, start.on_sigpipe);
  sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  sleep(pause_s);  // which signals end, now that they are not blocked
  execv("/proc/self/exe", words.data());
  fmt::print(stderr, "rlxrun: cannot start the job again: {}\n", strerror(errno));
}

int run(const CommandLine& line, Environment environment, const Start& start) {
  LaunchEnd end;
  {
    Launch launch(line, std::move(environment));
    if (auto status = launch.prepare(); !status)
      return complain(status.error().text, status.error().code == Code::kInvalid ? kExitUsage : 1);
    end = launch.run();
  }
  if (end.may_restart && line.restarted < line.end.max_restarts) start_again(start, line, end);
  if (end.signal_number != 0) {  // so that a shell sees what ended us
    signal(end.signal_number, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, end.signal_number);
    raise(end.signal_number);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
  }
  return end.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--daemon") _exit(run_daemon(false));
  if (argc == 2 && std::string_view(argv[1]) == "--daemon=dial") _exit(run_daemon(true));
  open_missing_standard_streams();
  const Start start(argv);
  Environment environment = Environment::of_this_process();
  ensure_home(environment);
  auto line = parse_command_line({argv + std::min(argc, 1), argv + argc});
  if (!line) return complain(line.error().text, kExitUsage);
  if (const auto text = text_that_was_asked(line->action)) return show(*text);
  if (line->action == Action::kStatus) return print_status(environment, line->json);
  if (auto status = check_knobs(); !status) return complain(status.error().text, kExitUsage);
  // No destructors of statics: a writer stuck behind a reader that does not read must not hold us.
  const int exit_code = run(*line, std::move(environment), start);
  fflush(stdout);
  _exit(exit_code);
}
