// SPDX-License-Identifier: MIT OR Apache-2.0
#include "checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "failure.h"

namespace train {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little endian");

constexpr char kMagic[8] = {'R', 'L', 'X', 'T', 'R', 'A', 'I', 'N'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMostWidth = 1 << 16;  // of anything in a shape
constexpr std::uint32_t kMostHidden = 64;
constexpr std::size_t kHeaderBytes = 56;
constexpr std::size_t kHashBytes = 8;

struct Header {
  char magic[8];
  std::uint32_t version, context, embedding, hidden, n_hidden, batch;
  std::uint64_t seed, step, n_parameters;
};
static_assert(sizeof(Header) == kHeaderBytes);

// Of a shape whose numbers are in range; below 2^46.
std::uint64_t count_parameters(const Header& h) {
  std::uint64_t n = std::uint64_t{kBytes} * h.embedding;
  std::uint64_t n_in = std::uint64_t{h.context} * h.embedding;
  for (std::uint32_t l = 0; l <= h.n_hidden; ++l) {
    const std::uint64_t n_out = l < h.n_hidden ? h.hidden : kBytes;
    n += (n_in + 1) * n_out;
    n_in = n_out;
  }
  return n;
}

bool in_range(const Header& h) {
  const auto width = [](std::uint32_t n) { return n > 0 && n <= kMostWidth; };
  return width(h.context) && width(h.embedding) && width(h.hidden) && h.n_hidden <= kMostHidden &&
         h.batch >= 8 && h.batch <= 1 << 20 && h.batch % 8 == 0;
}

class TemporaryFile {
 public:
  // Throws Failure (kExitWrite).
  explicit TemporaryFile(const std::string& target)
      : target_(target), path_(target + ".tmp." + std::to_string(::getpid())) {
    struct stat facts {};
    if (::stat(target.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
      errno = EISDIR;  // as rename would say, after the training
      complain();
    }
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) complain();
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!is_kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) complain();
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void replace_target() {
    if (::fsync(fd_) != 0) complain();
    if (::close(std::exchange(fd_, -1)) != 0) complain();
    if (::rename(path_.c_str(), target_.c_str()) != 0) complain();
    is_kept_ = true;
    sync_folder();
  }

 private:
  // The new name survives a power cut only if the folder is on the disk too.
  void sync_folder() const {
    const std::size_t slash = target_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;  // a folder that may be written but not read
    (void)::fsync(fd);
    ::close(fd);
  }
  [[noreturn]] void complain() const {
    throw Failure{kExitWrite, "cannot write the checkpoint " + target_ + ": " +
                                  std::strerror(errno) +
                                  "\nGive another file with --checkpoint, or none."};
  }
  std::string target_, path_;
  int fd_ = -1;
  bool is_kept_ = false;
};

}  // namespace

std::uint64_t hash(std::span<const std::uint8_t> bytes) {
  std::uint64_t h = 0xcbf29ce484222325ULL ^ bytes.size();
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    h = (h ^ word) * 0x100000001b3ULL;
    h ^= h >> 29U;  // the product carries upwards only
  }
  return h;
}

std::vector<std::uint8_t> pack(const State& c) {
  Header header{
      {},      kVersion, c.shape.context, c.shape.embedding,  c.shape.hidden, c.shape.n_hidden,
      c.batch, c.seed,   c.step,          c.parameters.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::vector<std::uint8_t> bytes(kHeaderBytes);
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  for (const auto* array : {&c.parameters, &c.mean, &c.square}) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(array->data());
    bytes.insert(bytes.end(), from, from + array->size() * sizeof(float));
  }
  const std::uint64_t sum = hash(bytes);
  const auto* from = reinterpret_cast<const std::uint8_t*>(&sum);
  bytes.insert(bytes.end(), from, from + kHashBytes);
  return bytes;
}

State unpack(std::span<const std::uint8_t> bytes, const std::string& path) {
  const auto demand = [&](bool fine, const std::string& seen) {
    if (!fine) throw Failure{kExitCheckpoint, "the checkpoint " + path + " " + seen};
  };
  Header h{};
  demand(bytes.size() >= kHeaderBytes + kHashBytes,
         "has " + std::to_string(bytes.size()) + " bytes, too few for one");
  std::memcpy(&h, bytes.data(), kHeaderBytes);
  demand(std::memcmp(h.magic, kMagic, sizeof kMagic) == 0, "was not written by train");
  demand(h.version == kVersion,
         "has version " + std::to_string(h.version) + "; wanted " + std::to_string(kVersion));
  demand(in_range(h) && h.n_parameters == count_parameters(h), "is damaged: its head is no model");
  const std::uint64_t wanted = kHeaderBytes + 3 * sizeof(float) * h.n_parameters + kHashBytes;
  demand(bytes.size() == wanted, "is damaged: it has " + std::to_string(bytes.size()) +
                                     " bytes; wanted " + std::to_string(wanted));
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + wanted - kHashBytes, kHashBytes);
  demand(hash(bytes.first(wanted - kHashBytes)) == sum, "is damaged: its hash does not match");

  State c;
  c.shape = {h.context, h.embedding, h.hidden, h.n_hidden};
  c.batch = h.batch, c.seed = h.seed, c.step = h.step;
  const std::uint8_t* from = bytes.data() + kHeaderBytes;
  for (auto* array : {&c.parameters, &c.mean, &c.square}) {
    array->resize(h.n_parameters);
    std::memcpy(array->data(), from, h.n_parameters * sizeof(float));
    from += h.n_parameters * sizeof(float);
  }
  return c;
}

std::vector<std::uint8_t> read_checkpoint(const std::string& path) {
  const auto demand = [&](bool fine, const char* why) {
    if (!fine) throw Failure{kExitCheckpoint, "cannot read the checkpoint " + path + ": " + why};
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  demand(fd >= 0, std::strerror(errno));
  const struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat facts {};
  demand(::fstat(fd, &facts) == 0, std::strerror(errno));
  demand(S_ISREG(facts.st_mode), "not a regular file");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(facts.st_size));
  std::size_t n_read = 0;
  while (n_read < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + n_read, bytes.size() - n_read);
    if (n < 0 && errno == EINTR) continue;
    demand(n >= 0, std::strerror(errno));
    if (n == 0) break;
    n_read += static_cast<std::size_t>(n);
  }
  bytes.resize(n_read);
  return bytes;
}

void write_checkpoint(const std::string& path, std::span<const std::uint8_t> bytes) {
  TemporaryFile file(path);
  file.write(bytes);
  file.replace_target();
}

void try_checkpoint(const std::string& path) { const TemporaryFile file(path); }

}  // namespace train
