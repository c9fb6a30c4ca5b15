// SPDX-License-Identifier: MIT OR Apache-2.0
// --pty: one rank has a terminal of its own, and the user's is as before when that is over.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "test/launcher/fake_hosts.h"
#include "test/launcher/launch.h"

using namespace rlx::test;

namespace {

constexpr int kPatienceMs = 20000;
const winsize kWindow{40, 100, 0, 0};

// A terminal in which a user runs a shell's `line`, where $R is rlxrun -q.
class User {
 public:
  explicit User(const std::string& line, const std::string& options = "") {
    winsize window = kWindow;
    const std::string command =
        fmt::format("R='{} -q --oversubscribe {}'; {}", built("rlxrun"), options, line);
    std::string entry = mark_.entry();
    pid_ = forkpty(&terminal_, nullptr, nullptr, &window);
    if (pid_ != 0) return;
    putenv(entry.data());
    default_signals();
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  ~User() {
    close(terminal_);
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }

  // What is shown up to and with `text`, since the last call; the test fails when that never comes.
  std::string until(const std::string& text) {
    while (shown_.find(text) == std::string::npos && read_more()) {
    }
    const auto at = shown_.find(text);
    cr_assert(at != std::string::npos, "no '%s' in '%s'", text.c_str(), shown_.c_str());
    std::string before = shown_.substr(0, at + text.size());
    shown_.erase(0, at + text.size());
    return before;
  }
  // The words of what is shown from here to the end of the line.
  std::string rest_of_line() {
    const std::string line = until("\r\n");
    return line.substr(0, line.size() - 2);
  }
  // Reads what is shown meanwhile: who pastes much gets much back.
  void type(std::string_view text) {
    fcntl(terminal_, F_SETFL, O_NONBLOCK);
    while (!text.empty()) {
      pollfd ready{terminal_, POLLIN | POLLOUT, 0};
      cr_assert_eq(poll(&ready, 1, kPatienceMs), 1, "%zu bytes are left to type", text.size());
      if (ready.revents & POLLIN) read_more();
      const ssize_t n = write(terminal_, text.data(), std::min<std::size_t>(text.size(), 4096));
      if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void resize(unsigned short rows, unsigned short columns) {
    const winsize window{rows, columns, 0, 0};
    cr_assert_eq(ioctl(terminal_, TIOCSWINSZ, &window), 0);
  }
  bool is_raw() const {
    termios settings{};
    return tcgetattr(terminal_, &settings) == 0 && (settings.c_lflag & ICANON) == 0;
  }
  int wait() {
    while (read_more()) {
    }
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  bool read_more() {
    pollfd ready{terminal_, POLLIN, 0};
    char buffer[4096];
    if (poll(&ready, 1, kPatienceMs) != 1) return false;
    const ssize_t n = read(terminal_, buffer, sizeof buffer);
    if (n > 0) shown_.append(buffer, static_cast<std::size_t>(n));
    // What is shown after the terminal was given back has a return more, which nobody sees.
    for (std::size_t at; (at = shown_.find("\r\r\n")) != std::string::npos;) shown_.erase(at, 1);
    return n > 0;
  }

  Mark mark_;
  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

// What the rank runs here, and what it runs on a host that a daemon serves.
template <class Check>
void here_and_there(const Check& check) {
  const FakeHosts hosts;
  for (const std::string& options : {std::string(), hosts.options(1)}) check(options);
}

std::string quoted_script(const std::string& script) { return "sh -c '" + script + "'"; }

}  // namespace

Test(pty, is_all_that_its_rank_reads_writes_and_is_controlled_by, .timeout = 60) {
  here_and_there([](const std::string& options) {
    User user("$R -n 1 --pty " + quoted_script("test -t 0 && test -t 1 && test -t 2 && "
                                               "echo all three >/dev/tty; ps -o tpgid= -p $$; "
                                               "echo $$ end"),
              options);
    user.until("all three\r\n");
    std::istringstream words(user.until(" end"));
    int foreground = 0, self = -1;
    words >> foreground >> self;
    cr_expect_eq(foreground, self);
    cr_expect_eq(user.wait(), 0);
  });
}

Test(pty, echoes_what_is_typed_and_shows_a_prompt, .timeout = 60) {
  here_and_there([](const std::string& options) {
    User user("$R -n 1 --pty " + quoted_script("printf name:; read n; echo hello $n"), options);
    user.until("name:");
    user.type("wor");  // echoed before the line ends
    user.until("wor");
    user.type("ld\r");
    user.until("ld\r\nhello world\r\n");
    cr_expect_eq(user.wait(), 0, "%s", user.shown().c_str());
  });
}

Test(pty, makes_ctrl_c_a_signal_to_its_rank_alone, .timeout = 60) {
  here_and_there([](const std::string& options) {
    User user("$R -n 1 --pty " + quoted_script("trap \"echo interrupted; exit 3\" INT; "
                                               "echo ready; while :; do sleep 0.05; done"),
              options);
    user.until("ready");
    user.type("\x03");
    user.until("interrupted");
    cr_expect_eq(user.wait(), 3, "%s", user.shown().c_str());
  });
}

Test(pty, has_the_size_of_the_window_and_hears_of_changes, .timeout = 60) {
  here_and_there([](const std::string& options) {
    User user("$R -n 1 --pty " + quoted_script("trap \"stty size; exit\" WINCH; stty size; "
                                               "echo ready; while :; do sleep 0.05; done"),
              options);
    expect_same(user.rest_of_line(), "40 100");
    user.until("ready\r\n");
    user.resize(50, 120);
    expect_same(user.rest_of_line(), "50 120");
    cr_expect_eq(user.wait(), 0);
  });
}

Test(pty, leaves_the_terminal_as_it_was, .timeout = 120) {
  const struct {
    const char *script, *code;
  } table[] = {{"true", "0"},
               {"exit 3", "3"},
               {"kill -TERM $PPID; exec sleep 100", "143"},
               {"kill -HUP $PPID; exec sleep 100", "129"},
               {"kill -SEGV $PPID; exec sleep 100", "139"}};
  for (const auto& row : table) {
    // The address sanitizer would take SIGSEGV for itself.
    User user("stty -g; ASAN_OPTIONS=handle_segv=0 $R -n 1 --pty " +
              quoted_script(std::string("echo begin; read l; ") + row.script) +
              " 2>/dev/null; echo code $?; stty -g");
    const std::string before = user.rest_of_line();
    user.until("begin\r\n");
    cr_expect(user.is_raw());
    user.type("\r");
    user.until("code ");
    expect_same(user.rest_of_line(), row.code, row.script);
    expect_same(user.rest_of_line(), before, row.script);
    user.wait();
  }
  User again("stty -g; $R -n 1 --max-restarts 1 --pty " +
             quoted_script("echo attempt $RLX_RESTART_COUNT; exit 3") + " 2>/dev/null; stty -g");
  const std::string before = again.rest_of_line();
  again.until("attempt 1\r\n");
  expect_same(again.rest_of_line(), before);
}

Test(pty, gives_the_terminal_back_when_its_rank_has_ended, .timeout = 60) {
  User user("$R -n 2 --pty=1 " +
            quoted_script("if test $RANK = 1; then echo raw; read l; exit; fi; "
                          "trap \"echo told; exit\" TERM; while :; do sleep 0.05; done"));
  user.until("raw\r\n");
  cr_expect(user.is_raw());
  user.type("\r");
  cr_expect(eventually([&] { return !user.is_raw(); }, kPatienceMs));
  user.type("\x03");  // for rlxrun
  user.until("told");
  cr_expect_eq(user.wait(), 130, "%s", user.shown().c_str());
}

Test(pty, gives_the_terminal_back_while_it_is_stopped, .timeout = 60) {
  User user("$R -n 1 --pty " + quoted_script("echo pid $PPID; read l; echo got $l"));
  user.until("pid ");
  const pid_t pid = atoi(user.rest_of_line().c_str());
  cr_assert(pid > 0 && user.is_raw());
  kill(pid, SIGTSTP);
  cr_expect(eventually([&] { return !user.is_raw(); }, kPatienceMs));
  kill(pid, SIGCONT);
  cr_expect(eventually([&] { return user.is_raw(); }, kPatienceMs));
  user.type("it\r");
  user.until("got it");
  cr_expect_eq(user.wait(), 0);
}

Test(pty, ends_its_input_where_a_pipe_ends_for_every_reader, .timeout = 60) {
  const FakeHosts hosts;
  const std::string three = "cat; cat; stty -icanon; head -c 1 | od -A n -t d1; tty >/dev/null";
  for (const std::string& options : {std::string("-n 1"), hosts.options(1)})
    for (const std::string input : {"", "a\n", "a"}) {
      const auto result = rlxrun_sh(options + " --pty", three, {.input = input});
      cr_expect_eq(result.code, 0);
      const std::string end = "    4\r\n";  // Ctrl-D itself, for one who reads characters
      cr_expect(result.out.ends_with(end), "%s", result.text().c_str());
      cr_expect_eq(count(result.out, "a"), input.empty() ? 0 : 2);  // its echo, and cat's
    }
}

Test(pty, takes_a_megabyte_that_is_pasted, .timeout = 120) {
  here_and_there([](const std::string& options) {
    User user("$R -n 1 --pty " + quoted_script("echo ready; head -c 1000000 | md5sum"), options);
    user.until("ready");
    std::string text;
    while (text.size() < 1000000) text += fmt::format("{:099}\n", text.size());
    user.type(text);
    const auto wanted = run({"md5sum"}, {.input = text}).out.substr(0, 32);
    user.until(wanted);
    cr_expect_eq(user.wait(), 0);
  });
}

Test(pty, is_of_one_rank_and_the_others_write_whole_tagged_lines, .timeout = 60) {
  const TempDir dir;
  User user("$R -n 2 --tag-output --pty=1 " +
            quoted_script("if test $RANK = 1; then printf prompt:; read l; else "
                          "test -t 0 || test -t 1 || echo line; cat; fi"));
  const std::string first = user.until("[0] line\r\n");
  user.type("x\r");
  cr_expect_eq(user.wait(), 0);
  const std::string all = first + user.shown();
  cr_expect(holds(all, "prompt:") && !holds(all, "[1]"), "%s", all.c_str());
  // With files for the others.
  const auto filed = rlxrun({"-n", "2", "--oversubscribe", "--pty", "--output-dir", dir / "logs",
                             "sh", "-c", "echo out $RANK"});
  expect_same(filed.out, "out 0\r\n", filed.text());
  std::string line;
  std::getline(std::ifstream(dir / "logs/rank.0001.out") >> std::ws, line);
  expect_same(line, "out 1");
  cr_expect_neq(access((dir / "logs/rank.0000.out").c_str(), F_OK), 0);
}

Test(pty, of_no_rank_or_beside_another_reader_is_refused, .timeout = 60) {
  const struct {
    const char *options, *text;
  } table[] = {{"--pty=9", "--pty=9: the job has ranks 0 to 1"},
               {"--pty=x", "'x' is not a whole number"},
               {"--pty --stdin none", "--pty=0 beside --stdin none"},
               {"--stdin all --pty=1", "--pty=1 beside --stdin all"},
               {"--stdin 0 --pty=1", "--pty=1 beside --stdin 0"}};
  for (const auto& row : table) {
    const auto result = rlxrun_sh(std::string("-n 2 --oversubscribe ") + row.options, "echo ran");
    cr_expect_eq(result.code, 2, "%s", result.text().c_str());
    cr_expect(holds(result.err, row.text) && result.out.empty(), "%s", result.text().c_str());
  }
  cr_expect_eq(rlxrun_sh("-n 2 --oversubscribe --stdin 1 --pty=1", "true").code, 0);
}
