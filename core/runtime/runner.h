/* core/runtime/runner.h - one forward pass over a mixed batch, and the tokens that come out.
 *
 * runner_step() computes every row of a batch through all layers, writes keys and values into the
 * KV store, and for the rows named in batch->outputs computes logits and samples or scores. The
 * outputs of a sequence depend on that sequence alone: not on the batch, the chunk or the threads.
 * With a layer that guesses (struct model_mtp) a step computes that layer's keys and values too,
 * and runner_guess() guesses the next tokens; no output of a step depends on either.
 *
 * Thread: called by the engine thread; the thread pool works inside.
 * Memory: all scratch is taken in runner_create() from the options; a step allocates nothing.
 */
#ifndef CORE_RUNTIME_RUNNER_H
#define CORE_RUNTIME_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"
#include "kernels/kernels.h"

struct model;
struct kv_shape;
struct kv_store;
struct runner;
struct state_store;
struct thread_pool;

struct runner_options {
    const struct model *model;  /* borrowed */
    struct kv_store *kv;        /* borrowed; its shape is the model's with kv_type: model->groups */
    struct state_store *states; /* borrowed; slots of runner_state_bytes() at least; NULL: the model
                                 * has none */
    enum kern_kv kv_type;
    enum kern_isa isa;
    struct thread_pool *pool;   /* borrowed; runners may share one if they step in turns */
    uint32_t max_rows;          /* most rows in a batch */
    /* With model->has_mtp: sequences that run at a time, at most max_rows; kv has
     * runner_private_blocks() for them. 0: nothing is guessed. */
    uint32_t n_slots;
    bool takes_adapters;        /* spans may have adapters */
    /* For a model with recurrent states: at most RUNNER_UNDO_SPANS spans of a batch may have
     * guesses, and then at most RUNNER_UNDO_ROWS rows each. Other models have no such limit. */
    bool undoes;
    bool no_cascade;            /* each sequence reads shared blocks for itself */
    const int32_t *eog;         /* ids that end a generation, for ban_eog; copied */
    size_t n_eog;
};

#define RUNNER_UNDO_SPANS 4
#define RUNNER_UNDO_ROWS 8

/* The shape of the KV cache for a model: where layers differ, a slot takes the largest. */
struct kv_shape runner_kv_shape(const struct model *m, enum kern_kv type);
/* Bytes of a sequence's recurrent states; 0: the model has none. */
size_t runner_state_bytes(const struct model *m);
/* Number of private KV blocks (kv_store.h) for guesses of so many sequences. */
uint32_t runner_private_blocks(const struct model *m, uint32_t n_slots);
/* Whether the model's heads fill whole groups of that type. */
bool runner_kv_fits(const struct model *m, enum kern_kv type);

int runner_create(struct runner **out, const struct runner_options *options, char *err,
                  size_t err_len);
void runner_destroy(struct runner **r);

/* Compute the batch and fill its outputs. Cannot fail. */
void runner_step(struct runner *r, struct batch *b);

/* A guess by the model's guessing layer (struct model_mtp). The first one continues from the
 * model's hidden state behind the last token but one, later ones from the layer's own hidden
 * state. */
struct runner_guess {
    uint32_t slot;  /* as in the sequence's spans */
    uint64_t owner;
    const uint32_t *table; /* block table of the computed rows, as in the sequence's spans */
    uint32_t group_stride;
    const int32_t *ids; /* [pos + 1 + n_made]: known up to pos, and behind that the guesses made */
    uint32_t pos;       /* position of the last known token, whose row no step has computed */
    uint32_t n_made;    /* guesses made by earlier calls, below RUNNER_MAX_GUESSES */
    const struct sampling *sampling; /* how to choose the guess; without mirostat */
    const struct token_count *counts; /* as in struct batch_output */
    uint32_t n_counts, n_discarded;
    int32_t token; /* out: the guess, */
    float logprob; /* its log-probability in the layer's distribution, if sampling->n_top >= 0 */
};
#define RUNNER_MAX_GUESSES 16

/* The bytes of weights that a guess reads, as a share of those of a step; an estimate. */
double runner_guess_weight(const struct model *m);
/* Whether the hidden state for a first guess is there: the last step of the slot computed the row
 * before pos. */
bool runner_can_guess(const struct runner *r, uint32_t slot, uint64_t owner, uint32_t pos);
/* Make one more guess for each of n sequences, at most n_slots, each in another slot, for which
 * runner_can_guess() holds. No step sees anything of it. Cannot fail. */
void runner_guess(struct runner *r, struct runner_guess *guesses, uint32_t n);

/* Bytes of scratch taken at creation. */
size_t runner_scratch_bytes(const struct runner *r);

/* The parts that a step's time is counted by, as thread 0 sees it: a part ends when all threads
 * have done their share. */
enum runner_part {
    RUNNER_EMBED = 0,
    RUNNER_NORM,      /* residual, norm, quantise */
    RUNNER_QKV,
    RUNNER_ROPE,      /* biases, head norms, rotation, the KV cache's new tokens */
    RUNNER_ATTENTION,
    RUNNER_RECURRENT, /* convolutions, scans, and what is done to their rows */
    RUNNER_ATTN_OUT,
    RUNNER_ROUTE,     /* routing rows to experts */
    RUNNER_GATE_UP,   /* with the activation */
    RUNNER_DOWN,
    RUNNER_LOGITS,
    RUNNER_SAMPLE,
    RUNNER_MTP,       /* the guessing layer's work in a step */
    RUNNER_N_PART,
};

struct runner_times {
    uint64_t n_steps;
    uint64_t n_cascade_rows; /* rows that read blocks together with those of other sequences */
    uint64_t ns[RUNNER_N_PART];
};

const struct runner_times *runner_times(const struct runner *r);
const char *runner_part_name(enum runner_part part);

#endif
