// SPDX-License-Identifier: MIT OR Apache-2.0
// What Flux is asked by its command, flux: it says nothing of its hosts by variables.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/environment.h"

namespace rlx::launcher {

struct FluxHosts {
  std::string command;             // that told them
  std::vector<std::string> names;  // by the rank that flux exec knows them by; may repeat
};

inline constexpr double kFluxAnswerTime = 10;  // seconds; it usually takes a fraction of one

// Those of the job whose task this process is, or, as in a batch script, of the whole instance.
Result<FluxHosts> ask_flux_for_hosts(const Environment& environment,
                                     double limit_s = kFluxAnswerTime);

}  // namespace rlx::launcher
