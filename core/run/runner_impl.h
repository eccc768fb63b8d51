/* core/run/runner_impl.h - what the two files of the runner share; see runner.h.
 *
 * runner.c takes and gives back, forward.c computes. Buffers are row-major with strides padded to
 * whole panels, because products write whole panels.
 *
 * Thread: the engine thread outside a step; inside, all threads of the team run forward() together.
 * Memory: see runner.h.
 */
#ifndef CORE_RUN_RUNNER_IMPL_H
#define CORE_RUN_RUNNER_IMPL_H

#include "core/run/attn_cut.h"
#include "core/run/runner.h"
#include "core/run/sampler.h"

struct team;
struct team_worker;

#define LOGIT_ROWS 32 /* outputs whose logits are in memory at a time */

struct runner {
    const struct model *model;
    struct kv_store *kv;
    enum kern_kv kv_type;
    struct kern_table kern;
    struct team *team;
    int32_t *eog;
    size_t n_eog;
    /* strides in floats, whole panels */
    size_t embd_stride, qkv_stride, k_at, v_at, att_stride, ff_stride, vocab_stride;
    size_t qrow_stride, ff_row_stride; /* bytes of a quantised row */
    /* activations, [max_rows][stride] */
    float *x, *norm, *qkv, *att, *gate, *up, *delta;
    uint8_t *qrows;   /* [rows] of norm, or of att */
    uint8_t *ff_rows; /* [rows] of gate */
    float *logits; /* [LOGIT_ROWS][vocab_stride] */
    float *lrows;  /* [LOGIT_ROWS][embd_stride] normed rows of outputs */
    struct attn_cut cut;
    uint8_t *attn_scratch; /* [threads][attn_scratch_bytes] */
    size_t attn_scratch_bytes;
    struct sampler_scratch *samplers; /* [threads] */
    size_t scratch_bytes;
    /* the step */
    struct batch *batch;
    uint32_t out0, n_out; /* outputs of the tile being made */
    uint64_t since_ns;    /* when the part that is being computed began: thread 0's business */
    struct runner_times times;
};

/* The step, run by every thread of the team; ud is the runner. */
void runner_forward(void *ud, struct team_worker *w);

#endif
