// SPDX-License-Identifier: MIT OR Apache-2.0
// How two ranks make sure of each other on a fresh TCP connection. The one that dialled speaks
// first; each message is 64 bytes:
//
//   dialler -> acceptor   hello    from, to, challenge d, MAC(key, hello, from, to, d)
//   acceptor -> dialler   welcome  from, to, challenge a, MAC(key, welcome, from, to, a, d)
//   dialler -> acceptor   confirm  from, to, challenge d, MAC(key, confirm, from, to, d, a)
//
// Key: a hash of the job id and both ranks' nonces. A nonce is 32 random bytes that a rank
// publishes with its address through the bootstrap, so whoever can compute the key was let into
// this job by the bootstrap. This keeps out strangers, other jobs, wrong hosts behind a reused
// address and replayed greetings. It is no protection against somebody who can change packets on
// the way: the stream behind the greeting is neither encrypted nor authenticated.
//
//   offset  0  u32  magic 'RLXG'      4  u8 version 1   5  u8 kind   6  u16 0
//           8  u32  from  12  u32 to  16  challenge (16)  32  MAC (32)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rlx::tcp {

inline constexpr std::size_t kGreetingBytes = 64;
using Nonce = std::array<unsigned char, 32>;
using Challenge = std::array<unsigned char, 16>;
using PairKey = std::array<unsigned char, 32>;
using GreetingBytes = std::array<unsigned char, kGreetingBytes>;

enum class GreetingKind : std::uint8_t { hello = 1, welcome = 2, confirm = 3 };

struct Greeting {
  GreetingKind kind = GreetingKind::hello;
  int from = 0;
  int to = 0;
  Challenge challenge{};
};

Nonce random_nonce();
Challenge random_challenge();

// `low` and `high` are the nonces of the lower and the higher rank.
PairKey pair_key(std::string_view job_id, const Nonce& low, const Nonce& high);

// `theirs`: the challenge that the other side sent before (all zero in a hello).
GreetingBytes encode_greeting(const Greeting& greeting, const Challenge& theirs,
                              const PairKey& key);

// True if the first `n` bytes of `bytes` can be the start of a greeting.
bool may_be_greeting(const GreetingBytes& bytes, std::size_t n);

// Reads a greeting without trusting it: ranks are not negative, nothing else is promised. Returns
// nullptr or what is wrong.
const char* decode_greeting(const GreetingBytes& bytes, Greeting& out);
bool is_genuine(const GreetingBytes& bytes, const Challenge& theirs, const PairKey& key);

}  // namespace rlx::tcp
