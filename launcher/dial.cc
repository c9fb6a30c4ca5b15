// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/dial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "base/clock.h"
#include "base/words.h"

namespace rlx::launcher {
namespace {

constexpr std::size_t kMostLine = 1024;
constexpr std::size_t kMostCallers = 8192;
constexpr double kPatience = 10;  // seconds for a caller to prove itself
constexpr int kDialMs = 10000;

std::string hexadecimal(const unsigned char* bytes, std::size_t n) {
  std::string text(2 * n + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes, n);
  text.pop_back();
  return text;
}

std::string random_text() {
  unsigned char bytes[16];
  randombytes_buf(bytes, sizeof bytes);
  return hexadecimal(bytes, sizeof bytes);
}

bool equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

// A peer that vanished is noticed by the kernel too.
void set_up(int socket) {
  constexpr int kOn = 1, kIdleS = 10, kIntervalS = 5, kUserMs = 30000;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof kIdleS);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof kIntervalS);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserMs, sizeof kUserMs);
}

bool send_line(int socket, std::string line) {
  line += '\n';
  return send(socket, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
}

Result<SocketAddress> read_address(const std::string& word) {
  const auto colon = word.rfind(':');
  std::string host = word.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  SocketAddress address;
  const auto ip = parse_ip(host);
  const char* const end = word.data() + word.size();
  const auto port = colon == std::string::npos
                        ? std::from_chars_result{end, std::errc::invalid_argument}
                        : std::from_chars(word.data() + colon + 1, end, address.port);
  if (!ip || port.ec != std::errc() || port.ptr != end)
    return fail(Code::kInvalid, fmt::format("'{}' is no address", word));
  address.ip = *ip;
  return address;
}

}  // namespace

Secret Secret::random() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot start");
  Secret secret;
  static_assert(sizeof secret.key_ == crypto_auth_KEYBYTES);
  randombytes_buf(secret.key_.data(), secret.key_.size());
  return secret;
}

Result<Secret> Secret::from_text(std::string_view text) {
  Secret secret;
  std::size_t n = 0;
  if (sodium_init() < 0 ||
      sodium_hex2bin(secret.key_.data(), secret.key_.size(), text.data(), text.size(), nullptr, &n,
                     nullptr) != 0 ||
      n != secret.key_.size() || text.size() != 2 * n)
    return fail(Code::kInvalid, "the first word is no secret of a launch");
  return secret;
}

std::string Secret::text() const { return hexadecimal(key_.data(), key_.size()); }

std::string Secret::proof(std::string_view who, const std::string& nonce_head,
                          const std::string& nonce_daemon, const std::string& name) const {
  const std::string words = fmt::format("{} {} {} {}", who, nonce_head, nonce_daemon, name);
  unsigned char mac[crypto_auth_BYTES];
  crypto_auth(mac, reinterpret_cast<const unsigned char*>(words.data()), words.size(), key_.data());
  return hexadecimal(mac, sizeof mac);
}

std::string to_text(const Invitation& invitation) {
  std::vector<std::string> heads;
  for (const auto& head : invitation.heads) heads.push_back(to_string(head));
  return fmt::format("{} {}{}{}", invitation.secret.text(), fmt::join(heads, ","),
                     invitation.name.empty() ? "" : " ", invitation.name);
}

Result<Invitation> read_invitation(std::string_view line) {
  const auto words = words_of(line, " ");
  if (words.size() < 2 || words.size() > 3)
    return fail(Code::kInvalid,
                "the invitation on standard input is not 'SECRET ADDRESS,... [NAME]'");
  Invitation invitation;
  RLX_TRY_ASSIGN(invitation.secret, Secret::from_text(words[0]));
  for (const auto& word : words_of(words[1], ",")) {
    RLX_TRY_ASSIGN(const auto address, read_address(word));
    invitation.heads.push_back(address);
  }
  if (words.size() == 3) invitation.name = words[2];
  return invitation;
}

Result<std::unique_ptr<Listener>> Listener::open(Loop& loop, const Secret& secret,
                                                 ListenerCalls calls) {
  std::unique_ptr<Listener> listener(new Listener(loop, secret, std::move(calls)));
  // One socket for both families; without IPv6, one for IPv4.
  sockaddr_storage bound = {};
  bound.ss_family = AF_INET6;
  socklen_t size = sizeof(sockaddr_in6);
  Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int kOff = 0;
  if (socket) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof kOff);
  if (!socket || bind(socket.get(), reinterpret_cast<sockaddr*>(&bound), size) != 0) {
    socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    bound = {};
    bound.ss_family = AF_INET;
    size = sizeof(sockaddr_in);
    if (!socket || bind(socket.get(), reinterpret_cast<sockaddr*>(&bound), size) != 0)
      return fail_errno("cannot open a socket for daemons");
  }
  size = sizeof bound;
  if (listen(socket.get(), SOMAXCONN) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return fail_errno("cannot listen for daemons");
  const auto port = from_sockaddr(bound).port;
  RLX_TRY_ASSIGN(auto interfaces, list_interfaces());
  sort_by_use(interfaces);
  for (const auto& interface : interfaces)
    if (bound.ss_family == AF_INET6 || !interface.ip.v6)
      listener->addresses_.push_back({interface.ip, port, false});
  listener->socket_ = std::move(socket);
  Listener* raw = listener.get();
  listener->readable_ = loop.on_readable(raw->socket_.get(), [raw] { raw->accept_one(); });
  return listener;
}

