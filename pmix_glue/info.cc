// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/info.h"

#include <cstdlib>
#include <cstring>

#include "pmix_glue/status.h"

namespace rlx::pmix {

InfoList::~InfoList() {
  for (auto& info : infos_) {
    // The topology is not ours to free.
    if (info.value.type == PMIX_TOPO) info.value.data.topo = nullptr, info.value.type = PMIX_UNDEF;
    PMIX_INFO_DESTRUCT(&info);
  }
}

void InfoList::load(const char* key, const void* value, pmix_data_type_t type) {
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_INFO_LOAD(&info, key, value, type);
  infos_.push_back(info);
}

void InfoList::text(const char* key, const std::string& value) {
  load(key, value.c_str(), PMIX_STRING);
}
void InfoList::u16(const char* key, uint16_t value) { load(key, &value, PMIX_UINT16); }
void InfoList::u32(const char* key, uint32_t value) { load(key, &value, PMIX_UINT32); }
void InfoList::integer(const char* key, int value) { load(key, &value, PMIX_INT); }
void InfoList::rank(const char* key, pmix_rank_t value) { load(key, &value, PMIX_PROC_RANK); }
void InfoList::flag(const char* key, bool value) { load(key, &value, PMIX_BOOL); }
void InfoList::status(const char* key, pmix_status_t value) { load(key, &value, PMIX_STATUS); }
void InfoList::proc(const char* key, const ProcId& value) {
  const pmix_proc_t proc = from_proc_id(value);
  load(key, &proc, PMIX_PROC);
}
void InfoList::regex(const char* key, const char* value) { load(key, value, PMIX_REGEX); }

void InfoList::array(const char* key, InfoList& entries) {
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_LOAD_KEY(info.key, key);
  info.value.type = PMIX_DATA_ARRAY;
  auto* array = static_cast<pmix_data_array_t*>(std::malloc(sizeof(pmix_data_array_t)));
  array->type = PMIX_INFO;
  array->size = entries.size();
  array->array = entries.release();
  info.value.data.darray = array;
  infos_.push_back(info);
}

void InfoList::value(const char* key, const pmix_value_t& value) {
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_LOAD_KEY(info.key, key);
  PMIx_Value_xfer(&info.value, &value);
  infos_.push_back(info);
}

void InfoList::topology(const char* key, pmix_topology_t* topology) {
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_LOAD_KEY(info.key, key);
  info.value.type = PMIX_TOPO;
  info.value.data.topo = topology;
  infos_.push_back(info);
}

pmix_info_t* InfoList::release() {
  pmix_info_t* copy = nullptr;
  PMIX_INFO_CREATE(copy, infos_.size());
  if (copy != nullptr) std::memcpy(copy, infos_.data(), infos_.size() * sizeof(pmix_info_t));
  infos_.clear();
  return copy;
}

const pmix_value_t* find(const pmix_info_t* infos, size_t n, const char* key) {
  for (size_t i = 0; i < n; ++i)
    if (PMIX_CHECK_KEY(&infos[i], key)) return &infos[i].value;
  return nullptr;
}

std::optional<int64_t> number(const pmix_value_t* value) {
  if (value == nullptr) return std::nullopt;
  switch (value->type) {
    case PMIX_BOOL:
      return value->data.flag;
    case PMIX_BYTE:
      return value->data.byte;
    case PMIX_SIZE:
      return static_cast<int64_t>(value->data.size);
    case PMIX_PID:
      return value->data.pid;
    case PMIX_INT:
      return value->data.integer;
    case PMIX_INT8:
      return value->data.int8;
    case PMIX_INT16:
      return value->data.int16;
    case PMIX_INT32:
      return value->data.int32;
    case PMIX_INT64:
      return value->data.int64;
    case PMIX_UINT:
      return value->data.uint;
    case PMIX_UINT8:
      return value->data.uint8;
    case PMIX_UINT16:
      return value->data.uint16;
    case PMIX_UINT32:
      return value->data.uint32;
    case PMIX_UINT64:
      return static_cast<int64_t>(value->data.uint64);
    case PMIX_STATUS:
      return value->data.status;
    case PMIX_PROC_RANK:
      return value->data.rank;
    case PMIX_PERSIST:
      return value->data.persist;
    case PMIX_DATA_RANGE:
      return value->data.range;
    default:
      return std::nullopt;
  }
}

std::string text(const pmix_value_t* value) {
  if (value == nullptr || value->type != PMIX_STRING || value->data.string == nullptr) return {};
  return value->data.string;
}

std::optional<int64_t> timeout_ms(const pmix_info_t* infos, size_t n) {
  const auto seconds = number(find(infos, n, PMIX_TIMEOUT));
  if (!seconds || *seconds <= 0) return std::nullopt;
  return *seconds * 1000;
}

ProcId to_proc_id(const pmix_proc_t& proc) {
  return {std::string(proc.nspace, strnlen(proc.nspace, PMIX_MAX_NSLEN)),
          proc.rank == PMIX_RANK_WILDCARD ? kAllRanks : proc.rank};
}

pmix_proc_t from_proc_id(const ProcId& id) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, id.job.c_str(), id.rank == kAllRanks ? PMIX_RANK_WILDCARD : id.rank);
  return proc;
}

std::vector<ProcId> to_proc_ids(const pmix_proc_t* procs, size_t n) {
  std::vector<ProcId> ids;
  ids.reserve(n);
  for (size_t i = 0; i < n; ++i) ids.push_back(to_proc_id(procs[i]));
  return ids;
}

Result<std::string> pack_value(const pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  const pmix_status_t packed =
      PMIx_Data_pack(nullptr, &buffer, const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE);
  std::string bytes(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  if (packed != PMIX_SUCCESS) return fail_pmix(packed, "cannot pack a published value");
  return bytes;
}

Status unpack_value(const std::string& bytes, pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  pmix_byte_object_t object{static_cast<char*>(std::malloc(bytes.size() + 1)), bytes.size()};
  std::memcpy(object.bytes, bytes.data(), bytes.size());
  pmix_status_t status = PMIx_Data_load(&buffer, &object);
  int32_t count = 1;
  if (status == PMIX_SUCCESS)
    status = PMIx_Data_unpack(nullptr, &buffer, &value, &count, PMIX_VALUE);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  if (status != PMIX_SUCCESS) return fail_pmix(status, "cannot unpack a published value");
  return {};
}

}  // namespace rlx::pmix
