/* core/runtime/runner.c - creation, destruction and the step of a runner; see runner.h.
 *
 * runner_create() computes the strides of all activations from the model's shape and takes each
 * buffer at its largest size, so runner_step() only plans: it finds the spans to undo, the rows of
 * adapters and the attention items on the engine thread, and then lets the thread pool run
 * runner_forward(). The functions about shapes and sizes are called before, when the KV cache is
 * planned.
 */
#include "core/runtime/runner.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/runtime/forward.h"
#include "core/runtime/runner_impl.h"
#include "core/runtime/thread_pool.h"
#include "kvcache/kv_store.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static size_t row_panels(size_t n)
{
    return (n + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Return the least number of KV heads of a layer with attention; at least 1. */
static uint32_t least_kv_heads(const struct model *m)
{
    uint32_t n = m->shape.n_kv_head;

    for (uint32_t i = 0; i < model_n_layers(m); i++)
        if (m->layers[i].has_attention && m->layers[i].n_kv_head < n)
            n = m->layers[i].n_kv_head;
    return n;
}

static bool has_attention(const struct model *m)
{
    return m->groups.n_layer > 0;
}

static bool has_gated_attention(const struct model *m)
{
    for (uint32_t i = 0; i < model_n_layers(m); i++)
        if (matrix_exists(&m->layers[i].attn_gate))
            return true;
    return false;
}

/* Strides of the rows of recurrent layers. */
static void set_mix_strides(struct runner *r)
{
    const struct recurrent_shape *s = &r->model->shape.recurrent;
    const size_t low = 2 * kern_qrow_bytes(row_panels(s->value_dim) + 16);

    r->mix_stride = s->row_floats;
    r->mix_qrow_stride =
        max_size(kern_qrow_bytes(row_panels(max_size(s->n_inner, s->n_rank)) + 16), low);
}

static void set_strides(struct runner *r)
{
    const struct model_shape *s = &r->model->shape;
    const size_t key_dim = max_size(s->key_dim, s->window_dim);
    const size_t value_dim = max_size(s->value_dim, s->window_dim);
    const size_t query = s->n_latent > 0 ? s->n_nope + s->n_rot : key_dim;
    const size_t q = row_panels(s->n_head * query);
    const size_t k = row_panels(s->n_kv_head * key_dim);
    const size_t v = row_panels(s->n_kv_head * value_dim);
    const size_t att = row_panels(s->n_head * value_dim);
    const size_t heads =
        row_panels((size_t)s->n_head * (s->n_latent > 0 ? s->head_out : value_dim));

    r->embd_stride = row_panels(s->n_embd);
    r->k_at = q;
    r->v_at = q + k;
    r->gate_at = q + k + v;
    r->qkv_stride = r->gate_at + (has_gated_attention(r->model) ? att : 0);
    r->att_stride = att;
    r->ff_stride = row_panels(
        max_size(max_size(s->n_ff, s->n_ff_shared), max_size(s->n_per_layer, s->n_laurel)));
    r->per_layer_stride = row_panels((size_t)s->n_layer * s->n_per_layer);
    r->per_layer_scales[0] = (float)(1.0 / sqrt(s->n_embd));
    r->per_layer_scales[1] = (float)sqrt(s->n_per_layer);
    r->vocab_stride = row_panels(s->n_vocab);
    r->label_stride = row_panels(s->n_labels);
    for (int i = 0; i < TOKEN_HEAD_COUNT; i++)
        r->label_stride = max_size(r->label_stride, row_panels(s->n_token_out[i]));
    r->wide_stride = row_panels(s->n_wide);
    r->qrow_stride =
        kern_qrow_bytes(row_panels(max_size(max_size(max_size(s->n_embd, s->n_lora_q), s->n_wide),
                                            max_size(max_size(att, heads), s->n_per_layer))) +
                        16);
    r->ff_row_stride = kern_qrow_bytes(r->ff_stride + 16);
    if (has_attention(r->model))
        r->attn_scratch_bytes =
            (kern_attn_scratch(ATTN_ROWS, s->n_head / least_kv_heads(r->model), (uint32_t)key_dim,
                               (uint32_t)value_dim) + 63) / 64 * 64;
    r->router_stride = row_panels(s->n_expert);
    r->expert_stride = row_panels(s->n_ff_expert);
    r->moe_latent_stride = row_panels(s->n_moe_latent);
    r->slot_qrow_stride = kern_qrow_bytes(r->embd_stride + 16);
    r->expert_qrow_stride = kern_qrow_bytes(r->expert_stride + 16);
    r->lora_stride = row_panels(s->n_lora_q);
    r->mla_q_stride = row_panels((size_t)s->n_head * s->key_dim);
    r->heads_stride = heads;
    r->head_qrow_stride = kern_qrow_bytes(row_panels(max_size(s->n_nope, s->value_dim)) + 16);
    set_mix_strides(r);
}

/* Take a buffer of rows; `size` is the bytes of a number. The bytes count as scratch. Rows of no
 * numbers, for parts that the model lacks, take a cache line, so that NULL always means out of
 * memory. */
static void *take_buffer(struct runner *r, size_t rows, size_t stride, size_t size)
{
    stride = stride > 0 ? stride : KERN_LANES;
    r->scratch_bytes += rows * stride * size;
    return mem_aligned(rows * stride, size);
}

static int create_split_kv(struct runner *r, const struct runner_options *o,
                           struct split_kv *split_kv, uint32_t window)
{
    const struct model_shape *s = &r->model->shape;
    const struct split_kv_options options = {
        .max_rows = o->max_rows,
        .threads = thread_pool_n_threads(o->pool),
        .n_ctx = s->n_ctx,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .value_dim = s->window_dim > s->value_dim ? s->window_dim : s->value_dim,
        .window = window,
        .is_chunked = s->is_chunked,
        .is_encoder = s->is_encoder,
        .n_tables = window > 0 || s->is_encoder || o->no_cascade
                        ? 0
                        : kv_groups_n_full(&r->model->groups),
    };

    return split_kv_create(split_kv, &options);
}

static int create_rows(struct runner *r, const struct runner_options *o)
{
    const size_t n = o->max_rows, f = sizeof(float);

    r->x = take_buffer(r, n, r->embd_stride, f);
    r->norm = take_buffer(r, n, r->embd_stride, f);
    r->delta = take_buffer(r, n, r->embd_stride, f);
    r->ffn_out = take_buffer(r, n, r->embd_stride, f);
    r->qkv = take_buffer(r, n, r->qkv_stride, f);
    r->att = take_buffer(r, n, r->att_stride, f);
    r->gate = take_buffer(r, n, r->ff_stride, f);
    r->up = take_buffer(r, n, r->ff_stride, f);
    r->logits = take_buffer(r, LOGIT_ROWS, r->vocab_stride, f);
    r->lrows = take_buffer(r, LOGIT_ROWS, r->embd_stride, f);
    r->qrows = take_buffer(r, max_size(n, LOGIT_ROWS), r->qrow_stride, 1);
    r->ff_rows = take_buffer(r, n, r->ff_row_stride, 1);
    r->attn_scratch = take_buffer(r, thread_pool_n_threads(o->pool), r->attn_scratch_bytes, 1);
    if (r->x == NULL || r->norm == NULL || r->delta == NULL || r->ffn_out == NULL ||
        r->qkv == NULL || r->att == NULL || r->gate == NULL || r->up == NULL ||
        r->logits == NULL || r->lrows == NULL || r->qrows == NULL || r->ff_rows == NULL ||
        r->attn_scratch == NULL)
        return ERR_NOMEM;
    return 0;
}

static int create_head_rows(struct runner *r)
{
    if (r->label_stride == 0)
        return 0;
    r->head_rows = take_buffer(r, LOGIT_ROWS, r->embd_stride, sizeof(float));
    r->head_out = take_buffer(r, LOGIT_ROWS, r->label_stride, sizeof(float));
    return r->head_rows != NULL && r->head_out != NULL ? 0 : ERR_NOMEM;
}

static int create_wide_rows(struct runner *r)
{
    if (r->model->shape.n_wide == 0)
        return 0;
    r->wide_rows = take_buffer(r, LOGIT_ROWS, r->wide_stride, sizeof(float));
    r->wide_out = take_buffer(r, LOGIT_ROWS, r->wide_stride, sizeof(float));
    return r->wide_rows != NULL && r->wide_out != NULL ? 0 : ERR_NOMEM;
}

/* True: some experts take rows as floats. */
static bool has_float_experts(const struct model *m)
{
    for (uint32_t i = 0; i < model_n_layers(m); i++)
        if (takes_floats(&m->layers[i].experts))
            return true;
    return false;
}

static int create_expert_rows(struct runner *r, const struct runner_options *o)
{
    const struct model_shape *s = &r->model->shape;
    const size_t rows = o->max_rows, n = rows * s->n_expert_used, f = sizeof(float);

    if (s->n_expert == 0)
        return 0;
    r->router = take_buffer(r, rows, 2 * r->router_stride, f);
    r->shared_gate = take_buffer(r, rows, KERN_LANES, f);
    r->slot_rows = take_buffer(r, s->experts_weigh_input || has_float_experts(r->model) ? n : 1,
                               r->embd_stride, f);
    r->expert_gate = take_buffer(r, n, r->expert_stride, f);
    r->expert_up = take_buffer(r, n, r->expert_stride, f);
    r->slot_out = take_buffer(r, n, r->embd_stride, f);
    r->slot_qrows = take_buffer(r, n, r->slot_qrow_stride, 1);
    r->expert_qrows = take_buffer(r, n, r->expert_qrow_stride, 1);
    r->picks = mem_calloc(n, sizeof(*r->picks));
    r->active = mem_calloc(s->n_expert, sizeof(*r->active));
    r->expert_slots = mem_calloc(s->n_expert, sizeof(*r->expert_slots));
    if (r->router == NULL || r->shared_gate == NULL || r->slot_rows == NULL ||
        r->expert_gate == NULL || r->expert_up == NULL || r->slot_out == NULL ||
        r->slot_qrows == NULL || r->expert_qrows == NULL || r->picks == NULL ||
        r->active == NULL || r->expert_slots == NULL)
        return ERR_NOMEM;
    return 0;
}

static int create_moe_latent(struct runner *r, const struct runner_options *o)
{
    if (r->model->shape.n_moe_latent == 0)
        return 0;
    r->moe_latent = take_buffer(r, o->max_rows, r->moe_latent_stride, sizeof(float));
    return r->moe_latent != NULL ? 0 : ERR_NOMEM;
}

static int create_per_layer_rows(struct runner *r, const struct runner_options *o)
{
    if (r->model->shape.n_per_layer == 0)
        return 0;
    r->per_layer = take_buffer(r, o->max_rows, r->per_layer_stride, sizeof(float));
    r->per_layer_row =
        take_buffer(r, thread_pool_n_threads(o->pool), r->per_layer_stride, sizeof(float));
    return r->per_layer != NULL && r->per_layer_row != NULL ? 0 : ERR_NOMEM;
}

static int create_streams(struct runner *r, const struct runner_options *o)
{
    const size_t n = r->model->shape.n_streams;

    if (n <= 1)
        return 0;
    r->streams = take_buffer(r, o->max_rows, n * r->embd_stride, sizeof(float));
    r->stream_row =
        take_buffer(r, thread_pool_n_threads(o->pool), n * r->embd_stride, sizeof(float));
    r->laurel = take_buffer(r, o->max_rows, r->embd_stride, sizeof(float));
    return r->streams != NULL && r->stream_row != NULL && r->laurel != NULL ? 0 : ERR_NOMEM;
}

static int create_mla_rows(struct runner *r, const struct runner_options *o)
{
    const struct model_shape *s = &r->model->shape;
    const size_t n = o->max_rows, f = sizeof(float);

    if (s->n_latent == 0)
        return 0;
    r->lora = take_buffer(r, n, r->lora_stride + KERN_LANES, f); /* may hold no numbers */
    r->mla_q = take_buffer(r, n, r->mla_q_stride, f);
    r->heads = take_buffer(r, n, r->heads_stride, f);
    r->head_qrows = take_buffer(r, n * s->n_head, r->head_qrow_stride, 1);
    if (r->lora == NULL || r->mla_q == NULL || r->heads == NULL || r->head_qrows == NULL)
        return ERR_NOMEM;
    return 0;
}

static int create_mix_rows(struct runner *r, const struct runner_options *o)
{
    if (r->model->shape.recurrent.kind == RECURRENT_NONE)
        return 0;
    r->mix = take_buffer(r, o->max_rows, r->mix_stride, sizeof(float));
    r->mix_qrows = take_buffer(r, o->max_rows, r->mix_qrow_stride, 1);
    return r->mix != NULL && r->mix_qrows != NULL ? 0 : ERR_NOMEM;
}

static int create_adapter_rows(struct runner *r, const struct runner_options *o)
{
    const size_t n = o->max_rows;

    if (!o->takes_adapters)
        return 0;
    r->adapters = mem_calloc(n, sizeof(*r->adapters));
    r->adapter_in = take_buffer(r, n, ADAPTER_IN_STRIDE, sizeof(float));
    return r->adapters != NULL && r->adapter_in != NULL ? 0 : ERR_NOMEM;
}

static int create_samplers(struct runner *r, const struct runner_options *o)
{
    const uint32_t n_threads = thread_pool_n_threads(o->pool);

    r->samplers = mem_calloc(n_threads, sizeof(*r->samplers));
    r->eog = mem_dup(o->eog, o->n_eog * sizeof(*r->eog));
    if (r->samplers == NULL || r->eog == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n_threads; i++)
        if (sampler_scratch_create(&r->samplers[i], r->model->shape.n_vocab) < 0)
            return ERR_NOMEM;
    r->scratch_bytes += n_threads * (size_t)r->model->shape.n_vocab * 16;
    return 0;
}

static int create_buffers(struct runner *r, const struct runner_options *o)
{
    const uint32_t window = r->model->shape.window;

    if (create_rows(r, o) < 0 || create_expert_rows(r, o) < 0 || create_moe_latent(r, o) < 0 ||
        create_mla_rows(r, o) < 0 || create_mix_rows(r, o) < 0 ||
        create_per_layer_rows(r, o) < 0 || create_streams(r, o) < 0 ||
        create_adapter_rows(r, o) < 0 || create_head_rows(r) < 0 || create_wide_rows(r) < 0 ||
        mtp_create(r, o) < 0 || undo_create(r, o) < 0 || create_samplers(r, o) < 0)
        return ERR_NOMEM;
    if (!has_attention(r->model))
        return 0;
    if (create_split_kv(r, o, &r->split_kv, 0) < 0)
        return ERR_NOMEM;
    return window > 0 ? create_split_kv(r, o, &r->window_split_kv, window) : 0;
}

bool runner_kv_fits(const struct model *m, enum kern_kv type)
{
    const uint32_t group = kern_kv_group(type);

    for (uint32_t i = 0; i < model_n_layers(m); i++)
        if (m->layers[i].has_attention &&
            (m->layers[i].key_dim % group != 0 || m->layers[i].value_dim % group != 0))
            return false;
    return true;
}

/* Return the first layer with attention, or NULL. */
static const struct model_layer *first_attention(const struct model *m)
{
    for (uint32_t i = 0; i < model_n_layers(m); i++)
        if (m->layers[i].has_attention)
            return &m->layers[i];
    return NULL;
}

static bool has_same_heads(const struct model *m, const struct model_layer *as)
{
    for (uint32_t i = 0; i < model_n_layers(m); i++)
        if (m->layers[i].has_attention &&
            (m->layers[i].n_kv_head != as->n_kv_head || m->layers[i].key_dim != as->key_dim ||
             m->layers[i].value_dim != as->value_dim))
            return false;
    return true;
}

struct kv_shape runner_kv_shape(const struct model *m, enum kern_kv type)
{
    const struct model_layer *first = first_attention(m);
    struct kv_shape shape = {.n_layer = m->groups.n_layer, .n_kv_head = 1};

    if (first == NULL)
        return (struct kv_shape){0};
    if (has_same_heads(m, first))
        return (struct kv_shape){m->groups.n_layer, first->n_kv_head,
                                 kern_kv_key_bytes(type, first->key_dim),
                                 kern_kv_value_bytes(type, first->value_dim)};
    for (uint32_t i = 0; i < model_n_layers(m); i++) {
        const struct model_layer *l = &m->layers[i];

        if (!l->has_attention)
            continue;
        shape.key_bytes =
            max_size(shape.key_bytes, l->n_kv_head * kern_kv_key_bytes(type, l->key_dim));
        shape.value_bytes =
            max_size(shape.value_bytes, l->n_kv_head * kern_kv_value_bytes(type, l->value_dim));
    }
    return shape;
}

size_t runner_state_bytes(const struct model *m)
{
    return m->state_floats * sizeof(float);
}

static int check_options(const struct runner_options *o, char *err, size_t err_len)
{
    const struct model_shape *s = &o->model->shape;
    const struct kv_shape *kv = &o->kv->shape;
    const struct kv_shape wanted = runner_kv_shape(o->model, o->kv_type);

    if (!runner_kv_fits(o->model, o->kv_type) || kv->n_layer != wanted.n_layer ||
        kv->n_kv_head != wanted.n_kv_head || kv->key_bytes != wanted.key_bytes ||
        kv->value_bytes != wanted.value_bytes) {
        snprintf(err, err_len, "the KV store's shape is not the model's");
        return ERR_INVAL;
    }
    if (o->n_slots > 0 && (!o->model->has_mtp || o->n_slots > o->max_rows ||
                           o->kv->n_private < runner_private_blocks(o->model, o->n_slots))) {
        snprintf(err, err_len, "there is no memory to draft tokens for %u sequences", o->n_slots);
        return ERR_INVAL;
    }
    if (o->undoes && runner_state_bytes(o->model) == 0) {
        snprintf(err, err_len, "the model has no recurrent states that can be restored");
        return ERR_INVAL;
    }
    if (runner_state_bytes(o->model) > 0 && o->states == NULL) {
        snprintf(err, err_len, "the model's recurrent layers have no memory for states");
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
    r->states = o->states;
    r->kv_type = o->kv_type;
    r->n_eog = o->n_eog;
    kern_init(&r->kern, o->isa);
    set_strides(r);
    r->pool = o->pool;
    rc = create_buffers(r, o);
    if (rc < 0) {
        runner_destroy(&r);
        return rc;
    }
    *out = r;
    return 0;
}

static void free_rows(struct runner *r)
{
    void *const all[] = {
        r->x,          r->norm,         r->delta,        r->ffn_out,     r->qkv,       r->att,
        r->gate,       r->up,           r->logits,       r->lrows,       r->qrows,     r->ff_rows,
        r->router,     r->shared_gate,  r->slot_rows,    r->expert_gate, r->expert_up, r->slot_out,
        r->slot_qrows, r->expert_qrows, r->picks,        r->active,      r->lora,      r->mla_q,
        r->heads,      r->head_qrows,   r->attn_scratch, r->expert_slots, r->head_rows,
        r->head_out,   r->wide_rows,    r->wide_out,     r->adapters,    r->adapter_in,
        r->per_layer,  r->per_layer_row, r->streams,      r->stream_row,   r->laurel,
        r->mix,        r->mix_qrows,    r->moe_latent};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        mem_free(all[i]);
}

void runner_destroy(struct runner **runner)
{
    struct runner *r = runner != NULL ? *runner : NULL;

    if (r == NULL)
        return;
    for (uint32_t i = 0; r->samplers != NULL && i < thread_pool_n_threads(r->pool); i++)
        sampler_scratch_release(&r->samplers[i]);
    mem_free(r->samplers);
    free_rows(r);
    mtp_release(&r->mtp);
    undo_release(&r->undo);
    split_kv_release(&r->split_kv);
    split_kv_release(&r->window_split_kv);
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
    r->step = r->batch = b;
    undo_find(&r->undo, b);
    r->since_ns = clock_ns();
    adapters_gather(r);
    if (has_attention(r->model))
        split_kv_make(&r->split_kv, b);
    if (has_attention(r->model) && r->model->shape.window > 0)
        split_kv_make(&r->window_split_kv, b);
    thread_pool_run(r->pool, runner_forward, r);
    r->times.n_cascade_rows += r->split_kv.n_grouped_rows;
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
        [RUNNER_ATTENTION] = "attention", [RUNNER_RECURRENT] = "recurrent",
        [RUNNER_ATTN_OUT] = "attn_out",
        [RUNNER_ROUTE] = "route",         [RUNNER_GATE_UP] = "gate_up",
        [RUNNER_DOWN] = "down",           [RUNNER_LOGITS] = "logits",
        [RUNNER_SAMPLE] = "sample",       [RUNNER_MTP] = "mtp",
    };

    return names[part];
}
