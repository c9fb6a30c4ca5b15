/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rlx: message passing for distributed machine learning. The C interface; include/rlx/rlx.hpp is
 * the C++ face.
 *
 * Every function returns RLX_SUCCESS or an rlx_error; rlx_error_text() then holds one to three
 * lines for people. Counts are elements, 64 bit. Every blocking call has the deadline
 * RLX_TIMEOUT_MS (300 s; 0 waits for ever) and fails with RLX_ERR_TIMEOUT naming who is missing.
 * Thread: calls may come from any thread, one at a time.
 */
#ifndef RLX_RLX_H
#define RLX_RLX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 1
#define RLX_VERSION_PATCH 0

#if defined(__GNUC__)
#define RLX_API __attribute__((visibility("default")))
#else
#define RLX_API
#endif

typedef enum rlx_error {
  RLX_SUCCESS = 0,
  RLX_ERR_INVALID = 1,     /* an argument, a file or the environment is wrong */
  RLX_ERR_UNSUPPORTED = 2, /* valid, but cannot be done here */
  RLX_ERR_UNREACHABLE = 3, /* a peer cannot be reached */
  RLX_ERR_AGAIN = 4,       /* not ready */
  RLX_ERR_TIMEOUT = 5,     /* the deadline passed; the text names who is missing */
  RLX_ERR_PEER_FAILED = 6, /* a rank this operation needs is gone */
  RLX_ERR_MISMATCH = 7,    /* ranks called different collectives, or one with different arguments */
  RLX_ERR_TRUNCATED = 8,   /* a message is longer than the receive buffer */
  RLX_ERR_CANCELLED = 9,   /* the request was cancelled */
  RLX_ERR_NO_MEMORY = 10,
  RLX_ERR_SYSTEM = 11,  /* the operating system refused */
  RLX_ERR_INTERNAL = 12 /* a defect of rlx */
} rlx_error;

typedef enum rlx_dtype {
  RLX_I8 = 0,
  RLX_U8 = 1,
  RLX_I32 = 2,
  RLX_U32 = 3,
  RLX_I64 = 4,
  RLX_U64 = 5,
  RLX_F16 = 6,
  RLX_BF16 = 7,
  RLX_F32 = 8,
  RLX_F64 = 9
} rlx_dtype;

/* Reduction operations. Logical and bitwise ones take integer types only. */
typedef enum rlx_op {
  RLX_SUM = 0,
  RLX_PROD = 1,
  RLX_MIN = 2,
  RLX_MAX = 3,
  RLX_AVG = 4, /* sum, then one division by the number of ranks */
  RLX_LAND = 5,
  RLX_LOR = 6,
  RLX_LXOR = 7,
  RLX_BAND = 8,
  RLX_BOR = 9,
  RLX_BXOR = 10
} rlx_op;

/* How floating-point sums (RLX_SUM, RLX_AVG) are formed; all ranks get the same bits in every mode.
 */
typedef enum rlx_mode {
  RLX_FAST = 0,    /* any order */
  RLX_ORDERED = 1, /* rank order: the same bits whenever the number of ranks is the same */
  RLX_EXACT = 2    /* the exact sum of all contributions, rounded once: the same bits for any number
                      and order */
} rlx_mode;

typedef struct rlx_comm_s* rlx_comm;       /* a group of ranks with its own message context */
typedef struct rlx_request_s* rlx_request; /* an operation under way; NULL is a completed one */

#define RLX_ANY_SOURCE (-1)
#define RLX_ANY_TAG (-1)
#define RLX_TAG_MAX 2147483647 /* tags are 0 .. RLX_TAG_MAX */
#define RLX_UNDEFINED \
  (-1) /* colour of a rank that joins no part in rlx_comm_split; also "no index" */

typedef struct rlx_status {
  int32_t source;    /* rank in the communicator */
  int32_t tag;       /* of the message */
  int32_t error;     /* rlx_error of this request */
  int32_t cancelled; /* 1 if rlx_cancel took effect */
  uint64_t n_bytes;  /* received */
} rlx_status;

/* --- Life
 * ------------------------------------------------------------------------------------------------
 */

