// SPDX-License-Identifier: MIT OR Apache-2.0
// A set of hardware threads, by the number the operating system gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx {

class CpuSet {
 public:
  // Reads a list such as "0-3,8".
  static Result<CpuSet> parse(std::string_view list);

  void add(unsigned cpu);
  bool has(unsigned cpu) const;
  std::size_t count() const;
  bool empty() const { return count() == 0; }
  std::vector<unsigned> cpus() const;
  // The list form, "" when empty.
  std::string text() const;

  friend CpuSet operator&(const CpuSet& a, const CpuSet& b);
  friend CpuSet operator|(const CpuSet& a, const CpuSet& b);
  friend bool operator==(const CpuSet& a, const CpuSet& b);

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace rlx
