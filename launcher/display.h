// SPDX-License-Identifier: MIT OR Apache-2.0
// How a plan reads in print, for people and for programs.
#pragma once

#include <string>

#include "launcher/command_line.h"
#include "launcher/plan.h"

namespace rlx::launcher {

// What --display, --report-bindings and --dry-run ask for, as text or, with --json, as one object:
// {"allocation": {...}, "topology": [...], "map": [...], "bindings": [...]}. "" if nothing is
// asked.
std::string displayed(const CommandLine& line, const Plan& plan);

}  // namespace rlx::launcher
