// SPDX-License-Identifier: MIT OR Apache-2.0
// rlxrun: reads the command line, and becomes the head of a job or a daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "base/knobs.h"
#include "launcher/daemon.h"
#include "launcher/help.h"
#include "launcher/launch.h"
#include "launcher/node_home.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

int complain(const std::string& text, int exit_code) {
  fmt::print(stderr, "rlxrun: {}\n", text);
  if (exit_code == kExitUsage) fmt::print(stderr, "Try 'rlxrun --help'.\n");
  return exit_code;
}

std::optional<std::string> print_what_was_asked(Action action) {
  switch (action) {
    case Action::kHelp:
      return help_text();
    case Action::kVersion:
      return version_text();
    case Action::kMan:
      return man_page();
    case Action::kCompletion:
      return bash_completion();
    case Action::kRun:
      break;
  }
  return std::nullopt;
}

int run(CommandLine line, Environment environment) {
  Launch launch(std::move(line), std::move(environment));
  if (auto status = launch.prepare(); !status)
    return complain(status.error().text, status.error().code == Code::kInvalid ? kExitUsage : 1);
  const LaunchEnd end = launch.run();
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
  if (argc == 2 && std::string_view(argv[1]) == "--daemon") _exit(run_daemon());
  open_missing_standard_streams();
  Environment environment = Environment::of_this_process();
  ensure_home(environment);
  auto line = parse_command_line({argv + std::min(argc, 1), argv + argc});
  if (!line) return complain(line.error().text, kExitUsage);
  if (const auto text = print_what_was_asked(line->action)) {
    fmt::print("{}", *text);
    return 0;
  }
  if (auto status = check_knobs(); !status) return complain(status.error().text, kExitUsage);
  // No destructors of statics: a writer stuck behind a reader that does not read must not hold us.
  const int exit_code = run(std::move(*line), std::move(environment));
  fflush(stdout);
  _exit(exit_code);
}
