// SPDX-License-Identifier: MIT OR Apache-2.0
// Sources: contrib/examples/train/checkpoint.cc
// Fuzzes the checkpoint parser; built and run by contrib/fuzz. The hash is put right, or the
// fuzzer would never see what lies behind it.
#include <cstring>

#include "contrib/examples/train/checkpoint.h"
#include "contrib/examples/train/failure.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes) {
  std::vector<std::uint8_t> bytes(data, data + n_bytes);
  if (n_bytes >= 8) {
    const std::uint64_t sum = train::hash(std::span(bytes).first(n_bytes - 8));
    std::memcpy(bytes.data() + n_bytes - 8, &sum, 8);
  }
  try {
    const train::State state = train::unpack(bytes, "fuzz");
    if (train::pack(state) != bytes) __builtin_trap();
  } catch (const train::Failure&) {
  }
  return 0;
}
