// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

namespace rlx::launcher {
namespace {

// Sockets below it must fit into the 108 bytes of a socket address.
constexpr std::size_t kLongestParent = 60;
constexpr std::string_view kPrefix = "rlx.";
// The name until the lock is held. Nothing removes these: the window is a few microseconds.
constexpr std::string_view kUnlockedPrefix = ".rlx-new.";

Result<std::string> make_locked(const std::string& parent, Fd& lock) {
  if (parent.size() > kLongestParent)
    return fail(Code::kInvalid,
                fmt::format("{} is longer than {} characters", parent, kLongestParent));
  std::string path = fmt::format("{}/{}XXXXXX", parent, kUnlockedPrefix);
  if (!mkdtemp(path.data()))
    return fail_errno(fmt::format("cannot create a directory in {}", parent));
  lock = Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string final_path =
      fmt::format("{}/{}{}", parent, kPrefix, path.substr(path.size() - 6));
  if (!lock || flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      rename(path.c_str(), final_path.c_str()) != 0) {
    const int error = errno;
    rmdir(path.c_str());
    return fail_errno(error, fmt::format("cannot use {}", parent));
  }
  return final_path;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;  // what cannot be removed now may be removed by a later launch
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

Result<std::unique_ptr<Scratch>> Scratch::create(const std::vector<std::string>& parents,
                                                 std::string& note) {
  tl::unexpected<Error> last = fail(Code::kSystem, "no directory for temporary files");
  for (const auto& parent : parents) {
    Fd lock;
    auto path = make_locked(parent, lock);
    if (path) return std::unique_ptr<Scratch>(new Scratch(std::move(*path), std::move(lock)));
    if (note.empty()) note = path.error().text;
    last = tl::unexpected<Error>(std::move(path.error()));
  }
  return last;
}

Scratch::~Scratch() { remove_scratch(path_); }

std::vector<std::string> scratch_directories(const std::string& parent) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(parent.c_str()), closedir);
  while (directory) {
    const dirent* entry = readdir(directory.get());
    if (!entry) break;
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    struct stat info {};
    if (fstatat(dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(info.st_mode) && info.st_uid == geteuid())
      found.push_back(parent + "/" + entry->d_name);
  }
  return found;
}

void remove_stale_scratch(const std::string& parent) {
  for (const auto& path : scratch_directories(parent)) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!fd || fstat(fd.get(), &info) != 0 || info.st_uid != geteuid()) continue;
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) remove_tree(path);
  }
}

void remove_scratch(const std::string& path) {
  remove_tree(path);
  remove_stale_scratch(std::filesystem::path(path).parent_path());
}

}  // namespace rlx::launcher
