// SPDX-License-Identifier: MIT OR Apache-2.0
// Any text as a file of programs.
// Sources: launcher/app_file.cc launcher/shell_words.cc base/file.cc base/result.cc
#include <cstddef>
#include <cstdint>

#include "launcher/app_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto words = rlx::launcher::parse_app_file(text, "fuzz");
  if (words && (words->empty() || words->size() > 2 * size)) __builtin_trap();
  return 0;
}
