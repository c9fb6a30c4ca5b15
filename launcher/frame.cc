// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace rlx::launcher {
namespace {

constexpr std::size_t kLengthBytes = 4, kHeaderBytes = 9;

}  // namespace

FrameBytes encode(const Frame& frame) {
  ByteWriter out;
  out.put(static_cast<std::uint32_t>(kHeaderBytes + frame.body.size()));
  out.put(static_cast<std::uint8_t>(frame.kind));
  out.put(frame.from);
  out.put(frame.to);
  return std::make_shared<const std::string>(out.take() + frame.body);
}

void FrameReader::take(std::string_view bytes) {
  if (used_ > 0) bytes_.erase(0, std::exchange(used_, 0));
  bytes_.append(bytes);
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(used_);
  if (rest.size() < kLengthBytes) return std::nullopt;
  ByteReader in(rest);
  const std::size_t n = in.get<std::uint32_t>();
  if (n < kHeaderBytes || n > kMaxFrame)
    return fail(Code::kInvalid, fmt::format("a frame of {} bytes", n));
  if (rest.size() < kLengthBytes + std::min(n, kHeaderBytes)) return std::nullopt;
  const auto kind = in.get<std::uint8_t>();
  if (kind < static_cast<std::uint8_t>(Kind::kPing) ||
      kind > static_cast<std::uint8_t>(Kind::kLast))
    return fail(Code::kInvalid, fmt::format("a frame of unknown kind {}", kind));
  if (rest.size() < kLengthBytes + n) return std::nullopt;
  Frame frame;
  frame.kind = static_cast<Kind>(kind);
  frame.from = in.get<std::uint32_t>();
  frame.to = in.get<std::uint32_t>();
  frame.body = rest.substr(kLengthBytes + kHeaderBytes, n - kHeaderBytes);
  used_ += kLengthBytes + n;
  return frame;
}

}  // namespace rlx::launcher
