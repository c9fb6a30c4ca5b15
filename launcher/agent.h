// SPDX-License-Identifier: MIT OR Apache-2.0
// The command that starts a daemon on another host: ssh, or whatever does what ssh does.
//
// Only names go through the shells on the way: of the host, of the program, of a directory.
// Everything else a daemon needs comes over the pipe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/node_codec.h"

namespace rlx::launcher {

// Agents that are none: daemons are started by one srun or flux exec, or by hand, and call in.
inline constexpr std::string_view kSlurmAgent = "slurm", kFluxAgent = "flux",
                                  kManualAgent = "manual";

// "ssh" with the options we want of it, or the words of another command, which may be quoted.
Result<std::vector<std::string>> agent_words(std::string_view launcher);

// Whether no shell changes any of it.
bool is_safe_word(std::string_view word);

// What a shell on the host is to run. `more` follows --daemon.
std::string daemon_command(const TreeSettings& settings, std::string_view more = {});
// The agent, [-p PORT], [USER@]HOST, the command as one word. No "--" before the host, as not every
// agent knows it: check_names() has seen to it that the host is no option.
std::vector<std::string> agent_command(const TreeSettings& settings, const TreeHost& host);

// The path of the running rlxrun and of its libraries, or those below `prefix`. kInvalid when a
// shell would change them.
Status find_program_there(const std::string& prefix, TreeSettings& settings);

// "ssh exited with code 255", "ssh was killed by signal 9 (Killed)".
std::string ending_text(std::string_view name, int wait_status);
// One read() of a process's standard error, to the end of `said`, of which the last part is kept.
// Returns what read() does.
ssize_t read_said(int fd, std::string& said);
// What is worth showing of what a process wrote to its standard error: its last lines, as one.
std::string last_words(std::string_view text);

}  // namespace rlx::launcher
