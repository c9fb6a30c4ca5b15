// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/cpu_set.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace rlx {
namespace {

constexpr unsigned kMaxCpu = 1u << 16;  // a bound on what a typed list may allocate

bool read_number(std::string_view& text, unsigned& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out >= kMaxCpu) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Result<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  std::string_view rest = list;
  while (true) {
    unsigned first = 0;
    if (!read_number(rest, first)) break;
    unsigned last = first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      if (!read_number(rest, last) || last < first) break;
    }
    for (unsigned cpu = first; cpu <= last; ++cpu) set.add(cpu);
    if (rest.empty()) return set;
    if (!rest.starts_with(',')) break;
    rest.remove_prefix(1);
  }
  return fail(Code::kInvalid, "'" + std::string(list) + "' is not a list of cpus such as 0-3,8");
}

void CpuSet::add(unsigned cpu) {
  if (words_.size() <= cpu / 64) words_.resize(cpu / 64 + 1);
  words_[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
}

bool CpuSet::has(unsigned cpu) const {
  return cpu / 64 < words_.size() && (words_[cpu / 64] >> (cpu % 64) & 1);
}

std::size_t CpuSet::count() const {
  std::size_t n = 0;
  for (const auto word : words_) n += static_cast<std::size_t>(std::popcount(word));
  return n;
}

std::vector<unsigned> CpuSet::cpus() const {
  std::vector<unsigned> list;
  for (unsigned cpu = 0; cpu < words_.size() * 64; ++cpu)
    if (has(cpu)) list.push_back(cpu);
  return list;
}

std::string CpuSet::text() const {
  std::string out;
  const auto list = cpus();
  for (std::size_t i = 0; i < list.size();) {
    std::size_t j = i;
    while (j + 1 < list.size() && list[j + 1] == list[j] + 1) ++j;
    if (!out.empty()) out += ',';
    out += std::to_string(list[i]);
    if (j > i) out += '-' + std::to_string(list[j]);
    i = j + 1;
  }
  return out;
}

CpuSet operator&(const CpuSet& a, const CpuSet& b) {
  CpuSet set;
  set.words_.resize(std::min(a.words_.size(), b.words_.size()));
  for (std::size_t i = 0; i < set.words_.size(); ++i) set.words_[i] = a.words_[i] & b.words_[i];
  return set;
}

CpuSet operator|(const CpuSet& a, const CpuSet& b) {
  CpuSet set = a.words_.size() >= b.words_.size() ? a : b;
  const CpuSet& other = a.words_.size() >= b.words_.size() ? b : a;
  for (std::size_t i = 0; i < other.words_.size(); ++i) set.words_[i] |= other.words_[i];
  return set;
}

bool operator==(const CpuSet& a, const CpuSet& b) {
  for (std::size_t i = 0; i < std::max(a.words_.size(), b.words_.size()); ++i)
    if ((i < a.words_.size() ? a.words_[i] : 0) != (i < b.words_.size() ? b.words_[i] : 0))
      return false;
  return true;
}

}  // namespace rlx
