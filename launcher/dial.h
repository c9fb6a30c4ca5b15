// SPDX-License-Identifier: MIT OR Apache-2.0
// Connections that daemons make to the head, where they are not started through a pipe (srun, or by
// hand). Each side proves to the other that it knows the secret of this launch, without saying it:
//
//   head   → daemon   NONCE_H
//   daemon → head     NONCE_D MAC(secret, "daemon", NONCE_H, NONCE_D, NAME) NAME
//   head   → daemon   MAC(secret, "head", NONCE_H, NONCE_D, NAME)
//                     (or "taken" instead of "head": there is one of that name already)
//
// as lines of text, MACs and nonces in hexadecimal. Then the socket is used as a pipe would be.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/network.h"
#include "base/result.h"
#include "launcher/loop.h"

namespace rlx::launcher {

class Secret {
 public:
  static Secret random();
  static Result<Secret> from_text(std::string_view hexadecimal);
  std::string text() const;
  // Of `who` over the other words.
  std::string proof(std::string_view who, const std::string& nonce_head,
                    const std::string& nonce_daemon, const std::string& name) const;

 private:
  std::array<unsigned char, 32> key_{};
};

// Where a daemon finds the head, as one line of text: the secret, addresses by comma, and its name
// if it is told that.
struct Invitation {
  Secret secret;
  std::vector<SocketAddress> heads;
  std::string name;
};
std::string to_text(const Invitation& invitation);
Result<Invitation> read_invitation(std::string_view line);

struct ListenerCalls {
  std::function<bool(const std::string& name)> is_taken;
  std::function<void(const std::string& name, Fd socket)> arrived;
  // Of a caller that does not know the secret: its address.
  std::function<void(const std::string& from)> turned_away;
};

// The head's side. Connections of strangers are closed.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> open(Loop& loop, const Secret& secret,
                                                ListenerCalls calls);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // All addresses of this host at which it may be found, most useful first.
  const std::vector<SocketAddress>& addresses() const { return addresses_; }

 private:
  struct Caller {
    Fd socket;
    std::string nonce, said;
    Watch readable, patience;
  };
  Listener(Loop& loop, const Secret& secret, ListenerCalls calls)
      : loop_(loop), secret_(secret), calls_(std::move(calls)) {}
  void accept_one();
  void hear(int id);

  Loop& loop_;
  Secret secret_;
  ListenerCalls calls_;
  Fd socket_;
  std::vector<SocketAddress> addresses_;
  std::map<int, Caller> callers_;
  int next_id_ = 0;
  Watch readable_;
};

// The daemon's side: tries all addresses at once, and takes the first head that proves itself.
Result<Fd> dial(const Invitation& invitation, const std::string& name);

}  // namespace rlx::launcher
