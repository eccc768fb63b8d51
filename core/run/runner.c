/* core/run/runner.c - what a runner takes and gives back, and the step; see runner.h. */
#include "core/run/runner.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/run/runner_impl.h"
#include "core/run/team.h"
#include "kvcache/kv_store.h"

#include <stdio.h>
#include <string.h>

static size_t panels(size_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void set_strides(struct runner *r)
{
    const struct model_shape *s = &r->model->shape;
    const size_t q = panels((size_t)s->n_head * s->head_dim);
    const size_t k = panels((size_t)s->n_kv_head * s->head_dim);

    r->embd_stride = panels(s->n_embd);
    r->k_at = q;
    r->v_at = q + k;
    r->qkv_stride = q + 2 * k;
    r->att_stride = q;
    r->ff_stride = panels(s->n_ff);
    r->vocab_stride = panels(s->n_vocab);
    r->qrow_stride = kern_qrow_bytes(panels(max_size(s->n_embd, q)) + 16);
    r->ff_row_stride = kern_qrow_bytes(r->ff_stride + 16);
    r->attn_scratch_bytes =
        kern_attn_scratch(ATTN_ROWS, s->n_head / s->n_kv_head, s->head_dim, s->head_dim);
    r->attn_scratch_bytes = (r->attn_scratch_bytes + 63) / 64 * 64;
}

static float *take_rows(struct runner *r, size_t rows, size_t stride)
{
    r->scratch_bytes += rows * stride * sizeof(float);
    return mem_aligned(rows * stride, sizeof(float));
}

static int create_cut(struct runner *r, const struct runner_options *o)
{
    const struct model_shape *s = &r->model->shape;
    const struct attn_cut_options options = {
        .max_rows = o->max_rows,
        .threads = o->threads,
        .n_ctx = s->n_ctx,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
    };

    return attn_cut_create(&r->cut, &options);
}

static int create_buffers(struct runner *r, const struct runner_options *o)
{
    const size_t n = o->max_rows;

    r->x = take_rows(r, n, r->embd_stride);
    r->norm = take_rows(r, n, r->embd_stride);
    r->delta = take_rows(r, n, r->embd_stride);
    r->qkv = take_rows(r, n, r->qkv_stride);
    r->att = take_rows(r, n, r->att_stride);
    r->gate = take_rows(r, n, r->ff_stride);
    r->up = take_rows(r, n, r->ff_stride);
    r->logits = take_rows(r, LOGIT_ROWS, r->vocab_stride);
    r->lrows = take_rows(r, LOGIT_ROWS, r->embd_stride);
    r->qrows = mem_aligned(max_size(n, LOGIT_ROWS), r->qrow_stride);
    r->ff_rows = mem_aligned(n, r->ff_row_stride);
    r->attn_scratch = mem_aligned(o->threads, r->attn_scratch_bytes);
    r->samplers = mem_calloc(o->threads, sizeof(*r->samplers));
    r->eog = mem_dup(o->eog, o->n_eog * sizeof(*r->eog));
    r->scratch_bytes += n * (r->qrow_stride + r->ff_row_stride);
    r->scratch_bytes += o->threads * r->attn_scratch_bytes;
    if (r->x == NULL || r->norm == NULL || r->delta == NULL || r->qkv == NULL || r->att == NULL ||
        r->gate == NULL || r->up == NULL || r->logits == NULL || r->lrows == NULL ||
        r->qrows == NULL || r->ff_rows == NULL || r->attn_scratch == NULL ||
        r->samplers == NULL || r->eog == NULL || create_cut(r, o) < 0)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < o->threads; i++)
        if (sampler_scratch_create(&r->samplers[i], r->model->shape.n_vocab) < 0)
            return ERR_NOMEM;
    r->scratch_bytes += o->threads * (size_t)r->model->shape.n_vocab * 16;
    return 0;
}

