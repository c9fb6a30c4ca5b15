// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp_greeting.h"

#include <sodium.h>

#include <cstring>

namespace rlx::tcp {
namespace {

struct Raw {
  std::uint32_t magic;
  std::uint8_t version, kind;
  std::uint16_t zero;
  std::uint32_t from, to;
  unsigned char challenge[16];
  unsigned char mac[32];
};
static_assert(sizeof(Raw) == kGreetingBytes);

constexpr std::uint32_t kMagic = 0x47584c52;  // "RLXG"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kSignedBytes = offsetof(Raw, mac);

void sign(const Raw& raw, const Challenge& theirs, const PairKey& key, unsigned char mac[32]) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), 32);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&raw), kSignedBytes);
  crypto_generichash_update(&state, theirs.data(), theirs.size());
  crypto_generichash_final(&state, mac, 32);
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Challenge random_challenge() {
  Challenge challenge;
  randombytes_buf(challenge.data(), challenge.size());
  return challenge;
}

PairKey pair_key(std::string_view job_id, const Nonce& low, const Nonce& high) {
  PairKey key;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key.size());
  crypto_generichash_update(&state, low.data(), low.size());
  crypto_generichash_update(&state, high.data(), high.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(job_id.data()),
                            job_id.size());
  crypto_generichash_final(&state, key.data(), key.size());
  return key;
}

GreetingBytes encode_greeting(const Greeting& greeting, const Challenge& theirs,
                              const PairKey& key) {
  Raw raw = {.magic = kMagic,
             .version = kVersion,
             .kind = static_cast<std::uint8_t>(greeting.kind),
             .zero = 0,
             .from = static_cast<std::uint32_t>(greeting.from),
             .to = static_cast<std::uint32_t>(greeting.to),
             .challenge = {},
             .mac = {}};
  std::memcpy(raw.challenge, greeting.challenge.data(), sizeof raw.challenge);
  sign(raw, theirs, key, raw.mac);
  GreetingBytes bytes;
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

bool may_be_greeting(const GreetingBytes& bytes, std::size_t n) {
  return std::memcmp(bytes.data(), &kMagic, n < sizeof kMagic ? n : sizeof kMagic) == 0;
}

const char* decode_greeting(const GreetingBytes& bytes, Greeting& out) {
  Raw raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != kMagic) return "not a greeting of rlx";
  if (raw.version != kVersion) return "a greeting of another version of rlx";
  if (raw.kind < 1 || raw.kind > 3 || raw.zero != 0) return "a malformed greeting";
  if (raw.from > INT32_MAX || raw.to > INT32_MAX) return "a greeting with impossible ranks";
  out.kind = static_cast<GreetingKind>(raw.kind);
  out.from = static_cast<int>(raw.from);
  out.to = static_cast<int>(raw.to);
  std::memcpy(out.challenge.data(), raw.challenge, sizeof raw.challenge);
  return nullptr;
}

bool is_genuine(const GreetingBytes& bytes, const Challenge& theirs, const PairKey& key) {
  Raw raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  unsigned char mac[32];
  sign(raw, theirs, key, mac);
  return sodium_memcmp(mac, raw.mac, sizeof mac) == 0;
}

}  // namespace rlx::tcp
