// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/help.h"

#include <fmt/format.h>

#include "base/words.h"
#include "config.h"
#include "launcher/option_table.h"

namespace rlx::launcher {
namespace {

constexpr const char* kUsage =
    "rlxrun [options] program [arguments] [: [options] program [arguments]] ...";
constexpr const char* kPurpose =
    "Starts the ranks of a job, here and on other hosts, and stays until all have ended.";

struct ExitCode {
  const char* code;
  const char* meaning;
};
constexpr ExitCode kExitCodes[] = {{"0", "all ranks ended well"},
                                   {"N", "of the rank that failed first, or of its abort"},
                                   {"128+S", "the rank that failed first was killed by signal S"},
                                   {"1", "a rank did not finalize, output was lost, rlxrun failed"},
                                   {"2", "the command line is wrong"},
                                   {"124", "the time limit of --timeout was reached"},
                                   {"126", "the program cannot be executed"},
                                   {"127", "the program was not found"},
                                   {"129, 130, 143", "rlxrun was ended by SIGHUP, SIGINT, SIGTERM"},
                                   {"141", "nobody reads the output any more"}};

struct Variable {
  const char* names;
  const char* meaning;
};
constexpr Variable kVariables[] = {
    {"RLX_RANK, RLX_SIZE, RLX_LOCAL_RANK, RLX_LOCAL_SIZE, RLX_NODE_RANK, RLX_NNODES, RLX_JOBID",
     "the rank's place in the job"},
    {"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT",
     "the same, as PyTorch's programs read it"},
    {"OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _NODE_RANK",
     "the same, as scripts for mpirun read it"},
    {"OMP_NUM_THREADS", "the cores of the rank, unless it is set"},
    {"RLX_GPU", "the GPU of the rank, as it counts those it sees; not set where there is none"},
    {"CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK",
     "as they are set on the rank's own host, or its own GPUs with --gpus-per-rank; -x goes "
     "before"}};

std::string label_of(const Option& option) {
  std::string label(option.names);
  if (option.argument.empty()) return label;
  return has_optional_argument(option) ? fmt::format("{}{}", label, option.argument)
                                       : fmt::format("{} <{}>", label, option.argument);
}

// `text` from column `indent` on, broken between words.
std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 100;
  std::string out;
  std::size_t column = indent;
  for (const auto& word : words_of(text, " ")) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += fmt::format("\n{:{}}", "", indent);
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string row(std::string_view label, std::string_view text) {
  constexpr std::size_t kColumn = 34;
  std::string out = fmt::format("  {:<{}}", label, kColumn - 2);
  if (label.size() + 4 > kColumn) out = fmt::format("  {}\n{:{}}", label, "", kColumn);
  return out + wrapped(text, kColumn) + "\n";
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
  return out;
}

}  // namespace

std::string help_text() {
  std::string out = fmt::format("Usage: {}\n{}\n", kUsage, kPurpose);
  for (const Group group : kGroups) {
    out += fmt::format("\n{}:\n", title_of(group));
    for (const auto& option : options())
      if (option.group == group) out += row(label_of(option), option.sentence);
  }
  out +=
      "\nOptions of a single program (-n, --wdir, --host, -x) may follow each ':'; the others go "
      "before the first\nprogram. Common spellings of mpirun and mpiexec are understood.\n";
  out += "\nExit code:\n";
  for (const auto& code : kExitCodes) out += row(code.code, code.meaning);
  out += "\nManual: man rlxrun\n";
  return out;
}

std::string man_page() {
  std::string out = fmt::format(
      ".TH RLXRUN 1 \"\" \"rlx {}\" \"User Commands\"\n.SH NAME\nrlxrun \\- start the ranks of a "
      "parallel job\n.SH SYNOPSIS\n{}\n.SH DESCRIPTION\n{}\n",
      PACKAGE_VERSION, escaped(kUsage), escaped(kPurpose));
  out +=
      "Output is passed on in whole lines. When a rank fails, the others are ended, one line names "
      "the rank, its process, host and cause, and nothing is left behind: no process, no file.\n";
  out += ".SH OPTIONS\n";
  for (const Group group : kGroups) {
    out += fmt::format(".SS {}\n", title_of(group));
    for (const auto& option : options())
      if (option.group == group)
        out += fmt::format(".TP\n.B {}\n{}\n", escaped(label_of(option)), escaped(option.sentence));
  }
  out += ".SH EXIT STATUS\n";
  for (const auto& code : kExitCodes)
    out += fmt::format(".TP\n.B {}\n{}\n", escaped(code.code), escaped(code.meaning));
  out += ".SH ENVIRONMENT OF THE RANKS\n";
  for (const auto& variable : kVariables)
    out += fmt::format(".TP\n.B {}\n{}\n", escaped(variable.names), escaped(variable.meaning));
  return out;
}

std::string bash_completion() {
  std::string words, with_files, with_others;  // options, by what follows them
  for (const auto& option : options())
    for (const auto& spelling : spellings(option)) {
      if (option.names.find(spelling) == std::string_view::npos || option.group == Group::kForeign)
        continue;
      words += (words.empty() ? "" : " ") + spelling;
      if (argument_count(option) == 0) continue;
      const bool file = option.argument == "FILE" || option.argument == "DIR";
      auto& list = file ? with_files : with_others;
      list += (list.empty() ? "" : " | ") + spelling;
    }
  return fmt::format(
      "# Completion of rlxrun for bash, made by rlxrun --completion.\n"
      "_rlxrun() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  case ${{COMP_WORDS[COMP_CWORD-1]}} in\n"
      "    {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
      "    {}) COMPREPLY=(); return ;;\n"
      "  esac\n"
      "  case $word in\n"
      "    -*) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -c -- \"$word\") $(compgen -f -- \"$word\")) ;;\n"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _rlxrun rlxrun\n",
      with_files, with_others, words);
}

std::string version_text() { return fmt::format("rlxrun (rlx) {}\n", PACKAGE_VERSION); }

}  // namespace rlx::launcher
