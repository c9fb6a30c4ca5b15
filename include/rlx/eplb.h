/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rlx_eplb: where the experts of a mixture-of-experts model live. Pure functions: arrays in, arrays
 * out, no network, no GPU, no other state; usable without rlx_init() and from any thread. The same
 * input gives the same output on every machine, so every rank may decide for itself.
 *
 * A placement is int32_t[layers][slots]: the expert each slot holds, or RLX_EPLB_EMPTY. Slots are
 * dealt to ranks in order: with slots = ranks * k + m, the first m ranks own k + 1 each, the others
 * k. Ranks are dealt to nodes and nodes to racks in the same way as blocks. Loads are tokens per
 * expert, [windows][layers][experts]; several windows are several samples that one placement
 * serves.
 *
 * Every function returns RLX_SUCCESS or an rlx_error and then leaves its outputs as they were. The
 * words are in *error, which may be NULL. include/rlx/eplb.hpp is the C++ face.
 */
#ifndef RLX_EPLB_H
#define RLX_EPLB_H

#include <rlx/rlx.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_EPLB_EMPTY (-1)

typedef struct rlx_eplb_error {
  rlx_error code;
  char text[244]; /* one line: what was seen, what was wanted */
} rlx_eplb_error;

typedef struct rlx_eplb_shape {
  int32_t windows; /* samples of the load, 1 or more */
  int32_t layers, experts;
  int32_t ranks, slots; /* slots of all ranks together, at least one an expert */
  int32_t nodes, racks; /* 1 <= racks <= nodes <= ranks */
} rlx_eplb_shape;

typedef enum rlx_eplb_policy {
  RLX_EPLB_SEARCH = 0,   /* best balance; no expert twice on a rank */
  RLX_EPLB_DEEPSEEK = 1, /* the decisions of DeepSeek's EPLB */
  RLX_EPLB_RLX = 2,      /* the RLX system's rebalance_with_replicas */
  RLX_EPLB_NODES = 3     /* near the best balance with few copies of tokens between nodes */
} rlx_eplb_policy;

/* Start from RLX_EPLB_OPTIONS and change what you need. */
typedef struct rlx_eplb_options {
  size_t size;           /* sizeof(rlx_eplb_options): how programs built earlier stay understood */
  int32_t policy;        /* rlx_eplb_policy */
  int32_t groups;        /* groups of experts that tokens are routed to together; divides experts */
  double fixed_cost;     /* what touching an expert costs before its first token, in tokens */
  double gap;            /* good enough: slowest rank within this share of the bound */
  int32_t allow_empty;   /* 1: slots that do not help may stay empty (with `from` they do anyway) */
  int32_t top_k;         /* policy nodes: experts a token goes to ... */
  int32_t top_groups;    /* ... out of how many groups */
  int32_t n_tokens;      /* tokens a layer in `tokens`; 0: drawn from the loads */
  const int32_t* tokens; /* [layers][n_tokens][top_k] sampled expert ids, or NULL */
  double rack_price;     /* a copy to another rack, in copies within the rack */
  const int32_t* from;   /* placement [layers][slots] to start from, or NULL */
  int64_t max_fetches;   /* slots that may change hands in all layers together; -1: any number.
                          * Lost experts (no live rank of `from` has them) are fetched first and
                          * whatever the limit; what they leave of it goes to balance. Wants
                          * `from`; policies deepseek and rlx plan anew and refuse a limit */
  const uint8_t* dead;   /* [ranks] 1: the rank is gone and its slots stay empty; or NULL */
  const double* speed;   /* [ranks] relative speed of each rank, or NULL */
} rlx_eplb_options;

#define RLX_EPLB_OPTIONS                                                                        \
  {                                                                                             \
    sizeof(rlx_eplb_options), RLX_EPLB_SEARCH, 1, 0, 3e-4, 0, 8, 1, 0, NULL, 1, NULL, -1, NULL, \
        NULL                                                                                    \
  }

/* How one layer came out. Times are in tokens, summed over the windows. */
typedef struct rlx_eplb_layer {
  double mean;        /* of the ranks; mean / peak is the balancedness */
  double bound;       /* no placement has a smaller peak */
  double before;      /* peak of `from`; 0 without, or if an expert is lost */
  double peak;        /* slowest rank, an expert's tokens split evenly over its replicas */
  double split_peak;  /* split as rlx_eplb_split() does */
  int32_t duplicates; /* slots whose expert the rank has in another one */
  int32_t fetches;    /* slots whose expert has to come from another rank */
  int32_t optimal;    /* 1: proven that nothing is better */
  int32_t lost;       /* experts that no live rank of `from` has */
} rlx_eplb_layer;

