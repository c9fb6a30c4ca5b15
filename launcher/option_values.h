// SPDX-License-Identifier: MIT OR Apache-2.0
// Readers of option values: a word in, a value or an error that names the word and what is wanted
// out.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/command_line.h"

namespace rlx::launcher {

Result<int> read_count(std::string_view word, int least,
                       int most = std::numeric_limits<int>::max());
Result<std::string> read_directory(const std::string& word);
// Patterns of files (rank_files.h): that of a path alone, of --output-dir, of --output-file.
std::string as_pattern(const std::string& path);
std::string files_in(const std::string& directory);
Result<std::string> read_output_file(const std::string& word);
// Whether "append" rather than "truncate".
Result<bool> read_output_mode(std::string_view word);
// TERM or SIGTERM.
Result<int> read_signal(std::string_view word);
// Seconds as "90", "1.5", "10m", "2h", "1:30" or "1:00:00".
Result<double> read_seconds(std::string_view word);
// "core", "core:2", "numa:overload-allowed".
Status read_bind_to(std::string_view word, MapOptions& map);
// "slot", "numa", "ppr:2:package", "rankfile:file=F", each with ":pe=N" and other modifiers.
Status read_map_by(std::string_view word, MapOptions& map);
Result<RankBy> read_rank_by(std::string_view word);
// "4", "core" or "gpu".
Status read_per_node(std::string_view word, MapOptions& map);
// "FILE" or "HOST=FILE".
Status read_topology_file(const std::string& word, CommandLine& line);
Result<Manager> read_manager(std::string_view word);
Result<OnFailure> read_on_failure(std::string_view word);
Result<Tag> read_tag(std::string_view word);
Result<int> read_stdin(std::string_view word);
// "NAME", "NAME=value", "PATTERN*", "^PATTERN", "none".
Result<EnvironmentEdit> read_environment_edit(std::string_view word);
// A file with one of these on each line, as it stands: no quotes, no $. "#" begins a comment line.
Status read_environment_file(const std::string& path, std::vector<EnvironmentEdit>& edits);
Status read_display(std::string_view word, CommandLine& line);

}  // namespace rlx::launcher
