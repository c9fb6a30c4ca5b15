// SPDX-License-Identifier: MIT OR Apache-2.0
// Host files in the forms people have: Open MPI's "host slots=4", MPICH's "host:4", and MLX's JSON,
// an array of hosts or {"hosts": [...]}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/allocation.h"

namespace rlx::launcher {

// The hosts of a file's text in its order, repeats kept. `name` is the file's, for messages: an
// error begins "name:line: ". A file that names no host is an error.
Result<std::vector<HostEntry>> parse_host_file(std::string_view text, const std::string& name);
Result<std::vector<HostEntry>> read_host_file(const std::string& path);

}  // namespace rlx::launcher
