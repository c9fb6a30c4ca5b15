// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/lines.h"

#include <fmt/format.h>

#include <ctime>

#include "base/words.h"

namespace rlx::launcher {

std::vector<Text> LineAssembler::take(std::string_view bytes) {
  std::vector<Text> out;
  // "\r\n" may arrive in two halves: the first then waits for the second.
  std::size_t end =
      return_ends_line_ && !bytes.ends_with('\r') ? bytes.find_last_of("\r\n") : bytes.rfind('\n');
  if (end != std::string_view::npos) {
    rest_.append(bytes.substr(0, end + 1));
    out.push_back({flush(), true});
    bytes.remove_prefix(end + 1);
  }
  rest_.append(bytes);
  if (rest_.size() <= limit_) return out;
  std::string begun = rest_.substr(whole_characters(rest_));
  rest_.resize(rest_.size() - begun.size());
  out.push_back({std::exchange(rest_, std::move(begun)), false});
  return out;
}

std::string timestamp_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03} ", local.tm_year + 1900,
                     local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                     now.tv_nsec / 1000000);
}

std::string with_prefix(std::string_view bytes, const std::string& prefix, bool at_line_start) {
  std::string out;
  out.reserve(bytes.size() + prefix.size() * 8);
  while (!bytes.empty()) {
    std::size_t end = bytes.find_first_of("\r\n");
    if (end != std::string_view::npos && bytes.substr(end).starts_with("\r\n")) ++end;
    end = end == std::string_view::npos ? bytes.size() : end + 1;
    if (at_line_start) out += prefix;
    out += bytes.substr(0, end);
    bytes.remove_prefix(end);
    at_line_start = true;
  }
  return out;
}

std::string with_returns(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c == '\n') out += '\r';
    out += c;
  }
  return out;
}

}  // namespace rlx::launcher
