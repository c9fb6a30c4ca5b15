// SPDX-License-Identifier: MIT OR Apache-2.0
// Which protocol a program wants, from the libraries its ELF header names.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "pmix_glue/server.h"

namespace rlx::pmix {
namespace {

// A file's bytes; every read is checked, as the file may be anything.
class Bytes {
 public:
  explicit Bytes(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    struct stat status;
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      void* at =
          ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) {
        at_ = static_cast<const char*>(at);
        size_ = static_cast<size_t>(status.st_size);
      }
    }
    ::close(fd);
  }
  ~Bytes() {
    if (at_ != nullptr) ::munmap(const_cast<char*>(at_), size_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  template <class T>
  bool read(uint64_t offset, T& out) const {
    if (offset > size_ || size_ - offset < sizeof(T)) return false;
    std::memcpy(&out, at_ + offset, sizeof(T));
    return true;
  }
  std::string_view text(uint64_t offset) const {
    if (offset >= size_) return {};
    return {at_ + offset, ::strnlen(at_ + offset, size_ - offset)};
  }

 private:
  const char* at_ = nullptr;
  size_t size_ = 0;
};

struct Segment {
  uint64_t address, offset, size;
};

// DT_NEEDED entries of a 64-bit ELF file of this machine's byte order; empty for anything else.
std::vector<std::string> needed_libraries(const std::string& path) {
  const Bytes file(path);
  Elf64_Ehdr header;
  if (!file.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  std::vector<Segment> loaded;
  Segment dynamic{};
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.read(header.e_phoff + uint64_t{i} * sizeof segment, segment)) return {};
    const Segment s{segment.p_vaddr, segment.p_offset, segment.p_filesz};
    if (segment.p_type == PT_LOAD) loaded.push_back(s);
    if (segment.p_type == PT_DYNAMIC) dynamic = s;
  }
  uint64_t strings_address = 0;
  std::vector<uint64_t> names;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.size; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    if (!file.read(dynamic.offset + at, entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
  }
  const auto home = std::find_if(loaded.begin(), loaded.end(), [&](const Segment& s) {
    return strings_address >= s.address && strings_address - s.address < s.size;
  });
  if (home == loaded.end()) return {};
  std::vector<std::string> libraries;
  for (const uint64_t name : names)
    libraries.emplace_back(file.text(home->offset + (strings_address - home->address) + name));
  return libraries;
}

}  // namespace

Protocol protocol_of(const std::string& executable) {
  bool mpich = false;
  for (const std::string& library : needed_libraries(executable)) {
    if (library.starts_with("libpmix.so") || library.starts_with("librlx.so"))
      return Protocol::kPmix;
    // Debian's names, and those of the MPICH ABI that MPICH, Intel MPI and MVAPICH share.
    for (const std::string_view name : {"libmpich.so", "libmpichcxx.so", "libmpichfort.so",
                                        "libmpi.so.12", "libmpicxx.so.12", "libmpifort.so.12"})
      mpich = mpich || library.starts_with(name);
  }
  return mpich ? Protocol::kPmi1 : Protocol::kPmix;
}

}  // namespace rlx::pmix
