// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of the compiled instruction sets the kernels use. The best one this CPU has is chosen at
// the first call.
#pragma once

#include <string>
#include <vector>

namespace rlx::kernels {

const char* isa_name();  // "AVX3" (AVX-512), "AVX2", "EMU128" (portable C++) ...

// For tests and benchmarks: the compiled sets this CPU can run, best first, and a way to choose
// one of them ("" gives the choice back). Not for use while kernels run in other threads.
std::vector<std::string> isa_names();
bool use_isa(const std::string& name);

}  // namespace rlx::kernels
