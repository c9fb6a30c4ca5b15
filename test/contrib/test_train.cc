// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of contrib/examples/train that need no other rank.
#include <criterion/criterion.h>
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "contrib/examples/train/checkpoint.h"
#include "contrib/examples/train/failure.h"
#include "contrib/examples/train/model.h"
#include "contrib/examples/train/state.h"

using namespace train;

namespace {

constexpr Shape kTiny{.context = 3, .embedding = 2, .hidden = 5, .n_hidden = 2};

State tiny_state() {
  State state;
  state.shape = kTiny;
  state.batch = 8;
  state.seed = 7;
  state.step = 12;
  const Model model(kTiny, 8);
  state.parameters.resize(model.n_parameters());
  model.initialise(state.parameters, state.seed);
  state.mean.assign(model.n_parameters(), 0.5F);
  state.square.assign(model.n_parameters(), 0.25F);
  return state;
}

// The failure of unpacking, or exit code 0.
Failure unpack_failure(std::span<const std::uint8_t> bytes) {
  try {
    (void)unpack(bytes, "x.ckpt");
  } catch (const Failure& failure) {
    return failure;
  }
  return {kExitOk, ""};
}

void fix_hash(std::vector<std::uint8_t>& bytes) {
  const std::uint64_t sum = hash(std::span(bytes).first(bytes.size() - 8));
  std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
}

struct Folder {
  std::string path = std::filesystem::temp_directory_path() / "rlx-test-XXXXXX";
  Folder() { cr_assert(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::size_t n_files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path),
                                                  std::filesystem::directory_iterator{}));
  }
};

ExitCode write_failure(const std::string& path, std::span<const std::uint8_t> bytes) {
  try {
    write_checkpoint(path, bytes);
  } catch (const Failure& failure) {
    cr_expect(failure.text.find(path) != std::string::npos, "%s", failure.text.c_str());
    return failure.exit_code;
  }
  return kExitOk;
}

}  // namespace

Test(checkpoint, reads_back_what_was_written_and_replaces_the_file_whole) {
  const Folder folder;
  const std::string path = folder.path + "/a.ckpt";
  State state = tiny_state();
  write_checkpoint(path, pack(state));
  state.step = 13;
  state.parameters[5] = 3.25F;
  write_checkpoint(path, pack(state));
  const State read = unpack(read_checkpoint(path), path);
  cr_expect_eq(read.step, 13);
  cr_expect_eq(read.seed, 7);
  cr_expect_eq(read.batch, 8);
  cr_expect_eq(read.shape.hidden, 5);
  cr_expect(read.parameters == state.parameters);
  cr_expect(read.mean == state.mean);
  cr_expect(read.square == state.square);
  cr_expect_eq(folder.n_files(), 1);
}

Test(checkpoint, that_cannot_be_written_leaves_the_old_one_and_nothing_else) {
  const Folder folder;
  const std::string path = folder.path + "/a.ckpt";
  const auto bytes = pack(tiny_state());
  cr_expect_eq(write_failure(folder.path + "/none/a.ckpt", bytes), kExitWrite);
  write_checkpoint(path, bytes);
  // A limit on the size of files fails as a full disk does: in the middle of a write.
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{bytes.size() / 2, RLIM_INFINITY};
  cr_assert_eq(::setrlimit(RLIMIT_FSIZE, &small), 0);
  cr_expect_eq(write_failure(path, bytes), kExitWrite);
  cr_expect(read_checkpoint(path) == bytes);
  cr_expect_eq(folder.n_files(), 1);
}

Test(checkpoint, that_cannot_be_read_is_an_error_that_says_why) {
  const Folder folder;
  for (const std::string& path : {folder.path + "/none", folder.path, std::string("/dev/zero")}) {
    try {
      (void)read_checkpoint(path);
      cr_expect(false, "%s", path.c_str());
    } catch (const Failure& failure) {
      cr_expect_eq(failure.exit_code, kExitCheckpoint);
      cr_expect(failure.text.find(path) != std::string::npos, "%s", failure.text.c_str());
    }
  }
}

Test(checkpoint, with_any_flipped_bit_or_missing_byte_is_refused) {
  auto bytes = pack(tiny_state());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    cr_assert_eq(unpack_failure(std::span(bytes).first(n)).exit_code, kExitCheckpoint, "%zu", n);
    const auto flip = static_cast<std::uint8_t>(1U << (n % 8));
    bytes[n] ^= flip;
    cr_assert_eq(unpack_failure(bytes).exit_code, kExitCheckpoint, "byte %zu", n);
    bytes[n] ^= flip;
  }
  cr_expect_eq(unpack_failure(bytes).exit_code, kExitOk);
  bytes.push_back(0);
  cr_expect_eq(unpack_failure(bytes).exit_code, kExitCheckpoint);
}

Test(checkpoint, with_a_forged_head_is_refused_before_memory_is_taken) {
  const auto good = pack(tiny_state());
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    const int n_changes = 1 + static_cast<int>(random() % 4);
    for (int j = 0; j < n_changes; ++j)
      bytes[8 + random() % 48] = static_cast<std::uint8_t>(random());
    fix_hash(bytes);
    const Failure failure = unpack_failure(bytes);
    if (failure.exit_code == kExitOk) continue;  // seed, step or batch changed
    cr_assert_eq(failure.exit_code, kExitCheckpoint);
    cr_assert_lt(std::count(failure.text.begin(), failure.text.end(), '\n'), 3);
  }
}

Test(model, gradient_agrees_with_finite_differences_and_its_buckets_cover_it) {
  Model model(kTiny, 8);
  State state = tiny_state();
  std::mt19937 random(2);
  // No bias stays 0: a unit without input would sit on its kink, where slopes differ.
  for (float& p : state.parameters) p += static_cast<float>(random() % 1000) * 2e-4F + 0.01F;
  std::vector<std::uint8_t> windows(8 * (kTiny.context + 1));
  for (auto& byte : windows) byte = static_cast<std::uint8_t>(random() % 3);
  std::vector<float> gradient(model.n_parameters(), 1e9F);
  (void)model.forward(state.parameters, windows);
  std::uint64_t covered = model.n_parameters();
  model.backward(state.parameters, gradient, [&](std::size_t bucket) {
    const Range range = model.buckets()[bucket];
    cr_expect_eq(range.begin + range.count, covered);  // from the last layer to the first
    covered = range.begin;
    for (std::uint64_t i = 0; i < range.count; ++i) cr_assert_lt(gradient[range.begin + i], 1e8F);
  });
  cr_expect_eq(covered, 0);
  constexpr float kStep = 1e-3F;
  for (std::uint64_t i = 0; i < model.n_parameters(); i += 7) {
    if (gradient[i] == 0) continue;  // bytes that do not occur
    const float was = state.parameters[i];
    state.parameters[i] = was + kStep;
    const double above = model.forward(state.parameters, windows);
    state.parameters[i] = was - kStep;
    const double below = model.forward(state.parameters, windows);
    state.parameters[i] = was;
    const double slope = (above - below) / (2 * kStep);
    cr_expect_float_eq(slope, gradient[i], 0.02 + 0.02 * std::abs(slope), "parameter %zu: %f, %f",
                       static_cast<std::size_t>(i), slope, static_cast<double>(gradient[i]));
  }
}
