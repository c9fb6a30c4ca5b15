// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/muster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "base/words.h"
#include "launcher/agent.h"
#include "launcher/process.h"

namespace rlx::launcher {
namespace {

constexpr double kEndTime = 1;  // seconds between asking srun to end and making it

// Input variables of srun: each is an option that was meant for another srun.
constexpr const char* kSrunInputs[] = {"SLURM_NTASKS*",
                                       "SLURM_NPROCS",
                                       "SLURM_TASKS_PER_NODE",
                                       "SLURM_CPU_BIND*",
                                       "SLURM_CPUS_PER_TASK",
                                       "SRUN_CPUS_PER_TASK",
                                       "SLURM_MPI_TYPE",
                                       "SLURM_EXACT",
                                       "SLURM_EXCLUSIVE",
                                       "SLURM_DISTRIBUTION",
                                       "SLURM_HINT",
                                       "SLURM_GPUS_PER_TASK",
                                       "SLURM_GPU_BIND",
                                       "SLURM_TRES_PER_TASK",
                                       "SLURM_MEM_PER_*",
                                       "SLURM_OPEN_MODE",
                                       "SLURM_STDINMODE",
                                       "SLURM_STDOUTMODE",
                                       "SLURM_STDERRMODE",
                                       "SLURM_LABELIO",
                                       "SLURM_UNBUFFEREDIO",
                                       "SLURM_KILL_BAD_EXIT",
                                       "SLURM_THREADS_PER_CORE",
                                       "SLURM_WAIT",
                                       "SLURM_IMMEDIATE",
                                       "SLURM_THREADS",
                                       "SLURM_PROLOG",
                                       "SLURM_EPILOG",
                                       "SLURM_MULTI_PROG",
                                       "SLURM_WORKING_DIR",
                                       "PMIX_*",
                                       "PRTE_*"};

std::string without_noise(std::string_view said) {
  std::string out;
  for (const auto& line : words_of(said, "\n"))
    // Said for every step of a cluster that binds nothing, which we do not ask it to.
    if (line.find("lacks support for cpu binding") == std::string::npos) out += line + '\n';
  return out;
}

// What helps where Slurm knows nothing of the job whose variables are here.
std::string way_out(const Environment& environment) {
  return fmt::format(
      "; --rm none takes no notice of the variables of Slurm job {}, then --host names hosts",
      environment.get("SLURM_JOB_ID").value_or("?"));
}

bool tells_of_no_job(std::string_view said) {
  constexpr std::string_view kSigns[] = {"confirm allocation", "nvalid job id", "has expired",
                                         "ontact slurm controller", "already completing"};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](auto sign) { return said.find(sign) != std::string_view::npos; });
}

}  // namespace

std::vector<std::string> srun_command(const TreeSettings& settings,
                                      const std::vector<TreeHost>& hosts) {
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  return {"srun",
          fmt::format("--nodes={}", hosts.size()),
          fmt::format("--ntasks={}", hosts.size()),
          "--ntasks-per-node=1",
          fmt::format("--nodelist={}", fmt::join(names, ",")),
          "--overlap",
          "--mpi=none",
          "--cpu-bind=none",
          "--kill-on-bad-exit=1",
          "--export=ALL",
          "--quiet",
          settings.program,
          "--daemon=dial"};
}

Environment srun_environment(const Environment& own, const TreeSettings& settings) {
  Environment environment = own;
  for (const char* name : kSrunInputs) environment.unset(name);
  if (!settings.library_path.empty()) {
    const auto usual = environment.get("LD_LIBRARY_PATH");
    environment.set("LD_LIBRARY_PATH", settings.library_path + (usual ? ":" + *usual : ""));
  }
  return environment;
}

Status Muster::listen() {
  RLX_TRY_ASSIGN(listener_, Listener::open(loop_, secret_, calls_.arrived));
  return {};
}

Result<std::unique_ptr<Muster>> Muster::by_srun(Loop& loop, Helpers& helpers,
                                                const Environment& environment,
                                                const TreeSettings& settings,
                                                const std::vector<TreeHost>& hosts,
                                                MusterCalls calls) {
  std::unique_ptr<Muster> muster(new Muster(loop, std::move(calls)));
  RLX_TRY(muster->listen());
  Fd their_in, our_in, their_err;
  RLX_TRY(make_pipe(their_in, our_in));
  RLX_TRY(make_pipe(muster->errors_, their_err));
  fcntl(muster->errors_.get(), F_SETFL, O_NONBLOCK);
  // srun hands its input to all tasks. It fits into the pipe.
  const std::string line = to_text({muster->secret_, muster->listener_->addresses(), ""}) + "\n";
  if (write(our_in.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return fail_errno("cannot write to srun");
  const Fd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Muster* raw = muster.get();
  const std::string hint = way_out(environment);
  auto pid = helpers.start(srun_command(settings, hosts), srun_environment(environment, settings),
                           {their_in.get(), null.get(), their_err.get()},
                           [raw, hint](int status) { raw->ended(status, hint); });
  if (!pid) return fail(pid.error().code, pid.error().text + hint);
  muster->pid_ = *pid;
  muster->errors_watch_ = loop.on_readable(muster->errors_.get(), [raw] { raw->read_errors(); });
  return muster;
}

Result<std::unique_ptr<Muster>> Muster::by_hand(Loop& loop, const TreeSettings& settings,
                                                const std::vector<TreeHost>& hosts,
                                                MusterCalls calls) {
  std::unique_ptr<Muster> muster(new Muster(loop, std::move(calls)));
  RLX_TRY(muster->listen());
  fmt::print(stderr, "rlxrun: waiting; type this on each host:\n");
  for (const auto& host : hosts)
    fmt::print(stderr, "  {}:  echo {} | {}\n", host.name,
               to_text({muster->secret_, muster->listener_->addresses(), host.name}),
               daemon_command(settings, "=dial"));
  return muster;
}

void Muster::ended(int wait_status, const std::string& hint) {
  pid_ = -1;
  read_errors();
  std::string why = ending_text("srun", wait_status);
  const auto words = last_words(without_noise(said_));
  if (!words.empty()) why += ": " + words;
  calls_.ended(tells_of_no_job(words) ? why + hint : why);
}

void Muster::read_errors() {
  ssize_t n = 0;
  while ((n = read_said(errors_.get(), said_)) > 0) continue;
  if (n == 0 || errno != EAGAIN) errors_watch_.reset();
}

void Muster::end() {
  if (pid_ < 0 || last_resort_) return;
  kill(-pid_, SIGTERM);
  last_resort_ = loop_.after(kEndTime, [this] {
    if (pid_ > 0) kill(-pid_, SIGKILL);
  });
}

}  // namespace rlx::launcher
