// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/rank_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

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

// What blocks those who write would block all ranks of the node: a FIFO is refused, at once.
Result<Fd> open_file(const std::string& path, bool append) {
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (append ? O_APPEND : O_TRUNC);
  Fd fd(::open(path.c_str(), how | O_NONBLOCK, 0666));
  if (!fd && errno != ENXIO) return fail_errno(fmt::format("cannot write {}", path));
  struct stat info {};  // ENXIO: nobody reads the FIFO
  if (!fd || fstat(fd.get(), &info) != 0 || !(S_ISREG(info.st_mode) || S_ISCHR(info.st_mode)))
    return fail(Code::kInvalid,
                fmt::format("cannot write {}: want a file or a character device, not a FIFO or "
                            "the like (to read along: --tag-output >FIFO)",
                            path));
  fcntl(fd.get(), F_SETFL, how & O_APPEND);
  return fd;
}

}  // namespace

std::string file_name(const JobSpec& job, std::uint32_t rank, Stream stream) {
  const auto width = std::max<std::size_t>(4, std::to_string(job.ranks.size() - 1).size());
  const std::string& pattern = job.output.files;
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'r':
        name += job.number == 0 ? "" : fmt::format("{}.", job.number);
        name += fmt::format("{:0{}}", rank, width);
        break;
      case 'h':
        name += job.nodes[job.ranks[rank].node];
        break;
      case 'n':
        name += job.id;
        break;
      case 's':
        name += stream == Stream::kStdout ? "out" : "err";
        break;
      default:
        name += pattern[i];
    }
  }
  return name;
}

Status RankFiles::open(const JobSpec& job, std::uint32_t rank) {
  for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
    if (stream == Stream::kStderr && job.output.merge_stderr) continue;
    const std::string path = file_name(job, rank, stream);
    auto& file = by_path_[path];
    if (!file) {
      const auto directory = std::filesystem::path(path).parent_path();
      std::error_code error;
      if (!directory.empty()) std::filesystem::create_directories(directory, error);
      if (error)
        return fail_errno(error.value(), fmt::format("cannot make {}", directory.string()));
      RLX_TRY_ASSIGN(auto fd, open_file(path, job.output.append));
      file = std::make_shared<File>();
      file->fd = std::move(fd);
      file->path = path;
      file->timestamp = job.output.timestamp;
    }
    files_.emplace(Key{{job.number, rank}, stream}, file);
  }
  return {};
}

Status RankFiles::write(RankId rank, Stream stream, const Text& text) {
  const auto found = files_.find({rank, stream});
  if (found == files_.end() || found->second->failed) return {};
  File& file = *found->second;
  // Somebody else is in the middle of a line.
  const bool breaks = !file.at_line_start && file.last != found->first;
  std::string bytes = breaks ? "\n" : "";
  bytes += file.timestamp ? with_prefix(text.bytes, timestamp_now(), breaks || file.at_line_start)
                          : text.bytes;
  file.at_line_start = text.whole;
  file.last = found->first;
  if (write_all(file.fd.get(), bytes)) return {};
  file.failed = true;
  return fail_errno(fmt::format("cannot write {}", file.path));
}

}  // namespace rlx::launcher
