// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_json.h"

#include <fmt/core.h>

#include <optional>
#include <set>
#include <vector>

namespace rlx::eplb {

using nlohmann::json;

Result<json> parse_json(const std::string& path, const std::string& text) {
  // A key that comes twice in an object would win silently over its first value.
  std::vector<std::set<std::string>> keys;
  std::optional<std::string> repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed).second)
      repeated = parsed.get<std::string>();
    return true;
  };
  try {
    json document = json::parse(text, watch);
    if (!repeated) return document;
    return fail(Code::kInvalid,
                fmt::format("{}: \"{}\" is in it twice", path, repeated->substr(0, 40)));
  } catch (const json::exception& e) {
    std::string what = e.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    for (char& c : what)
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    return fail(Code::kInvalid, fmt::format("{}: not JSON: {}", path, what.substr(0, 200)));
  }
}

Result<const json*> array_in(const std::string& path, const json& document, const char* key) {
  const json* found = &document;
  if (document.is_object()) {
    const auto it = document.find(key);
    if (it == document.end())
      return fail(Code::kInvalid, fmt::format("{}: no \"{}\" in it", path, key));
    found = &*it;
  }
  if (found->is_array() && !found->empty()) return found;
  return fail(Code::kInvalid, fmt::format("{}: \"{}\" is no array of rows", path, key));
}

std::string shown(const json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40);
}

}  // namespace rlx::eplb
