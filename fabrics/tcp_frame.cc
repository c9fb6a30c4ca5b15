// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp_frame.h"

#include <bit>
#include <cstring>

namespace rlx::tcp {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Raw {
  std::uint16_t magic;
  std::uint8_t version, kind, type, zero;
  std::uint16_t n_ext;
  std::uint64_t tag, n_pay;
  std::uint32_t serial, check;
};
static_assert(sizeof(Raw) == kFrameHeaderBytes);

constexpr std::uint16_t kMagic = 0x5852;
constexpr std::uint8_t kVersion = 1;

// Notices torn, shifted and flipped bytes; no defence against intent (the greeting is that).
std::uint32_t check_of(const Raw& raw) {
  std::uint64_t word[4];
  std::memcpy(word, &raw, sizeof word);
  word[3] &= 0xffffffff;
  std::uint64_t mix = 0x9e3779b97f4a7c15;
  for (const std::uint64_t w : word) {
    mix = (mix ^ w) * 0xd6e8feb86659fd93;
    mix ^= mix >> 32;
  }
  return static_cast<std::uint32_t>(mix);
}

}  // namespace

void encode_frame_header(const FrameHeader& header, unsigned char out[kFrameHeaderBytes]) {
  Raw raw = {.magic = kMagic,
             .version = kVersion,
             .kind = static_cast<std::uint8_t>(header.kind),
             .type = header.type,
             .zero = 0,
             .n_ext = header.n_ext,
             .tag = header.tag,
             .n_pay = header.n_pay,
             .serial = header.serial,
             .check = 0};
  raw.check = check_of(raw);
  std::memcpy(out, &raw, sizeof raw);
}

const char* decode_frame_header(const unsigned char* in, std::uint32_t expected_serial,
                                FrameHeader& out) {
  Raw raw;
  std::memcpy(&raw, in, sizeof raw);
  if (raw.magic != kMagic) return "no frame starts here";
  if (raw.version != kVersion) return "frame of another version";
  if (raw.check != check_of(raw)) return "damaged frame header";
  if (raw.kind != static_cast<std::uint8_t>(FrameKind::data) &&
      raw.kind != static_cast<std::uint8_t>(FrameKind::bye))
    return "frame of unknown kind";
  if (raw.zero != 0) return "reserved byte is not zero";
  if (raw.n_ext > kMaxExt || raw.n_pay > kMaxPay) return "frame longer than allowed";
  if (raw.serial != expected_serial) return "frame lost or repeated";
  out = {.kind = static_cast<FrameKind>(raw.kind),
         .type = raw.type,
         .n_ext = raw.n_ext,
         .tag = raw.tag,
         .n_pay = raw.n_pay,
         .serial = raw.serial};
  return nullptr;
}

}  // namespace rlx::tcp
