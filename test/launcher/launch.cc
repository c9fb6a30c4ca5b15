// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/launcher/launch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "launcher/plan.h"
#include "launcher/process.h"

namespace rlx::test {

void expect_same(const std::string& seen, const std::string& wanted, const std::string& more,
                 const char* file, int line) {
  cr_expect(seen == wanted, "%s:%d: seen '%s', wanted '%s' %s", file, line,
            seen.substr(0, 2000).c_str(), wanted.substr(0, 2000).c_str(), more.c_str());
}

void pause_10ms() {
  const timespec pause{0, 10'000'000};
  nanosleep(&pause, nullptr);
}

Mark::Mark() : entry_("RLX_TEST_MARK=" + launcher::random_id()) {}
std::vector<pid_t> Mark::processes() const { return launcher::find_marked({entry_}, {}); }
bool Mark::gone_within(int ms) const {
  return eventually([this] { return processes().empty(); }, ms);
}
Mark::~Mark() {
  for (const pid_t pid : processes()) kill(pid, SIGKILL);
}

std::vector<std::string> cut(const std::string& words) {
  std::vector<std::string> out;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

CommandResult rlxrun(const std::vector<std::string>& arguments, const CommandOptions& options) {
  std::vector<std::string> argv{built("rlxrun"), "-q"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run(argv, options);
}

std::vector<std::string> with_sh(const std::string& words, const std::string& script) {
  auto arguments = cut(words);
  for (const auto& word : {std::string("sh"), std::string("-c"), script}) arguments.push_back(word);
  return arguments;
}

CommandResult rlxrun_sh(const std::string& words, const std::string& script,
                        const CommandOptions& options) {
  return rlxrun(with_sh(words, script), options);
}

Background::Background(const std::vector<std::string>& arguments, const Mark& mark) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  err_ = memfd_create("err", MFD_CLOEXEC);
  std::vector<std::string> words{built("rlxrun"), "-q"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string entry = mark.entry();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    putenv(entry.data());
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(ends[1], 1);
    dup2(err_, 2);
    default_signals();
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  out_ = ends[0];
}

Background::~Background() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close_output();
  close(err_);
}

void Background::close_output() {
  if (out_ >= 0) close(std::exchange(out_, -1));
}

std::string Background::line() {
  constexpr int kPatienceMs = 20000;
  while (true) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    pollfd wait{out_, POLLIN, 0};
    char buffer[4096];
    if (poll(&wait, 1, kPatienceMs) != 1) return "";
    const ssize_t n = read(out_, buffer, sizeof buffer);
    if (n <= 0) return std::exchange(pending_, {});
    pending_.append(buffer, static_cast<std::size_t>(n));
  }
}

void Background::signal(int signal_number) const {
  if (pid_ > 0) kill(pid_, signal_number);
}

bool Background::has_ended() {
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
    pid_ = -1;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return pid_ < 0;
}

int Background::wait() {
  return eventually([this] { return has_ended(); }, 30000) ? code_ : -1;
}

std::string Background::err() const {
  std::string text(1 << 16, '\0');
  const ssize_t n = pread(err_, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

std::vector<std::string> scratch_in(const std::string& parent) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(parent, none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("rlx.") || name.starts_with(".rlx-new.")) found.push_back(name);
  }
  return found;
}

}  // namespace rlx::test
