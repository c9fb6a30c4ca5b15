// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/frame.h"

#include "base/bytes.h"

namespace rlx::pmix {
namespace {

void put(ByteWriter& out, const ProcId& id) {
  out.put(id.rank);
  out.put_string(id.job);
}

ProcId get_proc(ByteReader& in) {
  ProcId id;
  id.rank = in.get<uint32_t>();
  id.job = in.get_string();
  return id;
}

// The count comes from outside: memory grows only as fast as the bytes that are really there.
template <class Item, class Get>
std::vector<Item> get_list(ByteReader& in, Get get) {
  std::vector<Item> items;
  const auto n = in.get<uint32_t>();
  for (uint32_t i = 0; i < n && in.ok(); ++i) items.push_back(get(in));
  return items;
}

template <class T>
bool get_enum(ByteReader& in, T last, T& value) {
  using Raw = std::underlying_type_t<T>;
  const auto raw = in.get<Raw>();
  value = static_cast<T>(raw);
  return raw >= 0 && raw <= static_cast<Raw>(last);
}

tl::unexpected<Error> malformed(const char* what) {
  return fail(Code::kInvalid, std::string("malformed ") + what + " between PMIx servers");
}

}  // namespace

std::string encode(const Frame& frame) {
  ByteWriter out;
  out.put(static_cast<uint8_t>(frame.kind));
  out.put(frame.what);
  out.put(static_cast<uint8_t>(frame.last));
  out.put(static_cast<int32_t>(frame.code));
  out.put(frame.value);
  out.put(frame.id);
  put(out, frame.proc);
  out.put(static_cast<uint32_t>(frame.procs.size()));
  for (const auto& id : frame.procs) put(out, id);
  out.put(static_cast<uint32_t>(frame.nodes.ranges().size()));
  for (const auto& [first, end] : frame.nodes.ranges()) {
    out.put(first);
    out.put(end);
  }
  out.put(static_cast<uint32_t>(frame.keys.size()));
  for (const auto& key : frame.keys) out.put_string(key);
  out.put_string(frame.data);
  return out.take();
}

Result<Frame> decode(std::string_view bytes) {
  if (bytes.size() > 2 * kMaxFrame) return malformed("frame (too long)");
  ByteReader in(bytes);
  Frame frame;
  bool good = get_enum(in, Frame::kLastKind, frame.kind);
  frame.what = in.get<uint8_t>();
  frame.last = in.get<uint8_t>() != 0;
  good &= get_enum(in, Code::kInternal, frame.code);
  frame.value = in.get<int32_t>();
  frame.id = in.get<uint64_t>();
  frame.proc = get_proc(in);
  frame.procs = get_list<ProcId>(in, get_proc);
  const auto n_ranges = in.get<uint32_t>();
  for (uint32_t i = 0; i < n_ranges && in.ok(); ++i) {
    const auto first = in.get<uint32_t>();
    const auto end = in.get<uint32_t>();
    good &= end != UINT32_MAX && frame.nodes.append({first, end});
  }
  frame.keys = get_list<std::string>(in, [](ByteReader& r) { return std::string(r.get_string()); });
  frame.data = in.get_string();
  const bool is_meeting = frame.kind == Frame::Kind::kPart || frame.kind == Frame::Kind::kDone;
  const auto last_what = is_meeting ? static_cast<uint8_t>(Meeting::kPmi1Barrier)
                                    : static_cast<uint8_t>(Ending::Kind::kNodeLost);
  good &= static_cast<uint8_t>(frame.kind) != 0 && frame.what <= last_what;
  if (!good || !in.at_end()) return malformed("frame");
  return frame;
}

std::string encode(const std::vector<Publication>& items) {
  ByteWriter out;
  out.put(static_cast<uint32_t>(items.size()));
  for (const auto& item : items) {
    put(out, item.owner);
    out.put(static_cast<uint8_t>(item.lifetime));
    out.put(static_cast<uint8_t>(item.scope));
    out.put_string(item.key);
    out.put_string(item.value);
  }
  return out.take();
}

Result<std::vector<Publication>> decode_publications(std::string_view bytes) {
  ByteReader in(bytes);
  bool good = true;
  auto items = get_list<Publication>(in, [&good](ByteReader& r) {
    Publication item;
    item.owner = get_proc(r);
    good &= get_enum(r, Publication::Lifetime::kSession, item.lifetime);
    good &= get_enum(r, Publication::Scope::kSession, item.scope);
    item.key = r.get_string();
    item.value = r.get_string();
    return item;
  });
  if (!good || !in.at_end()) return malformed("publications");
  return items;
}

std::string encode(const std::vector<Process>& table) {
  ByteWriter out;
  out.put(static_cast<uint32_t>(table.size()));
  for (const auto& row : table) {
    out.put(row.rank);
    out.put(row.pid);
    out.put(row.exit_code);
    out.put(row.state);
  }
  return out.take();
}

Result<std::vector<Process>> decode_processes(std::string_view bytes) {
  ByteReader in(bytes);
  auto table = get_list<Process>(in, [](ByteReader& r) {
    Process row;
    row.rank = r.get<uint32_t>();
    row.pid = r.get<int64_t>();
    row.exit_code = r.get<int32_t>();
    row.state = r.get<uint16_t>();
    return row;
  });
  if (!in.at_end()) return malformed("process table");
  return table;
}

}  // namespace rlx::pmix
