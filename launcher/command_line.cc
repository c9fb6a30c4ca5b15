// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/knobs.h"
#include "launcher/app_file.h"
#include "launcher/option_table.h"

namespace rlx::launcher {
namespace {

const Option* find_option(std::string_view name) {
  for (const auto& option : options())
    for (const auto& spelling : spellings(option))
      if (spelling == name) return &option;
  return nullptr;
}

std::string nearest_option(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& option : options())
    for (const auto& spelling : spellings(option)) known.push_back(spelling);
  return nearest_word(name, known);
}

// Options of one program that cannot both be meant.
constexpr std::pair<std::string_view, std::string_view> kContradictions[] = {
    {"--launcher", "--launch-agent"}, {"-genvall", "-genvnone"}};

// What stands before --app is for all lines of its file; what a line says itself wins.
void inherit(const AppLine& all, AppLine& app) {
  app.environment.insert(app.environment.begin(), all.environment.begin(), all.environment.end());
  if (app.wdir.empty()) app.wdir = all.wdir;
  app.pmi1 = app.pmi1 || all.pmi1;
}

// Reads the words of one app after another.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {}

  Result<CommandLine> parse() {
    if (auto status = parse_apps(); !status)
      return fail(status.error().code, place() + status.error().text);
    if (line_.action == Action::kRun) RLX_TRY(check_companions());
    return std::move(line_);
  }

 private:
  Status parse_apps() {
    AppLine of_all;  // said before --app
    do {
      line_.apps.emplace_back();
      seen_.clear();
      RLX_TRY(parse_options());
      if (!line_.app_file.empty() && line_.apps.size() == 1) RLX_TRY(take_app_file(of_all));
      if (line_.action == Action::kStatus && next_ < words_.size())
        return fail(Code::kInvalid, fmt::format("--status lists jobs and runs nothing: leave out "
                                                "'{}'",
                                                words_[next_]));
      if (line_.action != Action::kRun) return {};
      RLX_TRY(parse_program());
    } while (next_ < words_.size());
    for (auto& app : line_.apps) inherit(of_all, app);
    return {};
  }

  // "FILE:LINE: " of the last word that was read, if it is from the file of --app.
  std::string place() const {
    if (file_lines_.empty() || next_ <= file_begin_) return "";
    return fmt::format("{}:{}: ", line_.app_file, file_lines_[next_ - 1 - file_begin_]);
  }

  // Options that mean nothing alone.
  Status check_companions() const {
    const auto& output = line_.output;
    if (!output.directory.empty() && !output.files.empty())
      return fail(Code::kInvalid,
                  "--output-dir and --output-file both say where output goes: leave one out");
    if (output.directory.empty() && output.files.empty() && (output.tee || output.append))
      return fail(Code::kInvalid, fmt::format("{} needs --output-dir or --output-file",
                                              output.tee ? "--tee" : "--output-mode append"));
    if (output.json && (output.tag != Tag::kNone || output.timestamp))
      return fail(Code::kInvalid,
                  "--output-json says rank, host and time by itself: leave out --tag-output and "
                  "--timestamp-output");
    if (output.json && line_.pty_rank)
      return fail(Code::kInvalid, "--output-json has no place for the terminal of --pty");
    if (output.json && (!output.directory.empty() || !output.files.empty()) && !output.tee)
      return fail(Code::kInvalid,
                  "--output-json is of standard output, and --output-dir and --output-file leave "
                  "nothing there: add --tee, or leave one out");
    if (line_.end.timeout_s == 0 && (line_.end.timeout_exit_code || line_.end.stacks))
      return fail(
          Code::kInvalid,
          fmt::format("{} needs --timeout", line_.end.stacks ? "--stacks" : "--timeout-exit-code"));
    const bool shows = line_.dry_run || line_.show_map || line_.show_allocation ||
                       line_.show_topology || line_.report_bindings;
    if (line_.json && !shows)
      return fail(Code::kInvalid,
                  "--json is how --status, --display, --report-bindings or --dry-run print");
    return {};
  }

  Status parse_options() {
    while (next_ < words_.size() && words_[next_].size() > 1 && words_[next_][0] == '-') {
      if (words_[next_] == "--") {
        ++next_;
        return {};
      }
      RLX_TRY(parse_option());
      if (line_.action != Action::kRun && line_.action != Action::kStatus) return {};
    }
    return {};
  }

