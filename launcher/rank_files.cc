// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/rank_files.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace rlx::launcher {
namespace {

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string file_name(const JobSpec& job, std::uint32_t rank, Stream stream) {
  const auto width = std::max<std::size_t>(4, std::to_string(job.ranks.size() - 1).size());
  return fmt::format("{}/{}rank.{:0{}}.{}", job.output.directory,
                     job.number == 0 ? "" : fmt::format("job.{}.", job.number), rank, width,
                     stream == Stream::kStdout ? "out" : "err");
}

}  // namespace

Status RankFiles::open(const JobSpec& job, std::uint32_t rank) {
  std::error_code error;
  std::filesystem::create_directories(job.output.directory, error);
  if (error) return fail_errno(error.value(), fmt::format("cannot make {}", job.output.directory));
  const int how = job.output.append ? O_APPEND : O_TRUNC;
  for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
    if (stream == Stream::kStderr && job.output.merge_stderr) continue;
    File file;
    file.path = file_name(job, rank, stream);
    file.timestamp = job.output.timestamp;
    file.fd = Fd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666));
    if (!file.fd) return fail_errno(fmt::format("cannot write {}", file.path));
    files_.emplace(std::pair(RankId{job.number, rank}, stream), std::move(file));
  }
  return {};
}

Status RankFiles::write(RankId rank, Stream stream, const Text& text) {
  const auto found = files_.find({rank, stream});
  if (found == files_.end() || found->second.failed) return {};
  File& file = found->second;
  const std::string stamped =
      file.timestamp ? with_prefix(text.bytes, timestamp_now(), file.at_line_start) : std::string();
  file.at_line_start = text.whole;
  if (write_all(file.fd.get(), file.timestamp ? stamped : text.bytes)) return {};
  file.failed = true;
  return fail_errno(fmt::format("cannot write {}", file.path));
}

}  // namespace rlx::launcher
