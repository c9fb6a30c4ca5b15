// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/rank_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "base/words.h"
#include "launcher/option_values.h"

namespace rlx::launcher {
namespace {

tl::unexpected<Error> wrong(const std::string& place, std::string_view line) {
  return fail(Code::kInvalid,
              fmt::format("{}: '{}' is not 'rank N=HOST [slot=CORES or PACKAGE:CORES]'", place,
                          excerpt(line)));
}

// "0-3,8", "1:0-2", "0:0,1:*": commas separate parts where a colon follows, else cores.
bool read_parts(std::string_view list, std::vector<RankLine::Part>& parts) {
  while (!list.empty()) {
    RankLine::Part part;
    const auto colon = list.find(':');
    if (colon != std::string_view::npos) {
      const auto package = read_count(list.substr(0, colon), 0);
      if (!package) return false;
      part.package = *package;
      list.remove_prefix(colon + 1);
    }
    const auto next = list.find(':');  // of the next package, whose number stands before it
    const auto end = next == std::string_view::npos ? list.size() : list.rfind(',', next);
    if (end == std::string_view::npos) return false;
    const auto cores = list.substr(0, end);
    if (cores != "*") {
      const auto read = CpuSet::parse(cores);
      if (!read) return false;
      part.cores = *read;
    }
    parts.push_back(std::move(part));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return !parts.empty();
}

}  // namespace

Result<std::vector<RankLine>> parse_rank_file(std::string_view text, const std::string& name) {
  std::vector<RankLine> ranks;
  // Every rank has a line, so no rank is beyond their number.
  const auto n_lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = fmt::format("{}:{}", name, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word, host, slot, more;
    if (!(words >> word)) continue;
    words >> host >> slot >> more;
    const auto equals = host.find('=');
    const auto rank = read_count(host.substr(0, equals), 0);
    if (word != "rank" || equals == std::string::npos || equals + 1 == host.size() || !rank ||
        static_cast<std::size_t>(*rank) > n_lines || !more.empty())
      return wrong(place, line);
    RankLine entry{host.substr(equals + 1), {}, place};
    if (!slot.empty() && (!slot.starts_with("slot=") || !read_parts(slot.substr(5), entry.parts)))
      return wrong(place, line);
    const auto index = static_cast<std::size_t>(*rank);
    if (index >= ranks.size()) ranks.resize(index + 1);
    if (!ranks[index].host.empty())
      return fail(Code::kInvalid, fmt::format("{}: rank {} is placed by {} already", place, *rank,
                                              ranks[index].source));
    ranks[index] = std::move(entry);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].host.empty())
      return fail(Code::kInvalid, fmt::format("{}: no line places rank {}", name, rank));
  if (ranks.empty()) return fail(Code::kInvalid, fmt::format("{}: this file places no rank", name));
  return ranks;
}

Status read_rank_file(const std::string& path, MapOptions& map) {
  RLX_TRY_ASSIGN(const auto text, read_file(path));
  RLX_TRY_ASSIGN(map.rank_lines, parse_rank_file(text, path));
  map.by = MapBy::kRankFile;
  map.by_said = true;
  return {};
}

}  // namespace rlx::launcher
