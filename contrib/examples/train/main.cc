// SPDX-License-Identifier: MIT OR Apache-2.0
// train: data-parallel training of a byte-level language model. See options.cc for its use,
// trainer.h for how a step is shared.
#include <dlfcn.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "checkpoint.h"
#include "failure.h"
#include "options.h"
#include "random.h"
#include "text.h"
#include "trainer.h"

namespace train {
namespace {

constexpr std::size_t kSampleBytes = 400;
constexpr double kTemperature = 0.7;
constexpr double kWarmUpSteps = 50;
constexpr double kReportSeconds = 2;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

// The start of a run: new, or from the checkpoint that rank 0 reads for all.
State start(const rlx::World& world, const Options& options) {
  State state;
  state.batch = options.batch;
  state.seed = options.seed;
  if (!options.resume) return state;
  std::vector<std::uint8_t> bytes;
  together(world, [&] {
    if (world.rank() != 0) return;
    bytes = read_checkpoint(options.checkpoint);
    state = unpack(bytes, options.checkpoint);
    const auto differs = [&](const char* option, bool is_said, std::uint64_t said,
                             std::uint64_t is) {
      if (!is_said || said == is) return;
      throw Failure{kExitCheckpoint, "the checkpoint " + options.checkpoint + " was made with " +
                                         option + " " + std::to_string(is) + ", not " +
                                         std::to_string(said)};
    };
    differs("--batch", options.has_batch, options.batch, state.batch);
    differs("--seed", options.has_seed, options.seed, state.seed);
  });
  bytes.resize(world.broadcast<std::uint64_t>(bytes.size()));
  world.broadcast(bytes);
  return unpack(bytes, options.checkpoint);
}

void save(const rlx::World& world, const Options& options, const State& state) {
  if (options.checkpoint == "none") return;
  together(world, [&] {
    if (world.rank() == 0) write_checkpoint(options.checkpoint, pack(state));
  });
}

// Rank 0 shows a line every few seconds.
class Report {
 public:
  explicit Report(bool is_shown) : is_shown_(is_shown), last_(now()) {}
  void step(std::uint64_t step, double loss, std::uint64_t n_tokens, bool is_last) {
    loss_ += loss, ++n_steps_, n_tokens_ += n_tokens;
    const double elapsed = now() - last_;
    if (elapsed < kReportSeconds && !is_last) return;
    if (is_shown_) {
      std::printf("step %6llu  loss %.3f bits/byte  %.0f tokens/s\n",
                  static_cast<unsigned long long>(step), loss_ / n_steps_,
                  static_cast<double>(n_tokens_) / elapsed);
      std::fflush(stdout);
    }
    *this = Report(is_shown_);
  }

 private:
  bool is_shown_;
  double last_;
  double loss_ = 0;
  int n_steps_ = 0;
  std::uint64_t n_tokens_ = 0;
};

void loop(const rlx::World& world, const Options& options, Trainer& trainer) {
  Report report(world.rank() == 0);
  const double begin = now();
  const std::uint64_t first = trainer.state().step;
  for (double progress = 0; progress < 1;) {
    const std::uint64_t done = trainer.state().step;
    if (options.steps > 0) {
      progress = static_cast<double>(done) / static_cast<double>(options.steps);
      if (progress >= 1) break;
    }
    if (options.crash_at == done + 1 && world.rank() + 1 == world.size()) ::raise(SIGKILL);
    const double warm_up = std::min(1.0, static_cast<double>(done + 1) / kWarmUpSteps);
    const auto outcome =
        trainer.step(options.lr * warm_up * (1 - progress), (now() - begin) / options.seconds);
    if (options.steps == 0) progress = outcome.progress;
    const bool is_last = options.steps > 0 ? done + 1 >= options.steps : progress >= 1;
    report.step(done + 1, outcome.loss, trainer.state().batch, is_last);
    if (options.every > 0 && (done + 1 - first) % options.every == 0 && !is_last) {
      save(world, options, trainer.state());
    }
  }
}

// Text that the model writes after `prompt`.
std::string sample(const State& state, std::span<const std::uint8_t> prompt) {
  Model model(state.shape, 1);
  Random random(state.seed);
  std::vector<std::uint8_t> window(prompt.begin(), prompt.begin() + state.shape.context);
  std::string text(window.begin(), window.end());
  window.push_back(0);
  while (text.size() < kSampleBytes) {
    model.forward(state.parameters, window);
    double weights[kBytes];
    double total = 0;
    for (std::uint32_t b = 0; b < kBytes; ++b) {
      total += weights[b] = std::pow(model.probabilities()[b], 1 / kTemperature);
    }
    double left = random.uniform() * total;
    std::uint32_t next = 0;
    while (next + 1 < kBytes && (left -= weights[next]) > 0) ++next;
    text += static_cast<char>(next);
    window.erase(window.begin());
    window.back() = static_cast<std::uint8_t>(next);
    window.push_back(0);
  }
  for (char& c : text) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '?';
  }
  return text;
}

void run(const rlx::World& world, const Options& options) {
  const bool is_first = world.rank() == 0;
  const auto n_ranks = static_cast<std::uint32_t>(world.size());
  const Leaves leaves =
      leaves_of(world.rank(), world.size(), options.exact ? kExactLeaves : n_ranks);
  if (options.checkpoint != "none") {
    together(world, [&] {
      if (is_first) try_checkpoint(options.checkpoint);
    });
  }
  State state = start(world, options);
  const Text text = Text::load(options.data, world, leaves);
  Trainer trainer(world, text, leaves, std::move(state), options.exact);
  if (is_first) {
    std::printf("%u ranks, %llu bytes of text, %llu held out to be evaluated, %zu parameters%s%s\n",
                n_ranks, static_cast<unsigned long long>(text.n_training()),
                static_cast<unsigned long long>(text.held_out().size()),
                trainer.state().parameters.size(), options.exact ? ", exact sums" : "",
                options.resume ? ", resumed" : "");
    std::fflush(stdout);
  }
  loop(world, options, trainer);
  save(world, options, trainer.state());
  const double held_out = trainer.evaluate();
  const std::uint64_t hash = trainer.weights_hash();
  if (!is_first) return;
  std::printf("held-out loss %.3f bits/byte\nweights %016llx after step %llu\n", held_out,
              static_cast<unsigned long long>(hash),
              static_cast<unsigned long long>(trainer.state().step));
  std::printf("--- a sample ---\n%s\n", sample(trainer.state(), text.held_out()).c_str());
}

// One thread a rank: oneDNN's products run on OpenMP, whose threads would fight over the cores.
void use_one_thread() {
  if (void* set = ::dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set)(1);
  }
}

int main(int argc, char** argv) {
  use_one_thread();
  const rlx::World world;
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      if (world.rank() == 0) std::fputs(kHelp, stdout);
      return kExitOk;
    }
    run(world, options);
  } catch (const Failure& failure) {  // the same on all ranks
    if (world.rank() == 0) std::fprintf(stderr, "train: %s\n", failure.text.c_str());
    return failure.exit_code;
  }
  return kExitOk;
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  try {
    return train::main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train: %s\n", e.what());
    return train::kExitRuntime;
  }
}
