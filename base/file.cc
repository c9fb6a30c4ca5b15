// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/fd.h"

namespace rlx {

Result<std::string> read_file(const std::string& path, std::size_t most) {
  constexpr std::size_t kLeast = 64 << 10;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("cannot open " + path);
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode))
    return fail(Code::kInvalid, path + " is a directory, want a file");
  std::string text;
  std::size_t size = 0;
  while (size <= most) {
    // What it says it holds and a byte more: most files end in two calls.
    const auto said = static_cast<std::size_t>(std::max<off_t>(0, status.st_size));
    if (size == text.size()) text.resize(std::min(most, std::max({said, kLeast, 2 * size})) + 1);
    const ssize_t n = ::read(file.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read " + path);
    if (n == 0) {
      text.resize(size);
      return text;
    }
    size += static_cast<std::size_t>(n);
  }
  return fail(Code::kInvalid, fmt::format("{} is larger than {} bytes", path, most));
}

Status print_out(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return {};
  return fail_errno("cannot write standard output");
}

}  // namespace rlx
