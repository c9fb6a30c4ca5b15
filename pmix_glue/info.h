// SPDX-License-Identifier: MIT OR Apache-2.0
// Owned arrays of pmix_info_t, and readers that accept whatever type a peer sent.
#pragma once

#include <pmix.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pmix_glue/proc_id.h"

namespace rlx::pmix {

// libpmix reads types exactly: LOCAL_RANK must be u16, JOB_SIZE u32, and so on.
class InfoList {
 public:
  InfoList() = default;
  ~InfoList();
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;

  void text(const char* key, const std::string& value);
  void u16(const char* key, uint16_t value);
  void u32(const char* key, uint32_t value);
  void integer(const char* key, int value);
  void rank(const char* key, pmix_rank_t value);
  void flag(const char* key, bool value);
  void status(const char* key, pmix_status_t value);
  void proc(const char* key, const ProcId& value);
  void regex(const char* key, const char* value);  // from PMIx_generate_regex or _ppn
  void array(const char* key, InfoList& entries);  // takes the entries
  void value(const char* key, const pmix_value_t& value);
  // `topology` stays the caller's; the entry only points to it.
  void topology(const char* key, pmix_topology_t* topology);

  pmix_info_t* data() { return infos_.data(); }
  size_t size() const { return infos_.size(); }
  // A malloc'ed copy of the array that libpmix frees.
  pmix_info_t* release();

 private:
  void load(const char* key, const void* value, pmix_data_type_t type);
  std::vector<pmix_info_t> infos_;
};

const pmix_value_t* find(const pmix_info_t* infos, size_t n, const char* key);
// Any integer type, status, rank or bool; nothing for other types.
std::optional<int64_t> number(const pmix_value_t* value);
// Empty unless it is a string.
std::string text(const pmix_value_t* value);
// PMIX_TIMEOUT in milliseconds; nothing when absent or zero.
std::optional<int64_t> timeout_ms(const pmix_info_t* infos, size_t n);

ProcId to_proc_id(const pmix_proc_t& proc);
pmix_proc_t from_proc_id(const ProcId& id);
std::vector<ProcId> to_proc_ids(const pmix_proc_t* procs, size_t n);

// A value as bytes that another server can read back.
Result<std::string> pack_value(const pmix_value_t& value);
Status unpack_value(const std::string& bytes, pmix_value_t& value);

}  // namespace rlx::pmix
