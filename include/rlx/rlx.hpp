// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx: message passing for distributed machine learning. The C++20 face over rlx.h, header only.
//
//   #include <rlx/rlx.hpp>
//   int main() {
//     rlx::World world;
//     std::vector<float> gradient(1 << 20, 1.0f);
//     world.all_reduce(gradient);                   // in place, sum over all ranks
//   }
//
// Buffers: In and Out are views made from any contiguous range (vector, array, span, Buffer) of an
// element type below. Counts are elements, 64 bit. Nothing is copied: what an i-call was given
// stays alive and untouched until its Request completes.
// Errors: every call throws Error, whose code is an rlx_error and whose text is 1-3 lines for
// people. Destructors never throw.
// Thread: calls may come from any thread, one at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <rlx/request.hpp>
#include <rlx/types.hpp>
#include <span>
#include <string>
#include <utility>

namespace rlx {
inline namespace face {

// --- Memory -------------------------------------------------------------------------------------

// `count` elements in memory that peers on the same host read directly: the fastest buffers for
// collectives and large messages. Not initialised. Made and destroyed while a World lives.
// Errors: RLX_ERR_NO_MEMORY.
template <Element T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::uint64_t count) : count_(count) {
    if (count > UINT64_MAX / sizeof(T)) {
      throw Error(RLX_ERR_NO_MEMORY, "a Buffer of 2^64 bytes or more was asked for");
    }
    void* memory = nullptr;
    check(rlx_alloc(count * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr && rlx_initialized() != 0) (void)rlx_free(data_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + count_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + count_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::uint64_t count_ = 0;
};

// --- Communicators ------------------------------------------------------------------------------

using Counts = std::span<const std::uint64_t>;  // one entry a rank

// A group of ranks with its own message context. Move-only. P is size().
//
// Collectives: all ranks make the same calls in the same order; a call that differs (operation,
// type, count, root, mode) is RLX_ERR_MISMATCH on all of them. A form with one Out works in place.
// A buffer whose count does not fit P is RLX_ERR_INVALID before anything is sent.
class Comm {
 public:
  Comm() = default;
  Comm(Comm&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        owned_(std::exchange(other.owned_, false)) {}
  Comm& operator=(Comm&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm() {
    if (owned_ && rlx_initialized() != 0) (void)rlx_comm_free(&handle_);
  }

  int rank() const { return rlx_comm_rank(handle_); }
  int size() const { return rlx_comm_size(handle_); }
  rlx_comm handle() const noexcept { return handle_; }

  // Collective. Messages of the copy never match messages of the original.
  Comm dup() const {
    rlx_comm copy = nullptr;
    check(rlx_comm_dup(handle_, &copy));
    return Comm(copy, true);
  }
  // Collective. Ranks of equal colour (0 or more) form a communicator, ordered by key, then rank.
  // Colour RLX_UNDEFINED joins none and gets nothing.
  std::optional<Comm> split(int colour, int key = 0) const {
    rlx_comm part = nullptr;
    check(rlx_comm_split(handle_, colour, key, &part));
    if (part == nullptr) return std::nullopt;
    return Comm(part, true);
  }

  // --- Point to point: messages of one source are matched in the order they were sent. ---

  void send(In data, int dest, int tag = 0) const {
    check(rlx_send(data.data, data.count, data.dtype, dest, tag, handle_));
  }
  // data.count is the room. Errors: RLX_ERR_TRUNCATED for a longer message.
  Status recv(Out data, int source = kAnySource, int tag = kAnyTag) const {
    rlx_status s{};
    check(rlx_recv(data.data, data.count, data.dtype, source, tag, handle_, &s));
    return Status(s);
  }
  [[nodiscard]] Request isend(In data, int dest, int tag = 0) const {
    return start([&](rlx_request* r) {
      return rlx_isend(data.data, data.count, data.dtype, dest, tag, handle_, r);
    });
  }
  [[nodiscard]] Request irecv(Out data, int source = kAnySource, int tag = kAnyTag) const {
    return start([&](rlx_request* r) {
      return rlx_irecv(data.data, data.count, data.dtype, source, tag, handle_, r);
    });
  }
  Status sendrecv(In data, int dest, int send_tag, Out into, int source = kAnySource,
                  int recv_tag = kAnyTag) const {
    rlx_status s{};
    check(rlx_sendrecv(data.data, data.count, data.dtype, dest, send_tag, into.data, into.count,
                       into.dtype, source, recv_tag, handle_, &s));
    return Status(s);
  }
  // Waits for a message without receiving it.
  Status probe(int source = kAnySource, int tag = kAnyTag) const {
    rlx_status s{};
    check(rlx_probe(source, tag, handle_, &s));
    return Status(s);
  }
  std::optional<Status> iprobe(int source = kAnySource, int tag = kAnyTag) const {
    rlx_status s{};
    int flag = 0;
    check(rlx_iprobe(source, tag, handle_, &flag, &s));
    return flag != 0 ? std::optional(Status(s)) : std::nullopt;
  }

  // --- Collectives ---

  void barrier() const { check(rlx_barrier(handle_)); }
  [[nodiscard]] Request ibarrier() const {
    return start([&](rlx_request* r) { return rlx_ibarrier(handle_, r); });
  }

  // data[n] of root to data[n] of all.
  void broadcast(Out data, int root = 0) const {
    check(rlx_broadcast(data.data, data.count, data.dtype, root, handle_));
  }
  [[nodiscard]] Request ibroadcast(Out data, int root = 0) const {
    return start([&](rlx_request* r) {
      return rlx_ibroadcast(data.data, data.count, data.dtype, root, handle_, r);
    });
  }
  // The root's value.
  template <Element T>
  T broadcast(T value, int root = 0) const {
    broadcast(Out(std::span<T>(&value, 1)), root);
    return value;
  }

  // in[n] of all to out[n] of root; elsewhere out is not touched and may be empty.
  void reduce(In in, Out out, int root = 0, Op op = Op::sum, Mode mode = Mode::fast) const {
    if (rank() == root) same(in, out, in.count);
    check(rlx_reduce(in.data, out.data, in.count, in.dtype, raw(op), raw(mode), root, handle_));
  }
  [[nodiscard]] Request ireduce(In in, Out out, int root = 0, Op op = Op::sum,
                                Mode mode = Mode::fast) const {
    if (rank() == root) same(in, out, in.count);
    return start([&](rlx_request* r) {
      return rlx_ireduce(in.data, out.data, in.count, in.dtype, raw(op), raw(mode), root, handle_,
                         r);
    });
  }

  // in[n] of all, reduced, to out[n] of all.
  void all_reduce(In in, Out out, Op op = Op::sum, Mode mode = Mode::fast) const {
    same(in, out, in.count);
    check(rlx_all_reduce(in.data, out.data, in.count, in.dtype, raw(op), raw(mode), handle_));
  }
  void all_reduce(Out data, Op op = Op::sum, Mode mode = Mode::fast) const {
    check(
        rlx_all_reduce(data.data, data.data, data.count, data.dtype, raw(op), raw(mode), handle_));
  }
  template <Element T>
  T all_reduce(T value, Op op = Op::sum, Mode mode = Mode::fast) const {
    all_reduce(Out(std::span<T>(&value, 1)), op, mode);
    return value;
  }
  [[nodiscard]] Request iall_reduce(In in, Out out, Op op = Op::sum, Mode mode = Mode::fast) const {
    same(in, out, in.count);
    return start([&](rlx_request* r) {
      return rlx_iall_reduce(in.data, out.data, in.count, in.dtype, raw(op), raw(mode), handle_, r);
    });
  }
  [[nodiscard]] Request iall_reduce(Out data, Op op = Op::sum, Mode mode = Mode::fast) const {
    return start([&](rlx_request* r) {
      return rlx_iall_reduce(data.data, data.data, data.count, data.dtype, raw(op), raw(mode),
                             handle_, r);
    });
  }

  // in[n] of each rank to out[P * n] of all, by rank; `in` may be its own block of `out`.
  void all_gather(In in, Out out) const {
    same(in, out, in.count * p());
    check(rlx_all_gather(in.data, out.data, in.count, in.dtype, handle_));
  }
  [[nodiscard]] Request iall_gather(In in, Out out) const {
    same(in, out, in.count * p());
    return start([&](rlx_request* r) {
      return rlx_iall_gather(in.data, out.data, in.count, in.dtype, handle_, r);
    });
  }
  // in[counts[rank]]; block r at out[displs[r]]. counts and displs are the same on all ranks.
  void all_gatherv(In in, Out out, Counts counts, Counts displs) const {
    own_block(in, counts);
    blocks(out.count, counts, displs, "out");
    same(in, out, out.count);
    check(rlx_all_gatherv(in.data, out.data, counts.data(), displs.data(), in.dtype, handle_));
  }
  [[nodiscard]] Request iall_gatherv(In in, Out out, Counts counts, Counts displs) const {
    own_block(in, counts);
    blocks(out.count, counts, displs, "out");
    same(in, out, out.count);
    return start([&](rlx_request* r) {
      return rlx_iall_gatherv(in.data, out.data, counts.data(), displs.data(), in.dtype, handle_,
                              r);
    });
  }

  // in[P * n] of all; out[n] = reduced block `rank`, which may be that block of `in`.
  void reduce_scatter(In in, Out out, Op op = Op::sum, Mode mode = Mode::fast) const {
    same(in, out, in.count, p());
    check(rlx_reduce_scatter(in.data, out.data, out.count, in.dtype, raw(op), raw(mode), handle_));
  }
  [[nodiscard]] Request ireduce_scatter(In in, Out out, Op op = Op::sum,
                                        Mode mode = Mode::fast) const {
    same(in, out, in.count, p());
    return start([&](rlx_request* r) {
      return rlx_ireduce_scatter(in.data, out.data, out.count, in.dtype, raw(op), raw(mode),
                                 handle_, r);
    });
  }

  // Block d of in[P * n] to rank d; block s of out[P * n] from rank s. Not in place.
  void all_to_all(In in, Out out) const {
    check(rlx_all_to_all(in.data, out.data, per_rank(in, out), in.dtype, handle_));
  }
  [[nodiscard]] Request iall_to_all(In in, Out out) const {
    const std::uint64_t n = per_rank(in, out);
    return start([&](rlx_request* r) {
      return rlx_iall_to_all(in.data, out.data, n, in.dtype, handle_, r);
    });
  }
  // send_counts[d] elements at in[send_displs[d]] to rank d, received likewise.
  void all_to_allv(In in, Counts send_counts, Counts send_displs, Out out, Counts recv_counts,
                   Counts recv_displs) const {
    blocks(in.count, send_counts, send_displs, "in");
    blocks(out.count, recv_counts, recv_displs, "out");
    same(in, out, out.count);
    check(rlx_all_to_allv(in.data, send_counts.data(), send_displs.data(), out.data,
                          recv_counts.data(), recv_displs.data(), in.dtype, handle_));
  }
  [[nodiscard]] Request iall_to_allv(In in, Counts send_counts, Counts send_displs, Out out,
                                     Counts recv_counts, Counts recv_displs) const {
    blocks(in.count, send_counts, send_displs, "in");
    blocks(out.count, recv_counts, recv_displs, "out");
    same(in, out, out.count);
    return start([&](rlx_request* r) {
      return rlx_iall_to_allv(in.data, send_counts.data(), send_displs.data(), out.data,
                              recv_counts.data(), recv_displs.data(), in.dtype, handle_, r);
    });
  }

  // in[n] of each rank to out[P * n] of root; elsewhere out may be empty.
  void gather(In in, Out out, int root = 0) const {
    if (rank() == root) same(in, out, in.count * p());
    check(rlx_gather(in.data, out.data, in.count, in.dtype, root, handle_));
  }
  [[nodiscard]] Request igather(In in, Out out, int root = 0) const {
    if (rank() == root) same(in, out, in.count * p());
    return start([&](rlx_request* r) {
      return rlx_igather(in.data, out.data, in.count, in.dtype, root, handle_, r);
    });
  }
  // in[root's counts[rank]]; out, counts and displs are read on root only.
  void gatherv(In in, Out out, Counts counts, Counts displs, int root = 0) const {
    if (rank() == root) one_type(in, out), blocks(out.count, counts, displs, "out");
    check(rlx_gatherv(in.data, in.count, out.data, counts.data(), displs.data(), in.dtype, root,
                      handle_));
  }
  [[nodiscard]] Request igatherv(In in, Out out, Counts counts, Counts displs, int root = 0) const {
    if (rank() == root) one_type(in, out), blocks(out.count, counts, displs, "out");
    return start([&](rlx_request* r) {
      return rlx_igatherv(in.data, in.count, out.data, counts.data(), displs.data(), in.dtype, root,
                          handle_, r);
    });
  }

  // Block r of root's in[P * n] to out[n] of rank r; elsewhere in may be empty.
  void scatter(In in, Out out, int root = 0) const {
    if (rank() == root) same(in, out, in.count, p());
    check(rlx_scatter(in.data, out.data, out.count, out.dtype, root, handle_));
  }
  [[nodiscard]] Request iscatter(In in, Out out, int root = 0) const {
    if (rank() == root) same(in, out, in.count, p());
    return start([&](rlx_request* r) {
      return rlx_iscatter(in.data, out.data, out.count, out.dtype, root, handle_, r);
    });
  }
  // counts[r] elements at root's in[displs[r]] to out of rank r, whose count is counts[r].
  void scatterv(In in, Counts counts, Counts displs, Out out, int root = 0) const {
    if (rank() == root) one_type(in, out), blocks(in.count, counts, displs, "in");
    check(rlx_scatterv(in.data, counts.data(), displs.data(), out.data, out.count, out.dtype, root,
                       handle_));
  }
  [[nodiscard]] Request iscatterv(In in, Counts counts, Counts displs, Out out,
                                  int root = 0) const {
    if (rank() == root) one_type(in, out), blocks(in.count, counts, displs, "in");
    return start([&](rlx_request* r) {
      return rlx_iscatterv(in.data, counts.data(), displs.data(), out.data, out.count, out.dtype,
                           root, handle_, r);
    });
  }

 protected:
  Comm(rlx_comm handle, bool owned) : handle_(handle), owned_(owned) {}
  static rlx_comm world_handle() {
    check(rlx_init());
    return rlx_world();
  }

 private:
  static rlx_op raw(Op op) { return static_cast<rlx_op>(op); }
  static rlx_mode raw(Mode mode) { return static_cast<rlx_mode>(mode); }
  std::uint64_t p() const { return static_cast<std::uint64_t>(size()); }

  template <class Call>
  static Request start(Call call) {
    rlx_request handle = nullptr;
    check(call(&handle));
    return Request(handle);
  }
  static void demand(bool fine, const std::string& seen, const std::string& wanted) {
    if (!fine) throw Error(RLX_ERR_INVALID, seen + "; wanted " + wanted);
  }
  static void one_type(In in, Out out) {
    demand(in.dtype == out.dtype, "the buffers have different element types", "one type");
  }
  // `out` holds `wanted` elements for each `parts` of its own, and both have one element type.
  static void same(In in, Out out, std::uint64_t wanted, std::uint64_t parts = 1) {
    one_type(in, out);
    demand(out.count * parts == wanted,
           "out holds " + std::to_string(out.count) + " elements, in " + std::to_string(in.count),
           std::to_string(wanted / parts) + " in out");
  }
  std::uint64_t per_rank(In in, Out out) const {
    same(in, out, in.count);
    demand(in.count % p() == 0, "in holds " + std::to_string(in.count) + " elements",
           "a multiple of the " + std::to_string(p()) + " ranks");
    return in.count / p();
  }
  void own_block(In in, Counts counts) const {
    demand(counts.size() == p(), std::to_string(counts.size()) + " counts",
           std::to_string(p()) + ", one a rank");
    demand(in.count == counts[rank()], "in holds " + std::to_string(in.count) + " elements",
           "counts[rank] = " + std::to_string(counts[rank()]));
  }
  // Every block lies inside a buffer of `room` elements.
  void blocks(std::uint64_t room, Counts counts, Counts displs, const char* buffer) const {
    demand(counts.size() == p() && displs.size() == p(),
           std::to_string(counts.size()) + " counts and " + std::to_string(displs.size()) +
               " displacements",
           std::to_string(p()) + " of each, one a rank");
    for (std::uint64_t r = 0; r < p(); ++r) {
      demand(counts[r] <= room && displs[r] <= room - counts[r],
             "block " + std::to_string(r) + " at " + std::to_string(displs[r]) + " with " +
                 std::to_string(counts[r]) + " elements leaves the buffer",
             "blocks inside the " + std::to_string(room) + " elements of " + buffer);
    }
  }

  rlx_comm handle_ = nullptr;
  bool owned_ = false;
};

// The job: joined by the constructor, left by the destructor, both collective; once in a process: a
// second one is RLX_ERR_INVALID. If an exception destroys it, the job is not left in good order, so
// that the launcher ends the other ranks instead of letting them wait.
class World : public Comm {
 public:
  World() : Comm(world_handle(), false), n_exceptions_(std::uncaught_exceptions()) {}
  World(World&&) = delete;
  ~World() {
    if (std::uncaught_exceptions() == n_exceptions_) (void)rlx_finalize();
  }

  int local_rank() const { return rlx_local_rank(); }  // among the ranks on this host
  int local_size() const { return rlx_local_size(); }
  // Moves everything under way a little; for programs that compute for long between calls.
  void progress() const { check(rlx_progress()); }
  // Ends the whole job with exit_code (1..255) and the reason `why` on standard error.
  [[noreturn]] void abort(int exit_code, const std::string& why) const {
    rlx_abort(exit_code, why.c_str());
    std::terminate();  // not reached: rlx_abort does not return
  }

 private:
  int n_exceptions_;
};

// --- Exact sums over leaves ---------------------------------------------------------------------

// `count` f32 elements whose value is the exact sum of all arrays added on all ranks, rounded once:
// k arrays added on one rank give the same bits as one array on each of k ranks.
class ExactSum {
 public:
  explicit ExactSum(std::uint64_t count) : count_(count) { check(rlx_exact_create(count, &sum_)); }
  ExactSum(ExactSum&& other) noexcept
      : sum_(std::exchange(other.sum_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  ExactSum& operator=(ExactSum&& other) noexcept {
    std::swap(sum_, other.sum_);
    std::swap(count_, other.count_);
    return *this;
  }
  ExactSum(const ExactSum&) = delete;
  ExactSum& operator=(const ExactSum&) = delete;
  ~ExactSum() {
    if (sum_ != nullptr) (void)rlx_exact_free(&sum_);
  }

  // leaf[count]
  void add(std::span<const float> leaf) {
    fits(leaf.size());
    check(rlx_exact_add(sum_, leaf.data()));
  }
  // Collective: out[count] = the sum over all ranks' leaves; the accumulator is empty afterwards.
  void all_reduce(std::span<float> out, const Comm& comm) {
    fits(out.size());
    check(rlx_exact_all_reduce(sum_, out.data(), comm.handle()));
  }

 private:
  void fits(std::uint64_t n) const {
    if (n != count_) {
      throw Error(RLX_ERR_INVALID, "an array of " + std::to_string(n) +
                                       " elements was given to an exact sum of " +
                                       std::to_string(count_));
    }
  }

  rlx_exact sum_ = nullptr;
  std::uint64_t count_ = 0;
};

inline const char* version() { return rlx_version(); }

}  // namespace face
}  // namespace rlx
