// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/pmi1.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/bytes.h"
#include "base/words.h"

namespace rlx::pmix {
namespace {

constexpr size_t kMaxName = 256, kMaxKey = 64, kMaxValue = 1024;  // told to clients by "maxes"

// "a=b c=d": no quoting exists, so values hold no spaces.
std::map<std::string, std::string, std::less<>> split_fields(std::string_view line) {
  std::map<std::string, std::string, std::less<>> fields;
  for (const auto& word : words_of(line, " ")) {
    const auto equals = word.find('=');
    if (equals != std::string::npos) fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return fields;
}

template <class Fields>
std::string_view field(const Fields& fields, std::string_view name) {
  const auto it = fields.find(name);
  return it == fields.end() ? std::string_view{} : std::string_view(it->second);
}

int to_int(std::string_view text, int otherwise) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? value
                                                                                   : otherwise;
}

}  // namespace

std::string process_mapping(const std::vector<uint32_t>& nodes) {
  struct Block {
    uint32_t node, n_nodes, n_ranks;
  };
  std::vector<Block> blocks;
  for (size_t i = 0; i < nodes.size();) {
    const auto end = std::find_if(nodes.begin() + static_cast<long>(i), nodes.end(),
                                  [&](uint32_t node) { return node != nodes[i]; });
    const auto n_ranks = static_cast<uint32_t>(end - nodes.begin() - static_cast<long>(i));
    if (!blocks.empty() && blocks.back().n_ranks == n_ranks &&
        blocks.back().node + blocks.back().n_nodes == nodes[i])
      ++blocks.back().n_nodes;
    else
      blocks.push_back({nodes[i], 1, n_ranks});
    i += n_ranks;
  }
  std::string text = "(vector";
  for (const auto& b : blocks) text += fmt::format(",({},{},{})", b.node, b.n_nodes, b.n_ranks);
  return text + ")";
}

Pmi1Job::Pmi1Job(Facts facts) : facts_(std::move(facts)), ranks_(facts_.nodes.size()) {
  const std::string mapping = process_mapping(facts_.nodes);
  // A client without it compares host names instead.
  if (mapping.size() <= kMaxValue) stored_["PMI_process_mapping"] = mapping;
  n_local_ = static_cast<size_t>(std::count(facts_.nodes.begin(), facts_.nodes.end(), facts_.here));
}

Status Pmi1Job::input(uint32_t rank, std::string_view bytes, Output& out) {
  if (rank >= ranks_.size()) return fail(Code::kInternal, "no such PMI-1 rank");
  auto& partial = ranks_[rank].partial;
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const auto n = std::min(newline, bytes.size());
    if (partial.size() + n > kMaxLine)
      return fail(Code::kInvalid, fmt::format("a PMI-1 request of over {} bytes", kMaxLine));
    partial.append(bytes.substr(0, n));
    if (newline == std::string_view::npos) break;
    bytes.remove_prefix(newline + 1);
    const std::string line = std::exchange(partial, {});
    RLX_TRY(request(rank, line, out));
  }
  return {};
}

// A spawn request is several lines, from "mcmd=spawn" to "endcmd".
Status Pmi1Job::request(uint32_t rank, std::string_view line, Output& out) {
  if (ranks_[rank].in_multiline) {
    if (line == "endcmd") {
      ranks_[rank].in_multiline = false;
      out.lines.push_back({rank, "cmd=spawn_result rc=-1 msg=spawn_is_not_supported\n"});
    }
    return {};
  }
  if (line.substr(0, 5) == "mcmd=") {
    ranks_[rank].in_multiline = true;
    return {};
  }
  return command(rank, split_fields(line), out);
}