static int check_options(const struct runner_options *o, char *err, size_t err_len)
{
    const struct model_shape *s = &o->model->shape;
    const struct kv_shape *kv = &o->kv->shape;

    if (s->head_dim % kern_kv_group(o->kv_type) != 0 || kv->n_layer != s->n_layer ||
        kv->n_kv_head != s->n_kv_head ||
        kv->key_bytes != kern_kv_key_bytes(o->kv_type, s->head_dim) ||
        kv->value_bytes != kern_kv_value_bytes(o->kv_type, s->head_dim)) {
        snprintf(err, err_len, "the KV store's shape is not the model's");
        return ERR_INVAL;
    }
    for (size_t i = 0; i < o->n_eog; i++)
        if (o->eog[i] < 0 || (uint32_t)o->eog[i] >= s->n_vocab) {
            snprintf(err, err_len, "end-of-generation token %d is outside the vocabulary of %u",
                     o->eog[i], s->n_vocab);
            return ERR_RANGE;
        }
    return 0;
}

int runner_create(struct runner **out, const struct runner_options *o, char *err, size_t err_len)
{
    struct runner *r;
    int rc;

    *out = NULL;
    rc = check_options(o, err, err_len);
    if (rc < 0)
        return rc;
    snprintf(err, err_len, "no memory for the activations of %u rows", o->max_rows);
    r = mem_calloc(1, sizeof(*r));
    if (r == NULL)
        return ERR_NOMEM;
    r->model = o->model;
    r->kv = o->kv;
    r->kv_type = o->kv_type;
    r->n_eog = o->n_eog;
    kern_init(&r->kern, o->isa);
    set_strides(r);
    rc = team_create(&r->team, &(struct team_options){.n_threads = o->threads, .pin = o->pin});
    if (rc < 0)
        snprintf(err, err_len, "cannot start %u compute threads: %s", o->threads, err_text(rc));
    else
        rc = create_buffers(r, o);
    if (rc < 0) {
        runner_destroy(&r);
        return rc;
    }
    *out = r;
    return 0;
}

void runner_destroy(struct runner **runner)
{
    struct runner *r = runner != NULL ? *runner : NULL;
    uint32_t n_threads;

    if (r == NULL)
        return;
    n_threads = r->team != NULL ? team_n_threads(r->team) : 0;
    team_destroy(&r->team);
    for (uint32_t i = 0; r->samplers != NULL && i < n_threads; i++)
        sampler_scratch_release(&r->samplers[i]);
    mem_free(r->samplers);
    mem_free(r->x);
    mem_free(r->norm);
    mem_free(r->delta);
    mem_free(r->qkv);
    mem_free(r->att);
    mem_free(r->gate);
    mem_free(r->up);
    mem_free(r->logits);
    mem_free(r->lrows);
    mem_free(r->qrows);
    mem_free(r->ff_rows);
    attn_cut_release(&r->cut);
    mem_free(r->attn_scratch);
    mem_free(r->eog);
    mem_free(r);
    *runner = NULL;
}

size_t runner_scratch_bytes(const struct runner *r)
{
    return r->scratch_bytes;
}

void runner_step(struct runner *r, struct batch *b)
{
    if (b->n_rows == 0)
        return;
    r->batch = b;
    r->since_ns = clock_ns();
    attn_cut_make(&r->cut, b);
    team_run(r->team, runner_forward, r);
    r->times.n_steps++;
}

const struct runner_times *runner_times(const struct runner *r)
{
    return &r->times;
}

const char *runner_part_name(enum runner_part part)
{
    static const char *const names[RUNNER_N_PART] = {
        [RUNNER_EMBED] = "embed",         [RUNNER_NORM] = "norm",
        [RUNNER_QKV] = "qkv",             [RUNNER_ROPE] = "rope",
        [RUNNER_ATTENTION] = "attention", [RUNNER_ATTN_OUT] = "attn_out",
        [RUNNER_GATE_UP] = "gate_up",     [RUNNER_DOWN] = "down",
        [RUNNER_LOGITS] = "logits",       [RUNNER_SAMPLE] = "sample",
    };

    return names[part];
}
