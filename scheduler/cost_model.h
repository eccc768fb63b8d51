/* scheduler/cost_model.h - predicts the time of a step, learnt from the times of earlier steps.
 *
 * time = a + b * prompt rows + c * decode rows + d * keys read by decode rows
 *          + e * keys read by prompt rows
 *
 * The five coefficients are fitted online by recursive least squares on relative errors, none below
 * zero. The memory is about the last 200 steps; it shortens to about 10 while the errors all have
 * one sign (the machine has become slower or faster). A coefficient whose feature does not occur is
 * kept, unless predictions are off by more than half: then all of them fade. An error beyond three
 * times the usual one (a step that was interrupted) counts as three times the usual one. A restart
 * loses the model. The scheduler plans with integers: it sees only step_costs, the rounded model,
 * which the journal records with every plan.
 *
 * The model is known (is_known) after four steps, of which one had prompt rows and, if the model
 * generates tokens, one had decode rows; until then every field is 0 except the times of swapping
 * and of the block store. After 32 steps without a decode row the model counts as known too, with
 * decode rows at no cost until one is seen. Until one step had both kinds of rows, prompt rows cost
 * half as much again as they did alone, so that the first chunk beside a stream is small.
 *
 * Thread: engine thread only; step_costs_* are pure.
 * Memory: none.
 */
#ifndef SCHEDULER_COST_MODEL_H
#define SCHEDULER_COST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct step_work { /* the work of a step */
    uint32_t n_prefill;   /* rows of sequences with more than one token to compute */
    uint32_t n_decode;    /* rows of sequences with one token to compute */
    uint64_t kv_decode;   /* positions read by decode rows: the sum of pos + 1 */
    uint64_t kv_prefill;  /* positions read by prefill rows */
};

struct step_costs {
    bool is_known;          /* false: too few steps yet; the rest is 0 then */
    uint64_t step_ns;       /* a */
    uint64_t prefill_ns;    /* b: per row */
    uint64_t decode_ns;     /* c: per row */
    uint64_t kv_decode_ps;  /* d: per position, in picoseconds */
    uint64_t kv_prefill_ps; /* e */
    uint64_t swap_ns;       /* ns of a block between cache and RAM tier, one way; measured apart */
    uint64_t file_ns;       /* ns of a block between RAM tier and file, one way; 0 = not known */
    uint64_t fetch_ns;       /* ns to read a block from the block store; 0 = not known */
    uint64_t fetch_delay_ns; /* ns before the first block of a read arrives; 0 = not known */
};

/* Predicted time in nanoseconds. Does not overflow with the coefficients of cost_get(), whatever
 * the work. */
uint64_t step_costs_ns(const struct step_costs *c, const struct step_work *w);

/* Predicted nanoseconds of a step that reading keys takes: a part of step_costs_ns(). */
uint64_t step_costs_keys_ns(const struct step_costs *c, const struct step_work *w);

/* The largest number of rows, at most `max`, such that a chunk of them from position `pos` takes no
 * more than room_ns. Positions up to 2^20. */
uint32_t step_costs_chunk(const struct step_costs *c, uint32_t pos, uint32_t max,
                          uint64_t room_ns);

/* Predicted nanoseconds of a chunk of n rows from position `pos`. */
uint64_t step_costs_chunk_ns(const struct step_costs *c, uint32_t pos, uint32_t n);

#define COST_TERMS 5

struct cost_model {
    double coef[COST_TERMS];             /* ns per unit of each feature */
    double info[COST_TERMS][COST_TERMS]; /* certainty of coef: the inverse of its covariance */
    double spread;                       /* running mean of the relative |error| */
    double drift;                        /* short running mean of the relative error */
    uint64_t n_steps;
    bool has_prefill, has_decode, has_mixed; /* kinds of steps seen */
    double swap_ns, file_ns;             /* running means */
    double fetch_ns, fetch_delay_ns;
};

void cost_init(struct cost_model *m);
/* The model generates no tokens (embeddings): become known without decode rows. */
void cost_expect_no_streams(struct cost_model *m);

/* Learn that a step with the work w took `us`. Returns the relative error of the prediction before
 * that, |predicted - us| / us; negative: the model was not known. */
double cost_observe(struct cost_model *m, const struct step_work *w, uint64_t us);

/* Learn that moving n_blocks took `us`: between cache and RAM tier, or, with `file`, between RAM
 * tier and file. */
void cost_observe_swap(struct cost_model *m, uint32_t n_blocks, uint64_t us, bool file);

/* Learn that the block store took `us` to answer a probe; to read n_blocks. */
void cost_observe_store(struct cost_model *m, uint64_t us);
void cost_observe_fetch(struct cost_model *m, uint32_t n_blocks, uint64_t us);
/* Called when a read was declined as too expensive: lower the measured times of the store a little,
 * so that a store that was slow once is tried again. */
void cost_forget_fetch(struct cost_model *m);

struct step_costs cost_get(const struct cost_model *m);

#endif
