// SPDX-License-Identifier: MIT OR Apache-2.0
#include "text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "failure.h"
#include "random.h"

namespace train {
namespace {

constexpr std::uint64_t kSections = 16;
constexpr std::uint64_t kHeldOutPart = 64;        // one of so many bytes of a section
constexpr std::uint64_t kMostHeldOut = 16 << 10;  // bytes of a section: evaluated in seconds
constexpr std::uint64_t kLeafBytes = 4096;        // the least training text of a leaf
constexpr std::uint64_t kTextBytes = 64 << 10;    // the least text
constexpr const char* kBible = "bible -f gen1:1-rev22:21 2>/dev/null";

struct Cut {
  std::uint64_t section, held_out, training;  // bytes: of a section, and its two parts
};

Cut cut(std::uint64_t n_bytes) {
  const std::uint64_t section = n_bytes / kSections;
  const std::uint64_t held_out = std::min(section / kHeldOutPart, kMostHeldOut);
  return {section, held_out, section - held_out};
}

// Training bytes [begin, begin + out.size()) of the joined training text.
void read_training(const Cut& cut, const Text::Read& read, std::uint64_t begin,
                   std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const std::uint64_t section = begin / cut.training;
    const std::uint64_t at = begin % cut.training;
    const std::uint64_t n = std::min<std::uint64_t>(out.size(), cut.training - at);
    read(section * cut.section + at, out.first(n));
    begin += n;
    out = out.subspan(n);
  }
}

void read_held_out(const Cut& cut, const Text::Read& read, std::span<std::uint8_t> out) {
  for (std::uint64_t s = 0; s < kSections; ++s) {
    read(s * cut.section + cut.training, out.subspan(s * cut.held_out, cut.held_out));
  }
}

class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY)) {
    struct stat facts {};
    if (fd_ < 0 || ::fstat(fd_, &facts) != 0) complain(std::strerror(errno));
    if (!S_ISREG(facts.st_mode)) complain("not a regular file");
    n_bytes_ = static_cast<std::uint64_t>(facts.st_size);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::uint64_t n_bytes() const { return n_bytes_; }
  void read(std::uint64_t offset, std::span<std::uint8_t> out) const {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) complain(std::strerror(errno));
      if (n == 0) complain("it became shorter while it was read");
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
  }

 private:
  [[noreturn]] void complain(const char* why) const {
    throw Failure{kExitText, "cannot read the text " + path_ + ": " + why};
  }
  std::string path_;
  int fd_;
  std::uint64_t n_bytes_ = 0;
};

std::vector<std::uint8_t> run_bible() {
  std::vector<std::uint8_t> text;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(kBible, "r"), ::pclose);
  std::uint8_t part[65536];
  while (pipe) {
    const std::size_t n = std::fread(part, 1, sizeof part, pipe.get());
    if (n == 0) break;
    text.insert(text.end(), part, part + n);
  }
  if (!pipe || ::pclose(pipe.release()) != 0 || text.size() < kTextBytes) {
    throw Failure{kExitText,
                  "the default text needs Debian's bible-kjv, which did not run\n"
                  "Install it (apt-get install bible-kjv) or give a text with --data FILE."};
  }
  return text;
}

void demand_size(std::uint64_t n_bytes, std::uint32_t n_leaves) {
  const std::uint64_t wanted = std::max(kTextBytes, 2 * kLeafBytes * n_leaves);
  if (n_bytes >= wanted) return;
  throw Failure{kExitText, "the text has " + std::to_string(n_bytes) +
                               (n_bytes == 1 ? " byte" : " bytes") + "; wanted at least " +
                               std::to_string(wanted)};
}

std::uint64_t leaf_begin(std::uint64_t n_training, std::uint32_t leaf, std::uint32_t total) {
  return n_training / total * leaf;
}

}  // namespace

Leaves leaves_of(int rank, int n_ranks, std::uint32_t total) {
  const auto split = [&](int r) {
    return static_cast<std::uint32_t>(std::uint64_t{total} * static_cast<std::uint64_t>(r) /
                                      static_cast<std::uint64_t>(n_ranks));
  };
  return {total, split(rank), split(rank + 1)};
}

Text Text::load(const std::string& path, const rlx::Comm& comm, const Leaves& leaves) {
  Text text;
  text.leaves_ = leaves;
  if (!path.empty()) {
    together(comm, [&] {
      const File file(path);
      demand_size(file.n_bytes(), leaves.total);
      text.read([&](std::uint64_t offset, auto out) { file.read(offset, out); }, file.n_bytes());
    });
    return text;
  }
  std::vector<std::uint8_t> whole;
  together(comm, [&] {
    if (comm.rank() != 0) return;
    whole = run_bible();
    demand_size(whole.size(), leaves.total);
  });
  text.scatter(whole, comm);
  return text;
}

void Text::set_size(std::uint64_t n_bytes) {
  const Cut c = cut(n_bytes);
  n_training_ = c.training * kSections;
  held_out_.resize(c.held_out * kSections);
  shard_.resize(leaf_begin(n_training_, leaves_.end, leaves_.total) -
                leaf_begin(n_training_, leaves_.begin, leaves_.total));
}

void Text::read(const Read& read, std::uint64_t n_bytes) {
  set_size(n_bytes);
  const Cut c = cut(n_bytes);
  read_training(c, read, leaf_begin(n_training_, leaves_.begin, leaves_.total), shard_);
  read_held_out(c, read, held_out_);
}

void Text::scatter(std::span<const std::uint8_t> whole, const rlx::Comm& comm) {
  set_size(comm.broadcast<std::uint64_t>(whole.size()));
  std::vector<std::uint8_t> training;
  if (comm.rank() == 0) {
    const Cut c = cut(whole.size());
    const Read from_memory = [&](std::uint64_t offset, std::span<std::uint8_t> out) {
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    };
    training.resize(n_training_);
    read_training(c, from_memory, 0, training);
    read_held_out(c, from_memory, held_out_);
  }
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> displs;
  for (int r = 0; r < comm.size(); ++r) {
    const Leaves theirs = leaves_of(r, comm.size(), leaves_.total);
    displs.push_back(leaf_begin(n_training_, theirs.begin, leaves_.total));
    counts.push_back(leaf_begin(n_training_, theirs.end, leaves_.total) - displs.back());
  }
  comm.scatterv(training, counts, displs, shard_);
  comm.broadcast(held_out_);
}

std::span<const std::uint8_t> Text::leaf(std::uint32_t leaf) const {
  const std::uint64_t n = n_training_ / leaves_.total;
  return std::span(shard_).subspan((leaf - leaves_.begin) * n, n);
}

void draw_window(std::span<const std::uint8_t> leaf, std::uint64_t i, std::uint64_t seed,
                 std::span<std::uint8_t> window) {
  // Steps of about the golden ratio of n visit every position once in n draws if coprime to n.
  const std::uint64_t n = leaf.size() - window.size() + 1;
  std::uint64_t stride = static_cast<std::uint64_t>(static_cast<double>(n) * 0.6180339887498949);
  while (std::gcd(stride, n) != 1) ++stride;
  const std::uint64_t first = Random(seed).next() % n;
  const auto at =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(i % n) * stride + first) % n);
  std::copy_n(leaf.begin() + static_cast<std::ptrdiff_t>(at), window.size(), window.begin());
}

}  // namespace train
