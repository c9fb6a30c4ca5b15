// SPDX-License-Identifier: MIT OR Apache-2.0
// The peers' side of the benchmarks: the loops of perf_core.h over MPI. Compiled by
// contrib/bench/compare with mpicxx.openmpi and mpicxx.mpich.
#include <mpi.h>

#include <cstdlib>

#include "contrib/bench/perf_core.h"

namespace {

class MpiLib {
 public:
  using Request = MPI_Request;

  explicit MpiLib(const std::string& dtype) : type_(type_of(dtype)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  static std::string version() {
#ifdef OPEN_MPI
    return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." +
           std::to_string(OMPI_MINOR_VERSION) + "." + std::to_string(OMPI_RELEASE_VERSION);
#else
    return std::string("MPICH ") + MPICH_VERSION;
#endif
  }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  static void* alloc(std::uint64_t n) { return std::aligned_alloc(4096, (n + 4095) / 4096 * 4096); }
  static void dealloc(void* p) { std::free(p); }
  void send(const void* p, std::uint64_t n, int dest) {
    MPI_Send(p, static_cast<int>(n), MPI_BYTE, dest, 1, MPI_COMM_WORLD);
  }
  void recv(void* p, std::uint64_t n, int source) {
    MPI_Recv(p, static_cast<int>(n), MPI_BYTE, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void isend(const void* p, std::uint64_t n, int dest, Request* request) {
    MPI_Isend(p, static_cast<int>(n), MPI_BYTE, dest, 1, MPI_COMM_WORLD, request);
  }
  void irecv(void* p, std::uint64_t n, int source, Request* request) {
    MPI_Irecv(p, static_cast<int>(n), MPI_BYTE, source, 1, MPI_COMM_WORLD, request);
  }
  void wait_all(int n, Request* requests) { MPI_Waitall(n, requests, MPI_STATUSES_IGNORE); }
  void gather(const double* mine, double* all, int n) {
    MPI_Gather(mine, n, MPI_DOUBLE, all, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
  void bcast(double* p, int n) { MPI_Bcast(p, n, MPI_DOUBLE, 0, MPI_COMM_WORLD); }

  void run(const perf::Call& call) {
    const int n = static_cast<int>(call.count);
    const auto& test = call.test;
    const MPI_Comm world = MPI_COMM_WORLD;
    if (test == "all_reduce")
      MPI_Allreduce(call.in, call.out, n, type_, MPI_SUM, world);
    else if (test == "barrier")
      MPI_Barrier(world);
    else if (test == "broadcast")
      MPI_Bcast(call.out, n, type_, 0, world);
    else if (test == "reduce")
      MPI_Reduce(call.in, call.out, n, type_, MPI_SUM, 0, world);
    else if (test == "all_gather")
      MPI_Allgather(call.in, n, type_, call.out, n, type_, world);
    else if (test == "reduce_scatter")
      MPI_Reduce_scatter_block(call.in, call.out, n, type_, MPI_SUM, world);
    else if (test == "all_to_all")
      MPI_Alltoall(call.in, n, type_, call.out, n, type_, world);
    else if (test == "gather")
      MPI_Gather(call.in, n, type_, call.out, n, type_, 0, world);
    else
      MPI_Scatter(call.in, n, type_, call.out, n, type_, 0, world);
  }

 private:
  static MPI_Datatype type_of(const std::string& dtype) {
    if (dtype == "i8") return MPI_INT8_T;
    if (dtype == "u8") return MPI_UINT8_T;
    if (dtype == "i32") return MPI_INT32_T;
    if (dtype == "u32") return MPI_UINT32_T;
    if (dtype == "i64") return MPI_INT64_T;
    if (dtype == "u64") return MPI_UINT64_T;
    if (dtype == "f64") return MPI_DOUBLE;
    return MPI_FLOAT;
  }

  MPI_Datatype type_;
  int rank_ = 0, size_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  perf::Options options;
  const std::string wrong = perf::parse(argc, argv, options);
  if (!wrong.empty() || options.dtype == "f16" || options.dtype == "bf16" ||
      options.mode != "fast" || options.pool) {
    std::fprintf(stderr, "mpi_perf: %s\n",
                 wrong.empty() ? "MPI has no such type, mode or memory" : wrong.c_str());
    return 2;
  }
  MPI_Init(&argc, &argv);
  MpiLib lib(options.dtype);
  int n_wrong = perf::Runner<MpiLib>(lib, options).run();
  MPI_Bcast(&n_wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return n_wrong ? 1 : 0;
}
