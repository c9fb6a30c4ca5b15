// SPDX-License-Identifier: MIT OR Apache-2.0
// JSON that somebody else wrote, for rlx-eplb: errors name the file and what was seen.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace rlx::eplb {

// Refuses a key that is twice in an object.
Result<nlohmann::json> parse_json(const std::string& path, const std::string& text);
// The array under `key`, or the document itself if it is one; not empty.
Result<const nlohmann::json*> array_in(const std::string& path, const nlohmann::json& document,
                                       const char* key);
// A value in a message. One that nests deeply must not be walked.
std::string shown(const nlohmann::json& value);

}  // namespace rlx::eplb
