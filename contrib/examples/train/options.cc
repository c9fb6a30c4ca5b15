// SPDX-License-Identifier: MIT OR Apache-2.0
#include "options.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "failure.h"

namespace train {

const char* const kHelp =
    R"(Usage: rlxrun -np N train [options]
Trains a language model that predicts a text byte by byte, data-parallel over N ranks.

  --data FILE        the text (default: the King James Bible, by Debian's bible-kjv); a 64th
                     of it, 256 KiB at most, is held out and evaluated at the end
  --seconds S        train for S seconds (default 50)
  --steps N          train for N steps in all instead; the checkpoint's steps count
  --batch N          windows a step over all ranks, a multiple of 8 (default 512)
  --lr X             learning rate at the start (default 0.002); it falls to 0 at the end
  --seed N           of the weights and the order of the text (default 1)
  --exact            sum gradients exactly over 8 leaves a step: the same weights, to the
                     last bit, for 1 to 8 ranks and more (default steps: 400)
  --checkpoint FILE  written at the end (default train.ckpt; none: not at all)
  --every N          also written every N steps
  --resume           continue from the checkpoint, with any number of ranks
  --crash-at N       the last rank kills itself before step N, to see what a failure does;
                     not in a job that was started again (RLX_RESTART_COUNT)
  --help

Environment: RLX_RESTART_COUNT above 0 means --resume if the checkpoint exists, and no --crash-at.
Exit: 0 done; 1 rlx or a peer failed; 2 usage; 3 no text or too small; 4 bad checkpoint;
5 checkpoint cannot be written.
)";

namespace {

[[noreturn]] void usage(const std::string& text) {
  throw Failure{kExitUsage, text + "\nTry 'train --help'."};
}

template <class T>
std::string text_of(T value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class T>
T number(std::string_view option, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most)) {
    usage(std::string(option) + " " + std::string(text) + ": wanted a number from " +
          text_of(least) + " to " + text_of(most));
  }
  return value;
}

struct Option {
  const char* name;
  std::function<void(std::string_view)> set;  // with the value
  std::function<void()> flag;                 // or without one
};

void restart(Options& options) {
  const char* count = std::getenv("RLX_RESTART_COUNT");
  if (count == nullptr || std::strtol(count, nullptr, 10) <= 0) return;
  options.crash_at = 0;
  if (::access(options.checkpoint.c_str(), F_OK) == 0) options.resume = true;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  constexpr std::uint64_t kMany = 1'000'000'000'000;
  Options o;
  const Option table[] = {
      {"--data", [&](auto v) { o.data = v; }, {}},
      {"--checkpoint", [&](auto v) { o.checkpoint = v; }, {}},
      {"--seconds", [&](auto v) { o.seconds = number("--seconds", v, 0.1, 1e6); }, {}},
      {"--steps", [&](auto v) { o.steps = number<std::uint64_t>("--steps", v, 1, kMany); }, {}},
      {"--batch",
       [&](auto v) {
         o.batch = number<std::uint32_t>("--batch", v, 8, 1 << 20), o.has_batch = true;
       },
       {}},
      {"--lr", [&](auto v) { o.lr = number("--lr", v, 1e-9, 10.0); }, {}},
      {"--seed",
       [&](auto v) { o.seed = number<std::uint64_t>("--seed", v, 0, kMany), o.has_seed = true; },
       {}},
      {"--every", [&](auto v) { o.every = number<std::uint64_t>("--every", v, 1, kMany); }, {}},
      {"--crash-at",
       [&](auto v) { o.crash_at = number<std::uint64_t>("--crash-at", v, 1, kMany); },
       {}},
      {"--exact", {}, [&] { o.exact = true; }},
      {"--resume", {}, [&] { o.resume = true; }},
      {"--help", {}, [&] { o.help = true; }},
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    const Option* option = nullptr;
    const std::string_view name = word.substr(0, word.find('='));
    for (const Option& candidate : table) {
      if (name == candidate.name) option = &candidate;
    }
    if (option == nullptr) usage("unknown option " + std::string(word));
    const bool has_value = name.size() < word.size();
    if (option->flag) {
      if (has_value) usage(std::string(name) + " takes no value");
      option->flag();
    } else if (has_value) {
      option->set(word.substr(name.size() + 1));
    } else if (++i < argc) {
      option->set(argv[i]);
    } else {
      usage(std::string(name) + " needs a value");
    }
  }
  if (o.batch % 8 != 0) usage("--batch " + std::to_string(o.batch) + ": wanted a multiple of 8");
  if (o.checkpoint.empty()) usage("--checkpoint needs a file name, or none");
  if (o.resume && o.checkpoint == "none") usage("--resume needs a --checkpoint");
  if (o.exact && o.steps == 0) o.steps = 400;
  restart(o);
  return o;
}

}  // namespace train