/* Joins the job this process was started in (PMIx environment), or makes a world of one.
 * Collective. A process joins once: after rlx_finalize this is RLX_ERR_INVALID. */
RLX_API int rlx_init(void);
/* Leaves the job after all ranks called it. Collective. Communicators and requests become invalid.
 */
RLX_API int rlx_finalize(void);
RLX_API int rlx_initialized(void); /* 1 between rlx_init and rlx_finalize */
/* Ends the whole job with exit_code (1..255) and the reason `why` on the launcher's standard error.
 * Before rlx_init and after rlx_finalize it ends this process so. */
RLX_API void rlx_abort(int exit_code, const char* why);
/* Text of the last error of this thread; never NULL. Valid until the thread's next rlx call. */
RLX_API const char* rlx_error_text(void);
RLX_API const char* rlx_error_name(int error);
RLX_API const char* rlx_version(void); /* "0.1.0" */

/* --- Communicators
 * --------------------------------------------------------------------------------------- */

RLX_API rlx_comm rlx_world(void); /* all ranks; owned by the library */
RLX_API int rlx_comm_rank(rlx_comm comm);
RLX_API int rlx_comm_size(rlx_comm comm);
/* This process among the world's ranks on its host. */
RLX_API int rlx_local_rank(void);
RLX_API int rlx_local_size(void);
/* Collective. Messages of the copy never match messages of the original. */
RLX_API int rlx_comm_dup(rlx_comm comm, rlx_comm* copy);
/* Collective. Ranks of equal colour form a communicator, ordered by key, then by rank. Colour
 * RLX_UNDEFINED joins none and gets NULL; other colours are 0 or more. */
RLX_API int rlx_comm_split(rlx_comm comm, int colour, int key, rlx_comm* part);
/* Not the world, and not while operations are pending, receives that nobody has waited for or
 * tested among them: RLX_ERR_INVALID, and the communicator stays. */
RLX_API int rlx_comm_free(rlx_comm* comm);

/* --- Memory
 * ---------------------------------------------------------------------------------------------- */

/* n_bytes in memory that peers on the same host read directly (shared pool, huge pages where they
 * are to be had): the fastest buffers for collectives and large messages. Aligned to 128 bytes. */
RLX_API int rlx_alloc(uint64_t n_bytes, void** memory);
RLX_API int rlx_free(void* memory);

/* --- Point to point
 * -------------------------------------------------------------------------------------- */

/* dtype gives the element size only: any type may be received as any other of the same size in
 * bytes. Messages of one (source, communicator) are matched in the order they were sent. */
RLX_API int rlx_send(const void* data, uint64_t count, rlx_dtype dtype, int dest, int tag,
                     rlx_comm comm);
/* count is the room; a longer message is RLX_ERR_TRUNCATED. source may be RLX_ANY_SOURCE, tag
 * RLX_ANY_TAG. status may be NULL. */
RLX_API int rlx_recv(void* data, uint64_t count, rlx_dtype dtype, int source, int tag,
                     rlx_comm comm, rlx_status* status);
/* A send that is done when this returns gives the request NULL; the calls for "some" and "any" pass
 * over those. */
RLX_API int rlx_isend(const void* data, uint64_t count, rlx_dtype dtype, int dest, int tag,
                      rlx_comm comm, rlx_request* request);
RLX_API int rlx_irecv(void* data, uint64_t count, rlx_dtype dtype, int source, int tag,
                      rlx_comm comm, rlx_request* request);
RLX_API int rlx_sendrecv(const void* send_data, uint64_t send_count, rlx_dtype send_dtype, int dest,
                         int send_tag, void* recv_data, uint64_t recv_count, rlx_dtype recv_dtype,
                         int source, int recv_tag, rlx_comm comm, rlx_status* status);
RLX_API int rlx_probe(int source, int tag, rlx_comm comm, rlx_status* status);
RLX_API int rlx_iprobe(int source, int tag, rlx_comm comm, int* flag, rlx_status* status);

/* --- Requests
 * -------------------------------------------------------------------------------------------- */

