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
    struct state_store *states; /* borrowed; a slot has at least runner_state_bytes(); NULL: the
                                 * model has no recurrent states */
    enum kern_kv kv_type;
    enum kern_isa isa;
    struct thread_pool *pool;   /* borrowed; several runners may share a pool if they step in
                                 * turns */
    uint32_t max_rows;          /* most rows in a batch */
    /* With model->has_mtp: most sequences that run at a time, at most max_rows; kv has
     * runner_private_blocks() for them. 0: nothing is guessed. */
    uint32_t n_slots;
    bool takes_adapters;        /* spans may have adapters */
    /* For a model with recurrent states: at most RUNNER_UNDO_SPANS spans of a batch may have
     * guesses, and then at most RUNNER_UNDO_ROWS rows each. Other models have no such limit. */
    bool undoes;
    bool no_cascade;            /* no cascade attention: each sequence reads shared blocks itself */
    const int32_t *eog;         /* ids that end a generation, for ban_eog; copied */
    size_t n_eog;
};

#define RUNNER_UNDO_SPANS 4
#define RUNNER_UNDO_ROWS 8

/* Return the shape of the KV cache for a model; if layers differ, all get the size of the
 * largest. */
struct kv_shape runner_kv_shape(const struct model *m, enum kern_kv type);
/* Return the bytes of a sequence's recurrent states; 0: the model has none. */
size_t runner_state_bytes(const struct model *m);
/* Return the number of private KV blocks (kv_store.h) for guesses of so many sequences. */
uint32_t runner_private_blocks(const struct model *m, uint32_t n_slots);
/* True: the model's heads are whole groups of `type`, so that the KV cache can have this type. */
bool runner_kv_fits(const struct model *m, enum kern_kv type);

int runner_create(struct runner **out, const struct runner_options *options, char *err,
                  size_t err_len);
void runner_destroy(struct runner **r);

/* Compute the batch and fill its outputs. Cannot fail. */
void runner_step(struct runner *r, struct batch *b);

/* A guess by the model's guessing layer (struct model_mtp). The first guess continues from the
 * model's hidden state after the last token but one, later ones from the layer's own hidden
 * state. */
struct runner_guess {
    uint32_t slot;  /* as in the sequence's spans */
    uint64_t owner;
    const uint32_t *table; /* block table of the computed rows, as in the sequence's spans */
    uint32_t group_stride;
    const int32_t *ids; /* [pos + 1 + n_made]: known tokens up to `pos`, then the guesses made */
    uint32_t pos;       /* position of the last known token, whose row no step has computed */
    uint32_t n_made;    /* guesses made by earlier calls, below RUNNER_MAX_GUESSES */
    const struct sampling *sampling; /* how to choose the guess; mirostat must be off */
    const struct token_count *counts; /* as in struct batch_output */
    uint32_t n_counts, n_discarded;
    int32_t token; /* out: the guess */
    float logprob; /* out: the guess's log-probability in the layer's distribution, if
                    * sampling->n_top >= 0 */
};
#define RUNNER_MAX_GUESSES 16

/* Estimate the bytes of weights that a guess reads, as a share (0 .. 1) of those that a step
 * reads. */
double runner_guess_weight(const struct model *m);
/* True: the slot keeps the hidden state for a first guess, because the sequence's last step
 * computed the row before pos. */
bool runner_can_guess(const struct runner *r, uint32_t slot, uint64_t owner, uint32_t pos);
/* Make one more guess for each of n sequences (at most n_slots, all in different slots,
 * runner_can_guess() true for each). Later steps do not depend on it. Cannot fail. */
void runner_guess(struct runner *r, struct runner_guess *guesses, uint32_t n);

/* Return the bytes of scratch that runner_create() took. */
size_t runner_scratch_bytes(const struct runner *r);

/* The parts of a step whose times are counted apart, on thread 0: a part ends when all threads have
 * done their share. */
enum runner_part {
    RUNNER_EMBED = 0,
    RUNNER_NORM,      /* residual, norm, quantise */
    RUNNER_QKV,
    RUNNER_ROPE,      /* biases, head norms, rotation, writing the KV cache */
    RUNNER_ATTENTION,
    RUNNER_RECURRENT, /* convolutions, scans, and the norms and gates of their rows */
    RUNNER_ATTN_OUT,
    RUNNER_ROUTE,     /* routing rows to experts */
    RUNNER_GATE_UP,   /* gate and up projections, with the activation */
    RUNNER_DOWN,
    RUNNER_LOGITS,
    RUNNER_SAMPLE,
    RUNNER_MTP,       /* the guessing layer's work in a step */
    RUNNER_N_PART,
};

struct runner_times {
    uint64_t n_steps;
    uint64_t n_cascade_rows; /* rows that read shared blocks together with rows of other
                              * sequences */
    uint64_t ns[RUNNER_N_PART];
};

const struct runner_times *runner_times(const struct runner *r);
const char *runner_part_name(enum runner_part part);

#endif