void Listener::accept_one() {
  Fd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket || callers_.size() >= kMostCallers) return;
  set_up(socket.get());
  const int id = next_id_++;
  Caller& caller = callers_[id];
  caller.nonce = random_text();
  caller.socket = std::move(socket);
  caller.readable = loop_.on_readable(caller.socket.get(), [this, id] { hear(id); });
  caller.patience = loop_.after(kPatience, [this, id] { callers_.erase(id); });
  if (!send_line(caller.socket.get(), caller.nonce)) callers_.erase(id);
}

void Listener::hear(int id) {
  Caller& caller = callers_.at(id);
  char c = 0;
  ssize_t n = 0;
  // No byte behind the line may be taken: it belongs to the link.
  while (caller.said.size() < kMostLine && (n = read(caller.socket.get(), &c, 1)) == 1 && c != '\n')
    caller.said += c;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Caller last = std::move(caller);
  callers_.erase(id);
  if (last.said.empty()) return;
  const auto words = words_of(last.said, " ");
  if (n != 1 || c != '\n' || words.size() != 3 ||
      !equal(words[1], secret_.proof("daemon", last.nonce, words[0], words[2])))
    return calls_.turned_away(other_end(last.socket.get()));
  const bool taken = calls_.is_taken(words[2]);
  const auto answer = secret_.proof(taken ? "taken" : "head", last.nonce, words[0], words[2]);
  if (send_line(last.socket.get(), answer) && !taken)
    calls_.arrived(words[2], std::move(last.socket));
}

namespace {

// A line without its end; "" when none comes in time.
std::string read_line(int socket, const Deadline& deadline) {
  std::string line;
  while (line.size() < kMostLine) {
    pollfd wait{socket, POLLIN, 0};
    const auto left_ms = static_cast<int>(std::max<std::int64_t>(deadline.left_ns() / 1000000, 0));
    if (poll(&wait, 1, left_ms) <= 0) return "";
    char c = 0;
    if (read(socket, &c, 1) != 1) return "";
    if (c == '\n') return line;
    line += c;
  }
  return "";
}

enum class Answer { kNone, kRefused, kTaken, kProven };

Answer prove(int socket, const Invitation& invitation, const std::string& name,
             const Deadline& deadline) {
  const std::string nonce_head = read_line(socket, deadline), nonce = random_text();
  if (nonce_head.size() != nonce.size()) return Answer::kNone;
  const auto proof = [&](const char* who) {
    return invitation.secret.proof(who, nonce_head, nonce, name);
  };
  if (!send_line(socket, fmt::format("{} {} {}", nonce, proof("daemon"), name)))
    return Answer::kNone;
  const std::string answer = read_line(socket, deadline);
  if (equal(answer, proof("head"))) return Answer::kProven;
  if (equal(answer, proof("taken"))) return Answer::kTaken;
  return deadline.passed() ? Answer::kNone : Answer::kRefused;
}

}  // namespace

Result<Fd> dial(const Invitation& invitation, const std::string& name) {
  std::vector<Fd> sockets;
  std::vector<pollfd> waits;
  std::vector<std::string> tried;
  for (const auto& head : invitation.heads) {
    sockaddr_storage address;
    const socklen_t size = to_sockaddr(head, address);
    tried.push_back(to_string(head));
    Fd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 &&
        errno != EINPROGRESS)
      continue;
    waits.push_back({socket.get(), POLLOUT, 0});
    sockets.push_back(std::move(socket));
  }
  std::string refused_by;
  const Deadline deadline = Deadline::after_ms(kDialMs);
  while (!sockets.empty() && deadline.left_ns() > 0) {
    if (poll(waits.data(), waits.size(), static_cast<int>(deadline.left_ns() / 1000000) + 1) <= 0)
      break;
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (waits[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(sockets[i].get(), SOL_SOCKET, SO_ERROR, &error, &size);
      // Somebody else may have that address here: every docker0 is 172.17.0.1.
      constexpr int kProveMs = 3000;
      const Answer answer =
          error != 0 ? Answer::kNone
                     : prove(sockets[i].get(), invitation, name, Deadline::after_ms(kProveMs));
      if (answer == Answer::kProven) {
        set_up(sockets[i].get());
        return std::move(sockets[i]);
      }
      if (answer == Answer::kTaken)
        return fail(Code::kInvalid, fmt::format("{} has called in already; is this its line for "
                                                "the second time?",
                                                name));
      if (answer == Answer::kRefused) refused_by = other_end(sockets[i].get());
      sockets.erase(sockets.begin() + static_cast<std::ptrdiff_t>(i));
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  if (!refused_by.empty())
    return fail(Code::kInvalid,
                fmt::format("the head of the job at {} refused {}: the secret is of another launch "
                            "(an old line?)",
                            refused_by, name));
  return fail(Code::kUnreachable, fmt::format("{} cannot reach the head of the job at any of {}",
                                              name, fmt::join(tried, ", ")));
}

}  // namespace rlx::launcher