/* Plans all layers. `placement`: [layers][slots]. `layers`: [layers] or NULL. `options`: NULL for
 * the defaults. Refuses negative counts (f64: also NaN, infinite, above 2^63) naming the first:
 * ranks that see the same loads refuse together and keep the placement they have. */
RLX_API rlx_error rlx_eplb_plan(const rlx_eplb_shape* shape, const int64_t* counts,
                                const rlx_eplb_options* options, int32_t* placement,
                                rlx_eplb_layer* layers, rlx_eplb_error* error);
RLX_API rlx_error rlx_eplb_plan_f64(const rlx_eplb_shape* shape, const double* loads,
                                    const rlx_eplb_options* options, int32_t* placement,
                                    rlx_eplb_layer* layers, rlx_eplb_error* error);

/* The inverse: copies[layers][experts] and slots_of[layers][experts][max_copies], ascending, filled
 * up with -1. RLX_ERR_TRUNCATED if an expert has more copies than max_copies. */
RLX_API rlx_error rlx_eplb_maps(const rlx_eplb_shape* shape, const int32_t* placement,
                                int32_t max_copies, int32_t* copies, int32_t* slots_of,
                                rlx_eplb_error* error);

/* Splits one batch of one layer (counts[experts]) over the replicas in placement[slots] so that the
 * slowest rank is as fast as possible: tokens[slots], exact sums. Uses fixed_cost and speed of
 * `options`. Microseconds for 32 ranks. */
RLX_API rlx_error rlx_eplb_split(const rlx_eplb_shape* shape, const int64_t* counts,
                                 const int32_t* placement, const rlx_eplb_options* options,
                                 int64_t* tokens, rlx_eplb_error* error);

/* One slab on its way. A rank sends and receives one slab a round at most; old slabs are read until
 * the last round of a layer, then all ranks commit. */
typedef struct rlx_eplb_transfer {
  int32_t layer, expert;
  int32_t from, to;           /* ranks; equal: a copy within it. from -1: no live rank has it */
  int32_t from_slot, to_slot; /* from_slot of the old placement, or of the new one if forwarded */
  int32_t round;              /* -1: not on the wire */
  int32_t forwarded;          /* 1: passes on what landed earlier in this plan */
} rlx_eplb_transfer;

/* How to get from one placement to another. Writes up to `capacity` transfers in an order in which
 * they can be made and *n_transfers, how many there are (RLX_ERR_TRUNCATED: more than capacity;
 * only *n_transfers is written). sent[ranks], received[ranks], link[nodes][nodes] in bytes, or
 * NULL. */
RLX_API rlx_error rlx_eplb_migrate(const rlx_eplb_shape* shape, const int32_t* before,
                                   const int32_t* after, int64_t expert_bytes, const uint8_t* dead,
                                   rlx_eplb_transfer* transfers, int64_t capacity,
                                   int64_t* n_transfers, int64_t* sent, int64_t* received,
                                   int64_t* link, rlx_eplb_error* error);

typedef struct rlx_eplb_prospect {
  double tokens_saved;  /* a step: sum over layers of (old peak - new peak) */
  double excess;        /* old peak / mean - 1 of the worst layer */
  double noise;         /* what chance alone makes of that, rlx_eplb_noise() */
  double token_seconds; /* a token-expert pair costs its rank */
  double move_seconds;  /* the move costs */
  double hysteresis;    /* gain must exceed cost by this share; 0.3 */
  double discount;      /* share of predicted gains that arrived so far; 0.7 */
  double horizon_steps; /* steps until the load changes again; 1000 */
} rlx_eplb_prospect;

/* Is the move worth it? *move: 1 or 0; *steps_to_pay: infinite if nothing is saved. */
RLX_API rlx_error rlx_eplb_weigh(const rlx_eplb_prospect* prospect, int32_t* move,
                                 double* steps_to_pay, rlx_eplb_error* error);

/* noise[layers]: how far above the mean (0.1: 10 %) chance puts the slowest rank of a perfectly
 * balanced placement when a batch has these counts. First window only. */
RLX_API rlx_error rlx_eplb_noise(const rlx_eplb_shape* shape, const int64_t* counts,
                                 const int32_t* placement, double* noise, rlx_eplb_error* error);

/* Realistic loads without data: counts[layers][experts] of about `tokens` a layer, one window.
 * drift 0 .. 1: how far the workload has moved from that of the seed. */
RLX_API rlx_error rlx_eplb_generate(const rlx_eplb_shape* shape, uint64_t seed, double drift,
                                    int64_t tokens, int64_t* counts, rlx_eplb_error* error);

/* 64 bits of n ids: ranks compare them before they commit to a placement. */
RLX_API uint64_t rlx_eplb_fingerprint(const int32_t* placement, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
