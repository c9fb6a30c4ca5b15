// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/local.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <optional>

#include "base/knobs.h"
#include "base/log.h"
#include "pmix_glue/client.h"

namespace rlx::pmix {
namespace {

class Environment {
 public:
  explicit Environment(const std::vector<std::string>& entries) : entries_(entries) {}
  std::optional<std::string> get(std::string_view name) const {
    for (const auto& entry : entries_)
      if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
        return entry.substr(name.size() + 1);
    return std::nullopt;
  }
  // 0 when absent or not a number.
  long count(std::string_view name) const {
    const auto value = get(name);
    long n = 0;
    if (value) std::from_chars(value->data(), value->data() + value->size(), n);
    return n;
  }

 private:
  const std::vector<std::string>& entries_;
};

// A launcher that says by `count` how many ranks it started, when `marker` is set too.
struct Trace {
  const char* marker;
  const char* count;
  const char* advice;
  const char* better = nullptr;  // a variable that makes `count` irrelevant
};
constexpr char kSrun[] = "start it with srun --mpi=pmix, or with rlxrun";
constexpr Trace kTraces[] = {
    {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", kSrun},
    // In an interactive step it may be the whole allocation's.
    {"SLURM_STEP_ID", "SLURM_NTASKS", kSrun, "SLURM_STEP_NUM_TASKS"},
    {"PMI_FD", "PMI_SIZE",
     "its launcher offers PMI-1 only: start it with rlxrun, mpirun of Open MPI, or srun "
     "--mpi=pmix"},
    {"PMI_RANK", "PMI_SIZE",
     "its launcher offers PMI only: start it with rlxrun, mpirun of Open MPI, or srun --mpi=pmix"},
    {"RLX_RANK", "RLX_SIZE", "start it with rlxrun, and do not strip PMIX_* from its environment"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "do not strip PMIX_* from the environment mpirun gives"},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "start it with flux run -o pmi=pmix, or with rlxrun"},
    {"TORCHELASTIC_RUN_ID", "WORLD_SIZE", "torchrun has no PMIx server: start it with rlxrun"},
};

class Single final : public Bootstrap {
 public:
  Single() {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    facts_.source = "single";
    facts_.job_id = fmt::format("single-{}", ::getpid());
    facts_.hostname = name;
    facts_.local_ranks = {0};
  }
  const BootstrapFacts& facts() const override { return facts_; }
  Status put(std::string_view blob) override {
    blob_ = blob;
    return {};
  }
  Status fence(Deadline) override { return {}; }
  Result<std::string> get(int rank) override {
    if (rank != 0) return fail(Code::kInvalid, fmt::format("rank {} of a world of one", rank));
    return blob_;
  }
  [[noreturn]] void abort(int exit_code, std::string_view why) override {
    log::error("abort({}): {}", exit_code, why);
    ::_exit((exit_code & 0xff) != 0 ? exit_code & 0xff : 1);
  }
  Status finalize(Deadline) override { return {}; }
  void watch(std::function<void(int, std::string)>) override {}

 private:
  BootstrapFacts facts_;
  std::string blob_;
};

}  // namespace

std::unique_ptr<Bootstrap> single_bootstrap() { return std::make_unique<Single>(); }

Result<Source> choose_source(const std::vector<std::string>& environment) {
  const Environment env(environment);
  const auto job = env.get("PMIX_NAMESPACE");
  if (job && env.get("PMIX_RANK")) return Source::kPmix;
  if (job)
    return fail(
        Code::kInvalid,
        "PMIX_NAMESPACE is set but PMIX_RANK is not, so this process does not know its rank; "
        "start it with rlxrun, or unset both");
  for (const auto& trace : kTraces) {
    const long n = env.count(trace.count);
    if (trace.better != nullptr && env.get(trace.better)) continue;
    if (n > 1 && env.get(trace.marker))
      return fail(
          Code::kInvalid,
          fmt::format("{}={} says that this is one of {} ranks, but there is no PMIx server "
                      "(PMIX_NAMESPACE is not set)\n{}; RLX_BOOTSTRAP=single makes each a "
                      "world of one",
                      trace.count, n, n, trace.advice));
  }
  return Source::kSingle;
}

Result<std::unique_ptr<Bootstrap>> open_bootstrap() {
  if (knobs().bootstrap == 1) return single_bootstrap();
  std::vector<std::string> environment;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) environment.emplace_back(*e);
  RLX_TRY_ASSIGN(const Source source, choose_source(environment));
  if (source == Source::kSingle) return single_bootstrap();
  return connect_client();
}

}  // namespace rlx::pmix
