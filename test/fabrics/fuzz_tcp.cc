// SPDX-License-Identifier: MIT OR Apache-2.0
// Sources: fabrics/tcp_frame.cc fabrics/tcp_greeting.cc fabrics/tcp_address.cc
// Sources: fabrics/tcp_stream.cc base/network.cc base/result.cc
// Fuzzes all that the TCP wire reads: addresses, greetings and streams of frames; built and run by
// contrib/fuzz.
#include "test/fabrics/untrusted_tcp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes) {
  rlx::test::try_untrusted(rlx::test::Bytes(data, data + n_bytes));
  return 0;
}
