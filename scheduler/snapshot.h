/* scheduler/snapshot.h - the state of the engine between two steps, for /debug and /slots.
 *
 * Taken only on request (queue_ask_snapshot). Plain data; the arrays belong to the queue.
 *
 * Thread: filled by the engine thread, then the I/O thread's until released.
 * Memory: taken in snapshot_create().
 */
#ifndef SCHEDULER_SNAPSHOT_H
#define SCHEDULER_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/cost_model.h"
#include "scheduler/drafts/draft_costs.h"
#include "scheduler/request/request.h"

#define SNAPSHOT_STEPS 128 /* plans that are remembered */

enum snapshot_state { SNAPSHOT_WAITING = 0, SNAPSHOT_PREFIX_WAITING, SNAPSHOT_RUNNING,
                      SNAPSHOT_PREEMPTED };

struct seq_info {
    uint64_t id;
    enum snapshot_state state; /* PREFIX_WAITING: it waits until its prefix owner has computed the
                                * prompt */
    enum priority priority;
    uint32_t tenant;
    uint32_t n_prompt, max_tokens;
    uint32_t n_discarded;     /* tokens thrown away by context shifts */
    uint32_t n_known, n_done; /* tokens known, tokens computed (and kept, in blocks or swapped) */
    uint32_t n_cached;        /* prompt tokens from the prefix cache */
    uint32_t n_drafted, n_accepted; /* guessed tokens that were computed, and that were right */
    uint32_t n_blocks;
    uint32_t n_preempted;
    int swap;                 /* enum swap_state of its copy, or -1 */
    uint64_t age_us;          /* since arrival */
    uint64_t waited_us;       /* part of age_us spent in the queue */
    uint64_t deadline_in_us;  /* 0 = none */
};

struct tenant_info {
    uint32_t tenant, weight, n_running, n_waiting;
    uint64_t service; /* tokens computed for it, cached ones not counted */
    uint32_t n_pins, n_pinned; /* pinned prefixes, and their blocks */
    uint64_t pinned_for_us;    /* time until the last of them ends */
};

struct step_info {
    uint64_t step, at_us; /* at_us: when it was planned, since the engine's start */
    struct step_work work;
    uint32_t n_drafts; /* rows of guessed tokens, beside the work */
    uint32_t n_sequences, n_admitted, n_preempted, n_swapped_out, n_swapped_in, n_moves;
    uint64_t predicted_us, took_us; /* predicted 0: unknown */
};

struct snapshot {
    uint64_t now_us;
    uint32_t max_seqs, n_seqs;
    struct seq_info *seqs; /* running ones in run order, then waiting ones by tenant */
    uint32_t max_tenants, n_tenants;
    struct tenant_info *tenants; /* tenants that have sent a request yet */
    uint32_t n_steps;
    struct step_info steps[SNAPSHOT_STEPS]; /* oldest first */
    struct step_costs costs;
    struct draft_costs draft_costs;
    uint32_t n_blocks;
    char *map; /* [n_blocks], see kv_manager_map() */
    struct prefix_hash *hashes; /* [n_hashes], room for n_blocks: entries of the prefix index */
    uint32_t n_hashes;
    enum kv_pressure pressure;
    struct kv_manager_stats kv;
    uint64_t block_bytes;
    struct kv_kind kinds[2]; /* see kv_manager_kinds() */
};

int snapshot_create(struct snapshot **out, uint32_t max_seqs, uint32_t max_tenants,
                    uint32_t n_blocks);
void snapshot_destroy(struct snapshot **s);

#endif