/* Completion frees the request and sets it to NULL. status and statuses may be NULL. */
RLX_API int rlx_wait(rlx_request* request, rlx_status* status);
RLX_API int rlx_test(rlx_request* request, int* done, rlx_status* status);
/* All: waits for each; the first error is returned, statuses tell them apart. */
RLX_API int rlx_wait_all(int n, rlx_request* requests, rlx_status* statuses);
RLX_API int rlx_test_all(int n, rlx_request* requests, int* done, rlx_status* statuses);
/* Any: index of one that completed; RLX_UNDEFINED if all are NULL. */
RLX_API int rlx_wait_any(int n, rlx_request* requests, int* index, rlx_status* status);
RLX_API int rlx_test_any(int n, rlx_request* requests, int* index, int* done, rlx_status* status);
/* Some: at least one; indices[0 .. *n_done) and statuses likewise. *n_done is RLX_UNDEFINED if all
 * are NULL. */
RLX_API int rlx_wait_some(int n, rlx_request* requests, int* n_done, int* indices,
                          rlx_status* statuses);
RLX_API int rlx_test_some(int n, rlx_request* requests, int* n_done, int* indices,
                          rlx_status* statuses);
/* Receives only: if it has not matched yet, it completes with RLX_ERR_CANCELLED (status.cancelled
 * 1). */
RLX_API int rlx_cancel(rlx_request request);
/* Moves everything under way a little; for programs that compute for long between calls. */
RLX_API int rlx_progress(void);

/* --- Collectives
 * ----------------------------------------------------------------------------------------- */

/* P is the communicator's size. "in == out" marks an operation in place; buffers that overlap in
 * any other way are RLX_ERR_INVALID (blocks of v forms must not overlap, which is not checked). The
 * i-form returns at once with a request; buffers belong to the library until it completes. Calls on
 * one communicator are made in the same order by all its ranks. One that differs (operation, dtype,
 * count, root, mode) or whose counts of a v form do not agree with the others' is RLX_ERR_MISMATCH
 * on all ranks and breaks the communicator: every later collective on it fails so. A rank whose
 * part was over before the difference could be seen, such as the root of a broadcast, may have
 * returned success; it fails in its next call on this communicator, or the first after it that
 * hears from a rank which knows of the difference or made the other call. Who knows keeps its error
 * back until all ranks know, for a second and a half at most. A rank that stays out of the library
 * for longer finds the words when it comes, unless they were lost with the rank that sent them:
 * then it learns that this one is gone (RLX_ERR_PEER_FAILED), as does one that a rank leaves by
 * ending right after its success. */
RLX_API int rlx_barrier(rlx_comm comm);
RLX_API int rlx_ibarrier(rlx_comm comm, rlx_request* request);
/* data[count] of root to data[count] of all. */
RLX_API int rlx_broadcast(void* data, uint64_t count, rlx_dtype dtype, int root, rlx_comm comm);
RLX_API int rlx_ibroadcast(void* data, uint64_t count, rlx_dtype dtype, int root, rlx_comm comm,
                           rlx_request* request);
/* out[count] on root only (elsewhere out may be NULL); in == out allowed. */
RLX_API int rlx_reduce(const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                       rlx_mode mode, int root, rlx_comm comm);
RLX_API int rlx_ireduce(const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                        rlx_mode mode, int root, rlx_comm comm, rlx_request* request);
/* in[count], out[count]; in == out allowed. */
RLX_API int rlx_all_reduce(const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                           rlx_mode mode, rlx_comm comm);
RLX_API int rlx_iall_reduce(const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                            rlx_mode mode, rlx_comm comm, rlx_request* request);
/* in[count] of each rank, out[P * count] by rank; in == out + rank * count allowed. */
RLX_API int rlx_all_gather(const void* in, void* out, uint64_t count, rlx_dtype dtype,
                           rlx_comm comm);
RLX_API int rlx_iall_gather(const void* in, void* out, uint64_t count, rlx_dtype dtype,
                            rlx_comm comm, rlx_request* request);
/* in[counts[rank]], block r at out[displs[r]] with counts[r] elements. counts and displs are the
 * same on all ranks. */
RLX_API int rlx_all_gatherv(const void* in, void* out, const uint64_t* counts,
                            const uint64_t* displs, rlx_dtype dtype, rlx_comm comm);
