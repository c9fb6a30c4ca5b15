// SPDX-License-Identifier: MIT OR Apache-2.0
// How this process finds its world: the choice of a Bootstrap from the environment.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/result.h"

namespace rlx::pmix {

enum class Source { kSingle, kPmix };

// `environment` holds "NAME=value" entries. A PMIx server: kPmix; nothing at all: kSingle. An
// environment that says there are several ranks without a way to find them is an error that says
// what to do.
Result<Source> choose_source(const std::vector<std::string>& environment);

// A world of one, without any server.
std::unique_ptr<Bootstrap> single_bootstrap();

// The Bootstrap of this process, from its environment and the knob RLX_BOOTSTRAP.
Result<std::unique_ptr<Bootstrap>> open_bootstrap();

}  // namespace rlx::pmix
