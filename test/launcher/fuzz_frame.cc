// SPDX-License-Identifier: MIT OR Apache-2.0
// A daemon's or a head's link, fed with anything: no crash, no call with what is out of bounds, and
// what is accepted is written and read back as the same bytes.
// Sources: launcher/frame.cc launcher/node_codec.cc base/cpu_set.cc base/result.cc
#include <cstdint>
#include <cstdlib>

#include "launcher/node_codec.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

void expect(bool good) {
  if (!good) abort();
}

void try_frame(const Frame& frame) {
  std::string again;
  const auto keep = [&](const Frame& sent) { again = sent.body; };
  NodeSender node(frame.to, keep);
  if (deliver(frame, node)) {
    std::string once = std::exchange(again, {});
    expect(deliver(Frame{frame.kind, frame.from, frame.to, once}, node).has_value());
    expect(again == once);
  }
  EventSender head(frame.from, keep);
  if (deliver(frame, head)) {
    std::string once = std::exchange(again, {});
    expect(deliver(Frame{frame.kind, frame.from, frame.to, once}, head).has_value());
    expect(again == once);
  }
  if (const auto hello = decode_hello(frame.body)) expect(!encode(*hello).empty());
  if (const auto welcome = decode_welcome(frame.body)) expect(!encode(*welcome).empty());
  if (const auto lost = decode_lost(frame.body)) expect(!encode(*lost).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FrameReader reader;
  reader.take(bytes.substr(0, size / 2));
  reader.take(bytes.substr(size / 2));
  while (true) {
    const auto frame = reader.next();
    if (!frame || !*frame) break;
    try_frame(**frame);
  }
  if (size > 0)  // the bodies without the luck of a right length
    try_frame({static_cast<Kind>(data[0] % 32), 0, 0, std::string(bytes.substr(1))});
  return 0;
}
