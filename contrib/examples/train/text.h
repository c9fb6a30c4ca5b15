// SPDX-License-Identifier: MIT OR Apache-2.0
// The text, cut so that what is held out is the same for any number of ranks: the text is 16
// sections, of which the last 64th each, or 16 KiB, is held out; the rest, joined, is the training
// text, and leaf l of n gets its l-th n-th. A rank keeps the bytes of its own leaves only.
#pragma once

#include <cstdint>
#include <functional>
#include <rlx/rlx.hpp>
#include <span>
#include <string>
#include <vector>

namespace train {

// Leaves [begin, end) of `total` are this rank's.
struct Leaves {
  std::uint32_t total = 1;
  std::uint32_t begin = 0;
  std::uint32_t end = 1;
};
Leaves leaves_of(int rank, int n_ranks, std::uint32_t total);

class Text {
 public:
  using Read = std::function<void(std::uint64_t offset, std::span<std::uint8_t> out)>;

  // Collective. path empty: the King James Bible, which rank 0 gets from `bible` and scatters;
  // otherwise every rank reads its part of the file. Throws Failure (kExitText) on all ranks.
  static Text load(const std::string& path, const rlx::Comm& comm, const Leaves& leaves);

  std::uint64_t n_training() const { return n_training_; }  // bytes, all leaves
  std::span<const std::uint8_t> held_out() const { return held_out_; }
  // Training bytes of one of this rank's leaves.
  std::span<const std::uint8_t> leaf(std::uint32_t leaf) const;

 private:
  void set_size(std::uint64_t n_bytes);
  void read(const Read& read, std::uint64_t n_bytes);
  void scatter(std::span<const std::uint8_t> whole, const rlx::Comm& comm);

  Leaves leaves_;
  std::uint64_t n_training_ = 0;
  std::vector<std::uint8_t> shard_;  // the training bytes of this rank's leaves
  std::vector<std::uint8_t> held_out_;
};

// Copies window number `i` of a leaf, drawn without repetition in an order that `seed` moves, into
// window[context + 1]. Depends on its arguments alone, so that any rank can go on at any step.
void draw_window(std::span<const std::uint8_t> leaf, std::uint64_t i, std::uint64_t seed,
                 std::span<std::uint8_t> window);

}  // namespace train
