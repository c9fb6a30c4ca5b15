// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a training run in a file. Little endian:
//   0 "RLXTRAIN"   8 u32 version (1)   12 u32 context   16 u32 embedding   20 u32 hidden
//   24 u32 n_hidden   28 u32 batch   32 u64 seed   40 u64 step   48 u64 n_parameters
//   56 f32 parameters[n], mean[n], square[n]   56 + 12 n: u64 hash of all before
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "state.h"

namespace train {

// FNV-1a over 8-byte words (the rest zero-padded), with a final mix. Also the hash that `train`
// prints of its weights.
std::uint64_t hash(std::span<const std::uint8_t> bytes);

std::vector<std::uint8_t> pack(const State& state);
// Throws Failure (kExitCheckpoint) naming `path`. Allocates no more than a few times bytes.size().
State unpack(std::span<const std::uint8_t> bytes, const std::string& path);

// Bytes of a checkpoint file; throws Failure (kExitCheckpoint).
std::vector<std::uint8_t> read_checkpoint(const std::string& path);
// Replaces the file at once or not at all: a temporary file beside it, fsync, rename, fsync of the
// folder. Throws Failure (kExitWrite) and leaves nothing behind.
void write_checkpoint(const std::string& path, std::span<const std::uint8_t> bytes);
// Throws Failure (kExitWrite) if write_checkpoint could not make its temporary file, or not rename
// it because `path` is a directory.
void try_checkpoint(const std::string& path);

}  // namespace train
