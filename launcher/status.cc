// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/status.h"

#include <dirent.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "launcher/scratch.h"

namespace rlx::launcher {
namespace {

using nlohmann::json;

constexpr std::int64_t kPatienceMs = 2000;

bool make_address(const std::string& directory, sockaddr_un& address) {
  const std::string path = directory + "/status";
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  return true;
}

Fd make_socket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Until the other side closes; false when that takes too long.
bool read_all(int fd, std::string& text) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  char buffer[65536];
  while (true) {
    pollfd wait{fd, POLLIN, 0};
    const std::int64_t left_ms = deadline.left_ns() / 1000000;
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) <= 0) return false;
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return n == 0;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

enum class Answer { kGood, kSilent, kNobody };

Answer ask(const std::string& directory, LauncherStatus& status) {
  sockaddr_un address;
  const Fd fd = make_socket();
  if (!fd || !make_address(directory, address) ||
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return errno == EAGAIN ? Answer::kSilent : Answer::kNobody;  // EAGAIN: too many wait already
  std::string text;
  if (!read_all(fd.get(), text)) return Answer::kSilent;
  auto decoded = decode_status(text);
  if (!decoded) return Answer::kSilent;
  status = std::move(*decoded);
  return Answer::kGood;
}

}  // namespace

std::string encode(const LauncherStatus& status) {
  json ranks = json::array();
  for (const auto& r : status.ranks) ranks.push_back({r.job, r.rank, r.host, r.pid, r.state});
  // What is not UTF-8 in a command is replaced: it is for people to read.
  return json{{"id", status.id},
              {"pid", status.pid},
              {"started", status.started},
              {"command", status.command},
              {"ranks", std::move(ranks)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<LauncherStatus> decode_status(const std::string& text) {
  try {
    const json all = json::parse(text);
    LauncherStatus status;
    all.at("id").get_to(status.id);
    all.at("pid").get_to(status.pid);
    all.at("started").get_to(status.started);
    all.at("command").get_to(status.command);
    for (const json& r : all.at("ranks"))
      status.ranks.push_back({r.at(0).get<std::uint32_t>(), r.at(1).get<std::uint32_t>(),
                              r.at(2).get<std::string>(), r.at(3).get<int>(),
                              r.at(4).get<std::string>()});
    return status;
  } catch (const json::exception& error) {
    return fail(Code::kInvalid, fmt::format("not the status of a launcher: {}", error.what()));
  }
}

StatusService::StatusService(Loop& loop, const std::string& directory, Ask ask)
    : loop_(loop), ask_(std::move(ask)), listener_(make_socket()) {
  constexpr int kWaiting = 16;
  sockaddr_un address;
  if (!listener_ || !make_address(directory, address) ||
      bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_.get(), kWaiting) != 0)
    return;
  watch_ = loop_.on_readable(listener_.get(), [this] { accept_readers(); });
}

void StatusService::accept_readers() {
  while (true) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    const auto reader = readers_.insert(readers_.end(), Reader{std::move(fd), encode(ask_()), {}});
    reader->watch = loop_.on_writable(reader->fd.get(), [this, reader] { write_some(reader); });
  }
}

void StatusService::write_some(std::list<Reader>::iterator reader) {
  const ssize_t n = send(reader->fd.get(), reader->left.data(), reader->left.size(), MSG_NOSIGNAL);
  if (n < 0 && errno == EAGAIN) return;
  if (n > 0) reader->left.erase(0, static_cast<std::size_t>(n));
  if (n <= 0 || reader->left.empty()) readers_.erase(reader);
}

std::vector<LauncherStatus> running_launchers(const std::vector<std::string>& parents,
                                              std::vector<std::string>& silent) {
  std::vector<LauncherStatus> found;
  for (const auto& parent : std::set<std::string>(parents.begin(), parents.end()))
    for (const auto& directory : scratch_directories(parent)) {
      LauncherStatus status;
      const Answer answer = ask(directory, status);
      if (answer == Answer::kGood) found.push_back(std::move(status));
      if (answer == Answer::kSilent) silent.push_back(directory);
    }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.started < b.started; });
  return found;
}

std::string table_of(const std::vector<LauncherStatus>& launchers) {
  std::string out;
  for (const auto& launcher : launchers) {
    std::tm local{};
    localtime_r(&launcher.started, &local);
    out += fmt::format("job {}: pid {}, since {:%Y-%m-%d %H:%M:%S}: {}\n", launcher.id,
                       launcher.pid, local, launcher.command);
    std::size_t width = 4;
    for (const auto& rank : launcher.ranks) width = std::max(width, rank.host.size());
    for (const auto& rank : launcher.ranks) {
      const std::string name =
          rank.job == 0 ? std::to_string(rank.rank) : fmt::format("{}.{}", rank.job, rank.rank);
      out += fmt::format("  rank {:>6}  {:<{}}  pid {:>8}  {}\n", name, rank.host, width,
                         rank.pid < 0 ? "-" : std::to_string(rank.pid), rank.state);
    }
  }
  return out;
}

std::string json_of(const std::vector<LauncherStatus>& launchers) {
  json all = json::array();
  for (const auto& launcher : launchers) {
    json ranks = json::array();
    for (const auto& rank : launcher.ranks)
      ranks.push_back({{"job", rank.job},
                       {"rank", rank.rank},
                       {"host", rank.host},
                       {"pid", rank.pid},
                       {"state", rank.state}});
    all.push_back({{"id", launcher.id},
                   {"pid", launcher.pid},
                   {"started", launcher.started},
                   {"command", launcher.command},
                   {"ranks", ranks}});
  }
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace rlx::launcher
