// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: the manuals flux-hostlist, flux-getattr and flux-exec of flux-core, and RFC 22 and 29.
#include "launcher/flux.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <optional>

#include "base/file.h"
#include "base/words.h"
#include "launcher/agent.h"
#include "launcher/helpers.h"
#include "launcher/host_ranges.h"
#include "launcher/step.h"

namespace rlx::launcher {
namespace {

constexpr const char* kWayOut = "--rm none takes no notice of Flux, then --host names hosts";

tl::unexpected<Error> wrong(const std::string& what) {
  return fail(Code::kSystem,
              fmt::format("inside Flux (FLUX_URI is set), but {}; {}", what, kWayOut));
}

std::string all_of(int fd) { return read_file(fmt::format("/proc/self/fd/{}", fd)).value_or(""); }

// What a command prints, once it has ended well. One that takes longer is killed.
Result<std::string> output_of(const std::vector<std::string>& command,
                              const Environment& environment, double limit_s) {
  const Fd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd out(memfd_create("output", MFD_CLOEXEC)), errors(memfd_create("errors", MFD_CLOEXEC));
  Loop loop;
  Helpers helpers(loop);
  std::optional<int> status;
  RLX_TRY(helpers.start(command, environment, {in.get(), out.get(), errors.get()}, [&](int how) {
    status = how;
    loop.stop();
  }));
  const Watch limit = loop.after(limit_s, [&] { loop.stop(); });
  loop.run();
  if (status == 0) return all_of(out.get());
  const auto words = last_words(all_of(errors.get()));
  const std::string name = fmt::format("'{}'", fmt::join(command, " "));
  const std::string why = status ? ending_text(name, *status)
                                 : fmt::format("{} did not answer within {:g} s", name, limit_s);
  return fail(status ? Code::kSystem : Code::kTimeout, why + (words.empty() ? "" : ": " + words));
}

bool is_task(const Environment& environment) {
  return !environment.get("FLUX_JOB_ID").value_or("").empty();
}

}  // namespace

Result<FluxHosts> ask_flux_for_hosts(const Environment& environment, double limit_s) {
  std::vector<std::string> command{"flux", "hostlist", "local"};
  auto said = output_of(command, environment, limit_s);
  // A flux-core that does not know "local" yet.
  if (!said && said.error().code != Code::kTimeout && !is_task(environment)) {
    const std::vector<std::string> older{"flux", "getattr", "hostlist"};
    if (auto answer = output_of(older, environment, limit_s)) {
      command = older;
      said = std::move(answer);
    }
  }
  if (!said) return wrong(said.error().text);
  // A start-up file or wrapper of the site may greet before the answer.
  const auto lines = words_of(*said, "\r\n");
  const auto list = lines.empty() ? "" : trimmed(lines.back());
  FluxHosts hosts{fmt::format("{}", fmt::join(command, " ")), {}};
  if (list.empty()) return wrong(fmt::format("'{}' names no host", hosts.command));
  auto names = expand_host_list(list);
  if (!names) return wrong(fmt::format("'{}' says {}", hosts.command, names.error().text));
  hosts.names = std::move(*names);
  return hosts;
}

Step flux_step(const TreeSettings& settings, const std::vector<TreeHost>& hosts,
               const Environment& own) {
  std::vector<int> ranks;
  for (const auto& host : hosts) ranks.push_back(host.flux_rank);
  Step step;
  step.name = "flux exec";
  step.command = {"flux", "exec", fmt::format("--rank={}", fmt::join(ranks, ",")), "--dir=/"};
  // Of a job, Flux lets its owner start processes on its hosts; of an instance, that one's owner.
  if (is_task(own)) step.command.push_back("--jobid=" + *own.get("FLUX_JOB_ID"));
  step.command.insert(step.command.end(), {settings.program, "--daemon=dial"});
  step.environment = own;
  // It passes all on: daemons would take the name of this host, where Slurm started Flux.
  for (const char* name : {"SLURMD_NODENAME", "PMIX_*", "PRTE_*"}) step.environment.unset(name);
  step.fatal = {"flux-exec: Error: rank "};
  step.no_job = {"nable to connect", "flux_open", "not currently running", "not found"};
  step.way_out = fmt::format("; {}", kWayOut);
  return step;
}

}  // namespace rlx::launcher
