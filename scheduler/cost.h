/* scheduler/cost.h - what a step costs, learnt from the steps that were made.
 *
 * time = a + b * prompt rows + c * decode rows + d * keys read by decode rows
 *          + e * keys read by prompt rows
 *
 * The five coefficients are fitted online: recursive least squares with forgetting (about the
 * last 200 steps), none below zero, and an outlier (a step that was interrupted) moves them no
 * further than a moderate error would. Nothing is kept over a restart. Planning wants integers:
 * step_costs is the model rounded, the only thing that sched.c sees, and it is written into the
 * journal with every plan.
 *
 * Thread: engine thread only; step_costs_* are pure.
 * Memory: none.
 */
#ifndef SCHEDULER_COST_H
#define SCHEDULER_COST_H

#include <stdbool.h>
#include <stdint.h>

struct step_work { /* what a step computes */
    uint32_t n_prefill;   /* rows of sequences more than one token behind */
    uint32_t n_decode;    /* rows of the others */
    uint64_t kv_decode;   /* positions read by decode rows: the sum of pos + 1 */
    uint64_t kv_prefill;  /* and by prefill rows */
};

struct step_costs {
    bool is_known;          /* false: too few steps yet; the rest is 0 then */
    uint64_t step_ns;       /* a */
    uint64_t prefill_ns;    /* b: per row */
    uint64_t decode_ns;     /* c: per row */
    uint64_t kv_decode_ps;  /* d: per position, in picoseconds */
    uint64_t kv_prefill_ps; /* e */
    uint64_t swap_ns;       /* a block between cache and RAM tier, one way; measured apart */
    uint64_t file_ns;       /* a block between RAM tier and file, one way; 0 = not known */
};

/* Predicted time in nanoseconds. */
uint64_t step_costs_ns(const struct step_costs *c, const struct step_work *w);

/* Rows of a chunk that starts at position `pos`, at most `max`, that add no more than room_ns. */
uint32_t step_costs_chunk(const struct step_costs *c, uint32_t pos, uint32_t max,
                          uint64_t room_ns);

/* Time of a chunk of n rows from position `pos`. */
uint64_t step_costs_chunk_ns(const struct step_costs *c, uint32_t pos, uint32_t n);

#define COST_TERMS 5

struct cost_model {
    double coef[COST_TERMS];           /* ns per scaled feature */
    double cov[COST_TERMS][COST_TERMS];
    double spread;                     /* running mean of |error|, ns */
    uint64_t n_steps;
    double swap_ns, file_ns;           /* running means */
};

void cost_init(struct cost_model *m);

/* A step took so long. Returns the relative error of the prediction made before learning from it,
 * |predicted - us| / us, or a negative number when there was none. */
double cost_observe(struct cost_model *m, const struct step_work *w, uint64_t us);

/* n blocks moved between cache and RAM tier (or, with `file`, between RAM tier and file). */
void cost_observe_swap(struct cost_model *m, uint32_t n_blocks, uint64_t us, bool file);

struct step_costs cost_get(const struct cost_model *m);

#endif
