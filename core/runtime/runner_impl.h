/* core/runtime/runner_impl.h - struct runner, which the runner's files share; see runner.h.
 *
 * runner.c takes and releases the buffers, forward*.c compute. Buffers are row-major with strides
 * padded to whole panels, because products write whole panels.
 *
 * Thread: the engine thread outside a step; inside, all threads of the thread pool run
 * runner_forward() together. Memory: see runner.h. */
#ifndef CORE_RUNTIME_RUNNER_IMPL_H
#define CORE_RUNTIME_RUNNER_IMPL_H

#include "core/model/adapter.h"
#include "core/runtime/mtp.h"
#include "core/runtime/runner.h"
#include "core/runtime/sampler.h"
#include "core/runtime/split_kv.h"
#include "core/runtime/undo.h"

struct thread_pool;
struct thread_pool_worker;

#define LOGIT_ROWS 32 /* outputs whose logits are in memory at a time */

/* An expert that a row chose. */
struct expert_pick {
    uint32_t expert;
    uint32_t slot; /* slot of the copy of the row that this expert takes */
    float weight;
};

/* The rows of a chosen expert: slots slot0 .. slot0 + n - 1. */
struct expert_rows {
    uint32_t expert;
    uint32_t slot0, n;
};

/* Neighbouring rows of a batch that have the same adapter. */
struct adapter_rows {
    const struct adapter *adapter;
    float scale;
    uint32_t row0, n;
};

struct runner {
    const struct model *model;
    struct kv_store *kv;
    struct state_store *states;
    enum kern_kv kv_type;
    struct kern_table kern;
    struct thread_pool *pool;
    int32_t *eog;
    size_t n_eog;
    /* strides in floats, whole panels */
    size_t embd_stride, qkv_stride, k_at, v_at, gate_at, att_stride, ff_stride, vocab_stride;
    size_t qrow_stride, ff_row_stride; /* bytes of a quantised row */
    /* activations, [max_rows][stride] */
    float *x, *norm, *qkv, *att, *gate, *up, *delta, *ffn_out;
    uint8_t *qrows;   /* [rows] [rows] quantised rows of norm, or of att */
    uint8_t *ff_rows; /* [rows] of gate */
    /* mixtures of experts: [max_rows * n_expert_used][stride], one slot for each pick */
    size_t router_stride, expert_stride;               /* floats */
    size_t slot_qrow_stride, expert_qrow_stride;       /* bytes */
    float *router;                                     /* [max_rows][2][router_stride] */
    float *shared_gate;                                /* [max_rows][KERN_LANES] */
    float *slot_rows, *expert_gate, *expert_up, *slot_out;
    uint8_t *slot_qrows, *expert_qrows;
    struct expert_pick *picks;                         /* [max_rows][n_expert_used] */
    struct expert_rows *active;                        /* [n_expert], n_active of them */
    uint32_t *expert_slots;                            /* [n_expert] */
    uint32_t n_active;
    size_t moe_latent_stride;                          /* floats */
    float *moe_latent;                                 /* [max_rows][moe_latent_stride] */
    /* per-layer inputs: per_layer [max_rows][per_layer_stride], per_layer_row one row for each
     * thread */
    size_t per_layer_stride;                           /* floats */
    float *per_layer, *per_layer_row;
    float per_layer_scales[2];                         /* factors of the input's two parts
                                                        * (forward_per_layer.c) */
    /* several streams: [max_rows][n_streams][embd_stride], one such row for each thread, and the
     * output of the net beside attention, [max_rows][embd_stride] */
    float *streams, *stream_row, *laurel;
    /* latent attention: [max_rows][stride] */
    size_t lora_stride, mla_q_stride, heads_stride;    /* floats */
    size_t head_qrow_stride;                           /* bytes */
    float *lora, *mla_q, *heads;
    uint8_t *head_qrows;                               /* [max_rows][n_head] */
    /* recurrent layers: mix [max_rows][mix_stride], rows as in recurrent.h; mix_qrows: the parts of
     * them that products take quantised */
    size_t mix_stride;                                 /* floats */
    size_t mix_qrow_stride;                            /* bytes */
    float *mix;
    uint8_t *mix_qrows;
    /* adapters; NULL: spans may not have any */
    struct adapter_rows *adapters; /* [max_rows], n_adapters in this step */
    uint32_t n_adapters;
    float *adapter_in;  /* [max_rows][ADAPTER_IN_STRIDE]: each adapter's A times the rows */
    float *logits; /* [LOGIT_ROWS][vocab_stride] */
    /* classifiers and token heads: [LOGIT_ROWS][embd_stride] and [LOGIT_ROWS][label_stride] */
    float *head_rows, *head_out;
    size_t label_stride; /* floats */
    /* layers after the pooling: [LOGIT_ROWS][wide_stride] */
    float *wide_rows, *wide_out;
    size_t wide_stride; /* floats */
    float *lrows;  /* [LOGIT_ROWS][embd_stride] normed rows of outputs */
    struct split_kv split_kv,
        window_split_kv;   /* split_kv: layers without a window; window_split_kv: with one */
    struct mtp mtp;
    struct undo undo;
    uint8_t *attn_scratch; /* [threads][attn_scratch_bytes] */
    size_t attn_scratch_bytes;
    struct sampler_scratch *samplers; /* [threads] */
    size_t scratch_bytes;
    /* the step */
    struct batch *step;  /* the step's batch. `batch`: the one that is being computed, of the step
                          * or of guesses */
    struct batch *batch;
    uint32_t out0, n_out; /* outputs of the current tile */
    uint64_t since_ns;    /* when the current part began; thread 0 only */
    struct runner_times times;
};

#define ADAPTER_IN_STRIDE ((size_t)ADAPTER_MAX_SHARED * ADAPTER_MAX_RANK) /* floats */
#define ADAPTER_TILE_ROWS 32

/* Run the step; every thread of the pool calls it. ud is the runner. */
void runner_forward(void *ud, struct thread_pool_worker *w);

/* Run the guessing layer once for r->batch; every thread of the pool calls it. */
void runner_forward_mtp(void *ud, struct thread_pool_worker *w);

/* True: gate or up of a net takes rows of floats. */
struct ffn;
bool takes_floats(const struct ffn *net);

#endif
