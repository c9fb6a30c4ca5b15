// SPDX-License-Identifier: MIT OR Apache-2.0
// What a TCP stream carries between two ranks once they have greeted each other: frames of
//
//   offset  0  u16  magic 0x5852
//           2  u8   version 1
//           3  u8   kind: 1 data, 2 bye (the sender left in good order; nothing follows)
//           4  u8   type    of the frame above this wire
//           5  u8   0
//           6  u16  n_ext   bytes of ext, right behind this header
//           8  u64  tag
//          16  u64  n_pay   bytes of payload, right behind ext
//          24  u32  serial  0, 1, 2, ... in each direction, modulo 2^32
//          28  u32  check   a mix of the 28 bytes before
//
// little-endian. The reader trusts nothing: lengths are bounded before anything is allocated, and
// a header that is not exactly the next one of this stream ends the link.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rlx::tcp {

inline constexpr std::size_t kFrameHeaderBytes = 32;
inline constexpr std::uint32_t kMaxExt = 256;
// Large enough that the cost of a frame (place, on_frame, one more system call) is lost in the
// copy.
inline constexpr std::uint32_t kMaxPay = 512 * 1024;

enum class FrameKind : std::uint8_t { data = 1, bye = 2 };

struct FrameHeader {
  FrameKind kind = FrameKind::data;
  std::uint8_t type = 0;
  std::uint16_t n_ext = 0;
  std::uint64_t tag = 0;
  std::uint64_t n_pay = 0;
  std::uint32_t serial = 0;
};

void encode_frame_header(const FrameHeader& header, unsigned char out[kFrameHeaderBytes]);

// Reads the kFrameHeaderBytes at `in` into `out`. Returns nullptr, or what is wrong with them;
// `out` is then unchanged.
const char* decode_frame_header(const unsigned char* in, std::uint32_t expected_serial,
                                FrameHeader& out);

}  // namespace rlx::tcp