RLX_API int rlx_iall_gatherv(const void* in, void* out, const uint64_t* counts,
                             const uint64_t* displs, rlx_dtype dtype, rlx_comm comm,
                             rlx_request* request);
/* in[P * count], out[count] = reduced block `rank`; out == in + rank * count allowed. */
RLX_API int rlx_reduce_scatter(const void* in, void* out, uint64_t count, rlx_dtype dtype,
                               rlx_op op, rlx_mode mode, rlx_comm comm);
RLX_API int rlx_ireduce_scatter(const void* in, void* out, uint64_t count, rlx_dtype dtype,
                                rlx_op op, rlx_mode mode, rlx_comm comm, rlx_request* request);
/* in[P * count]: block d to rank d; out[P * count]: block s from rank s. Not in place. */
RLX_API int rlx_all_to_all(const void* in, void* out, uint64_t count, rlx_dtype dtype,
                           rlx_comm comm);
RLX_API int rlx_iall_to_all(const void* in, void* out, uint64_t count, rlx_dtype dtype,
                            rlx_comm comm, rlx_request* request);
/* send_counts[d] elements at in[send_displs[d]] to rank d, received likewise; what d receives from
 * us must equal what we send it. */
RLX_API int rlx_all_to_allv(const void* in, const uint64_t* send_counts,
                            const uint64_t* send_displs, void* out, const uint64_t* recv_counts,
                            const uint64_t* recv_displs, rlx_dtype dtype, rlx_comm comm);
RLX_API int rlx_iall_to_allv(const void* in, const uint64_t* send_counts,
                             const uint64_t* send_displs, void* out, const uint64_t* recv_counts,
                             const uint64_t* recv_displs, rlx_dtype dtype, rlx_comm comm,
                             rlx_request* request);
/* in[count] of each rank to out[P * count] of root. */
RLX_API int rlx_gather(const void* in, void* out, uint64_t count, rlx_dtype dtype, int root,
                       rlx_comm comm);
RLX_API int rlx_igather(const void* in, void* out, uint64_t count, rlx_dtype dtype, int root,
                        rlx_comm comm, rlx_request* request);
/* in[count] where count == root's counts[rank]; counts and displs are read on root only. */
RLX_API int rlx_gatherv(const void* in, uint64_t count, void* out, const uint64_t* counts,
                        const uint64_t* displs, rlx_dtype dtype, int root, rlx_comm comm);
RLX_API int rlx_igatherv(const void* in, uint64_t count, void* out, const uint64_t* counts,
                         const uint64_t* displs, rlx_dtype dtype, int root, rlx_comm comm,
                         rlx_request* request);
/* in[P * count] of root, block r to out[count] of rank r. */
RLX_API int rlx_scatter(const void* in, void* out, uint64_t count, rlx_dtype dtype, int root,
                        rlx_comm comm);
RLX_API int rlx_iscatter(const void* in, void* out, uint64_t count, rlx_dtype dtype, int root,
                         rlx_comm comm, rlx_request* request);
RLX_API int rlx_scatterv(const void* in, const uint64_t* counts, const uint64_t* displs, void* out,
                         uint64_t count, rlx_dtype dtype, int root, rlx_comm comm);
RLX_API int rlx_iscatterv(const void* in, const uint64_t* counts, const uint64_t* displs, void* out,
                          uint64_t count, rlx_dtype dtype, int root, rlx_comm comm,
                          rlx_request* request);

/* --- Exact sums over leaves
 * ------------------------------------------------------------------------------- */

/* An accumulator of `count` f32 elements whose value is the exact sum of all arrays added on all
 * ranks. k arrays added on one rank give the same bits as one array on each of k ranks: sums of
 * micro-batches do not depend on how many ranks shared them. */
typedef struct rlx_exact_s* rlx_exact;
RLX_API int rlx_exact_create(uint64_t count, rlx_exact* sum);
RLX_API int rlx_exact_add(rlx_exact sum, const float* leaf);
/* Collective: out[count] = sum over all ranks' leaves, rounded once; the accumulator is empty
 * afterwards. */
RLX_API int rlx_exact_all_reduce(rlx_exact sum, float* out, rlx_comm comm);
RLX_API int rlx_exact_free(rlx_exact* sum);

#ifdef __cplusplus
}
#endif
#endif
