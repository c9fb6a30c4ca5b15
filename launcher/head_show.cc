// SPDX-License-Identifier: MIT OR Apache-2.0
// What a head shows of its job while it runs: to its user, to --status, to debuggers.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/words.h"
#include "launcher/head.h"
#include "launcher/mpir.h"

namespace rlx::launcher {

// Ten lines a job at most.
void Head::show_progress(const Job& job) {
  const std::size_t size = job.ranks.size(), step = std::max<std::size_t>(1, size / 10);
  if (line_.show_progress && (job.n_started == size || job.n_started % step == 0))
    error(fmt::format("{} of {} started", job.n_started, counted(size, "rank")));
}

LauncherStatus Head::status() const {
  LauncherStatus status;
  status.id = job_id_;
  status.pid = getpid();
  for (const auto& [number, job] : jobs_)
    for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
      const Rank& one = job.ranks[rank];
      status.ranks.push_back({number, rank, job.nodes[job.node_of[rank]], one.pid,
                              one.ended     ? "ended"
                              : one.held    ? "waits in init"
                              : one.started ? "running"
                                            : "starting"});
    }
  return status;
}

void Head::show_table() const {
  std::vector<DebugProcess> table;
  for (const auto& [number, job] : jobs_)
    for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank)
      if (job.ranks[rank].started)
        table.push_back(
            {job.nodes[job.node_of[rank]], job.programs[job.app_of[rank]], job.ranks[rank].pid});
  show_to_debuggers(table);
}

// Of a text that is not whole the last line has more to come, or its rank ended within it.
std::string Head::record_of(RankId id, Stream stream, const Text& text) const {
  const std::string time(trimmed(timestamp_now()));
  std::string_view rest = text.bytes;
  std::string records;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    nlohmann::ordered_json record{{"time", time}};
    if (id.job != 0) record["job"] = id.job;
    record["rank"] = id.rank;
    record["host"] = name_of(id).host;
    record["stream"] = stream == Stream::kStdout ? "out" : "err";
    record["text"] = rest.substr(0, end);
    if (end == rest.size()) record["partial"] = true;
    records += record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return records;
}

}  // namespace rlx::launcher