Status Pmi1Job::command(uint32_t rank, const Fields& fields, Output& out) {
  const auto name = field(fields, "cmd");
  std::string reply;
  if (name == "init") {
    out.connected = true;
    reply = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
  } else if (name == "get_maxes") {
    reply = fmt::format("cmd=maxes kvsname_max={} keylen_max={} vallen_max={}", kMaxName, kMaxKey,
                        kMaxValue);
  } else if (name == "get_appnum") {
    reply = fmt::format("cmd=appnum appnum={}", facts_.apps[rank]);
  } else if (name == "get_my_kvsname") {
    reply = "cmd=my_kvsname kvsname=" + facts_.name;
  } else if (name == "get_universe_size") {
    reply = fmt::format("cmd=universe_size size={}", facts_.universe_size);
  } else if (name == "put") {
    reply = put(fields);
  } else if (name == "get") {
    reply = get(fields);
  } else if (name == "getbyidx") {
    reply = get_by_index(fields);
  } else if (name == "barrier_in") {
    barrier(rank, out);
    return {};
  } else if (name == "publish_name") {
    reply = publish(fields);
  } else if (name == "lookup_name") {
    reply = lookup(fields);
  } else if (name == "unpublish_name") {
    const bool known = services_.erase(std::string(field(fields, "service"))) > 0;
    reply = known ? "cmd=unpublish_result rc=0 info=ok"
                  : "cmd=unpublish_result rc=-1 msg=service_not_found";
  } else if (name == "finalize") {
    out.finalized = true;
    reply = "cmd=finalize_ack";
  } else if (name == "abort") {
    out.abort = Abort{to_int(field(fields, "exitcode"), 1), "PMI abort"};
    return {};
  } else {
    return fail(Code::kInvalid, fmt::format("unknown PMI-1 request \"{}\"", name.substr(0, 40)));
  }
  out.lines.push_back({rank, reply + "\n"});
  return {};
}

void Pmi1Job::barrier(uint32_t rank, Output& out) {
  if (std::exchange(ranks_[rank].in_barrier, true)) return;
  if (++n_in_barrier_ < n_local_) return;
  ByteWriter part;
  for (const auto& [key, value] : fresh_) {
    part.put_string(key);
    part.put_string(value);
  }
  fresh_.clear();
  if (n_local_ < ranks_.size())
    out.barrier = part.take();
  else
    barrier_done("", out);
}

void Pmi1Job::barrier_done(const Result<std::string>& all, Output& out) {
  bool good = all.has_value();
  ByteReader in(good ? std::string_view(*all) : std::string_view());
  while (good && !in.at_end()) {
    const auto key = in.get_string();
    const auto value = in.get_string();
    good = in.ok() && store(key, value);
  }
  n_in_barrier_ = 0;
  for (uint32_t r = 0; r < ranks_.size(); ++r)
    if (std::exchange(ranks_[r].in_barrier, false))
      out.lines.push_back({r, good ? "cmd=barrier_out rc=0\n" : "cmd=barrier_out rc=-1\n"});
}

// False: too long, or the store is full.
bool Pmi1Job::store(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > kMaxKey || value.size() > kMaxValue) return false;
  if (n_stored_ + key.size() + value.size() > kMaxStored) return false;
  const auto [it, is_new] = stored_.insert_or_assign(std::string(key), std::string(value));
  if (is_new) n_stored_ += key.size() + value.size();
  return true;
}

std::string Pmi1Job::put(const Fields& fields) {
  const auto key = field(fields, "key");
  const auto value = field(fields, "value");
  if (!store(key, value)) return "cmd=put_result rc=-1 msg=too_long_or_store_full";
  if (n_local_ < ranks_.size()) fresh_[std::string(key)] = value;
  return "cmd=put_result rc=0 msg=success";
}

std::string Pmi1Job::get(const Fields& fields) const {
  const auto it = stored_.find(field(fields, "key"));
  if (it == stored_.end()) return "cmd=get_result rc=-1 msg=key_not_found";
  return "cmd=get_result rc=0 msg=success value=" + it->second;
}

std::string Pmi1Job::get_by_index(const Fields& fields) const {
  const int index = to_int(field(fields, "idx"), -1);
  if (index < 0 || static_cast<size_t>(index) >= stored_.size())
    return "cmd=getbyidx_results rc=-1 reason=no_more_keyvals";
  const auto it = std::next(stored_.begin(), index);
  return fmt::format("cmd=getbyidx_results rc=0 nextidx={} key={} val={}", index + 1, it->first,
                     it->second);
}

std::string Pmi1Job::publish(const Fields& fields) {
  const auto service = field(fields, "service");
  const auto port = field(fields, "port");
  if (service.empty() || service.size() > kMaxValue || port.size() > kMaxValue ||
      n_stored_ + service.size() + port.size() > kMaxStored)
    return "cmd=publish_result rc=-1 msg=bad_length";
  if (!services_.emplace(service, port).second)
    return "cmd=publish_result rc=-1 msg=already_published";
  n_stored_ += service.size() + port.size();
  return "cmd=publish_result rc=0 info=ok";
}

std::string Pmi1Job::lookup(const Fields& fields) const {
  const auto it = services_.find(field(fields, "service"));
  if (it == services_.end()) return "cmd=lookup_result rc=-1 msg=service_not_found";
  return "cmd=lookup_result rc=0 port=" + it->second;
}

}  // namespace rlx::pmix