  // The words of the file stand in the place of the program.
  Status take_app_file(AppLine& of_all) {
    if (next_ < words_.size())
      return fail(Code::kInvalid,
                  fmt::format("program '{}' beside --app {}, which names the programs",
                              words_[next_], line_.app_file));
    of_all = std::exchange(line_.apps.back(), {});
    if (of_all.n_ranks > 0)
      return fail(Code::kInvalid, fmt::format("-n {} beside --app {}: want -n in its lines",
                                              of_all.n_ranks, line_.app_file));
    // Hosts of one program are also those of all that name none.
    line_.apps.back().hosts = of_all.hosts;
    line_.apps.back().host_files = of_all.host_files;
    seen_.clear();
    RLX_TRY_ASSIGN(const auto more, read_app_file(line_.app_file));
    file_begin_ = words_.size();
    for (const auto& word : more) {
      words_.push_back(word.text);
      file_lines_.push_back(word.line);
    }
    return parse_options();
  }

  Status parse_option() {
    const std::size_t at = next_++;
    std::string name = words_[at];
    std::vector<std::string> arguments;
    const Option* option = find_option(name);
    const auto equals = name.find('=');
    if (!option && name.starts_with("--") && equals != std::string::npos) {
      arguments.push_back(name.substr(equals + 1));
      name.resize(equals);
      option = find_option(name);
      if (option && option->argument.empty())
        return fail(Code::kInvalid, fmt::format("option {} takes no value", name));
    }
    if (!option) return unknown(name, at);
    if (!option->apply)
      return fail(Code::kInvalid,
                  fmt::format("option {} is not known here: {}", name, option->sentence));
    if (line_.apps.size() > 1 && !option->per_app)
      return fail(
          Code::kInvalid,
          fmt::format("option {} is for the whole job: it goes before the first program", name));
    RLX_TRY(check_contradictions(*option));
    while (arguments.size() < argument_count(*option) && !is_pair(*option, arguments)) {
      if (next_ == words_.size() || words_[next_] == ":")
        return fail(Code::kInvalid, fmt::format("option {} needs {}", name, option->argument));
      arguments.push_back(words_[next_++]);
    }
    if (option->sentence == "ignored") note_ignored(at);
    if (auto status = option->apply(line_, line_.apps.back(), arguments); !status)
      return fail(status.error().code, fmt::format("option {}: {}", name, status.error().text));
    return {};
  }

  // MPICH takes "-genv NAME=VALUE" beside "-genv NAME VALUE".
  static bool is_pair(const Option& option, const std::vector<std::string>& arguments) {
    return option.argument == "NAME VALUE" && arguments.size() == 1 &&
           arguments[0].find('=') != std::string::npos;
  }

  Status check_contradictions(const Option& option) {
    seen_.push_back(&option);
    const auto is_seen = [&](std::string_view name) {
      return std::find(seen_.begin(), seen_.end(), find_option(name)) != seen_.end();
    };
    for (const auto& [one, other] : kContradictions)
      if (is_seen(one) && is_seen(other))
        return fail(Code::kInvalid, fmt::format("{} contradicts {}: leave one out", one, other));
    return {};
  }

  Status parse_program() {
    auto& argv = line_.apps.back().argv;
    while (next_ < words_.size() && words_[next_] != ":") argv.push_back(words_[next_++]);
    const bool more = next_ < words_.size();
    if (more) ++next_;
    const bool colon_at_end = more && next_ == words_.size();
    if (!argv.empty() && !argv[0].empty() && !colon_at_end) return {};
    if (!argv.empty() && argv[0].empty())
      return fail(Code::kInvalid, "the program's name is empty");
    if (line_.apps.size() == 1 && !more && file_lines_.empty())
      return fail(Code::kInvalid, "no program to run: rlxrun [options] program [arguments]");
    return fail(Code::kInvalid, file_lines_.empty() ? "a program is missing beside ':'"
                                                    : "there is no program in this line");
  }

  Status unknown(const std::string& name, std::size_t at) const {
    const std::string near = nearest_option(name);
    return fail(
        Code::kInvalid,
        fmt::format("unknown option '{}'{}{}", name,
                    at < file_begin_ ? fmt::format(" (word {}, before the program)", at + 1) : "",
                    near.empty() ? "" : ", did you mean " + near + "?"));
  }

  void note_ignored(std::size_t at) {
    std::string typed;
    for (; at < next_; ++at) typed += (typed.empty() ? "" : " ") + words_[at];
    line_.ignored.push_back(std::move(typed));
  }

  std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::size_t file_begin_ = SIZE_MAX;  // the first word from a file
  std::vector<int> file_lines_;        // of each of these words
  std::vector<const Option*> seen_;    // of the present app
  CommandLine line_;
};

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& words) {
  return Parser(words).parse();
}

}  // namespace rlx::launcher
