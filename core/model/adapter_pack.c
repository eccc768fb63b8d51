/* core/model/adapter_pack.c - an adapter's matrices as panels; see adapter_impl.h. */
#include "core/model/adapter_impl.h"

#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/mem.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#define PANEL_ALIGN 64

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- room ---- */

/* The one type of the panels: what all tensors are, if that is F16 or BF16, else F32. */
static enum kern_weight choose_type(const struct gguf *g)
{
    const enum block_type first = gguf_n_tensors(g) > 0 ? gguf_tensor_at(g, 0)->type : BLOCK_F32;

    for (uint64_t i = 0; i < gguf_n_tensors(g); i++)
        if (gguf_tensor_at(g, i)->type != first)
            return KERN_F32;
    return first == BLOCK_F16 ? KERN_F16 : first == BLOCK_BF16 ? KERN_BF16 : KERN_F32;
}

static size_t matrix_bytes(const struct matrix *m)
{
    return round_up(m->n_panels * m->panel_bytes, PANEL_ALIGN);
}

static struct matrix make_matrix(enum kern_weight type, uint32_t n_in, uint32_t n_out)
{
    return (struct matrix){.type = type,
                           .n_in = n_in,
                           .n_out = n_out,
                           .n_each = n_out > 0,
                           .n_panels = (n_out + KERN_LANES - 1) / KERN_LANES,
                           .panel_bytes = kern_panel_bytes(type, n_in)};
}

/* The matrices of a layer, without data; returns their bytes. */
static size_t shape_layer(const struct adapter_loading *l, const struct adapter_pair *pairs,
                          struct adapter_layer *to)
{
    uint32_t n_out[ADAPTER_N_INPUT] = {0}, n_in[ADAPTER_N_INPUT] = {0};
    size_t bytes = 0;

    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET; t++) {
        const struct adapter_pair *p = &pairs[t];
        const enum adapter_input in = adapter_input_of(t);

        if (p->a == NULL)
            continue;
        to->at[t] = n_out[in];
        to->scale[t] = l->alpha != 0.0f ? l->alpha / (float)p->rank : 1.0f;
        to->up[t] = make_matrix(l->type, p->rank, p->n_out);
        n_out[in] += p->rank;
        n_in[in] = p->n_in;
        bytes += matrix_bytes(&to->up[t]);
    }
    for (int in = 0; in < ADAPTER_N_INPUT; in++) {
        to->down[in] = make_matrix(l->type, n_in[in], n_out[in]);
        bytes += matrix_bytes(&to->down[in]);
    }
    return bytes;
}

/* A step reads all panels of all its adapters, so in small pages every one would be looked up
 * anew: what fills a huge page gets some. */
static void take_panels(struct adapter *a)
{
    if (a->bytes < MEM_HUGE_PAGE) {
        a->panels = mem_aligned(a->bytes, 1);
        return;
    }
    a->bytes = round_up(a->bytes, MEM_HUGE_PAGE);
    a->panels = mem_map(a->bytes);
    a->mapped = a->panels != NULL ? a->bytes : 0;
}

static int take_room(struct adapter_loading *l)
{
    struct adapter *a = l->out;
    uint32_t longest = 0;

    for (uint32_t i = 0; i < a->n_layer; i++) {
        a->bytes += shape_layer(l, l->pairs[i], &a->layers[i]);
        for (int t = 0; t < ADAPTER_N_TARGET; t++) {
            const struct adapter_pair *p = &l->pairs[i][t];

            a->max_rank = p->rank > a->max_rank ? p->rank : a->max_rank;
            longest = p->n_in > longest ? p->n_in : longest;
        }
    }
    longest = longest > a->max_rank ? longest : a->max_rank;
    l->row = mem_calloc(longest + (size_t)1, sizeof(*l->row));
    take_panels(a);
    l->at = a->panels;
    a->bytes += sizeof(*a) + a->n_layer * sizeof(*a->layers);
    return l->row != NULL && a->panels != NULL ? 0 : adapter_fail(l, ERR_NOMEM, "out of memory");
}

/* ---- panels ---- */

/* A row of the file as the panels' type has it, over the decoded one: never longer than that. */
static int decode_row(struct adapter_loading *l, const struct gguf_tensor *t, uint64_t i)
{
    const size_t n = (size_t)t->dims[0];
    uint8_t *packed = (uint8_t *)l->row;

    if (l->canceled != NULL && atomic_load_explicit(l->canceled, memory_order_relaxed))
        return adapter_fail(l, ERR_CANCELED, "nobody wants it any more");
    block_decode(t->type, (const uint8_t *)t->data + i * gguf_row_bytes(t), l->row, n);
    for (size_t j = 0; j < n; j++)
        if (!isfinite(l->row[j]))
            return adapter_fail_tensor(l, ERR_FORMAT, t, "holds a number that is not finite");
    for (size_t j = 0; j < n && l->type != KERN_F32; j++) {
        const uint16_t half =
            l->type == KERN_F16 ? block_f32_to_f16(l->row[j]) : block_f32_to_bf16(l->row[j]);

        memcpy(packed + 2 * j, &half, 2);
    }
    return 0;
}

/* Row `i` of the panels of q or k comes from this one of the file. */
static uint64_t turned_row(const struct adapter_loading *l, uint32_t i)
{
    const uint32_t dim = l->m->shape.key_dim, half = dim / 2, in = i % dim;
    const uint32_t from = l->file_has_pairs ? in % half * 2 + in / half : in / 2 + in % 2 * half;

    return i - in + from;
}

/* Rows of a matrix of the file, one after the other; panels are made of 16 of them. */
struct rows {
    struct matrix *to;
    uint8_t *lanes; /* [16][row bytes]: those of the panel that is being filled */
    size_t row_bytes;
    uint32_t n; /* rows so far */
};

static void flush_panel(struct rows *r, uint32_t panel)
{
    const uint32_t first = panel * KERN_LANES;
    const void *lanes[KERN_LANES] = {0};

    for (uint32_t i = 0; i < KERN_LANES && first + i < r->n; i++)
        lanes[i] = r->lanes + i * r->row_bytes;
    kern_pack(r->to->type, (uint8_t *)r->to->data + panel * r->to->panel_bytes, lanes, r->to->n_in);
}

static void add_row(struct rows *r, const void *row)
{
    memcpy(r->lanes + r->n % KERN_LANES * r->row_bytes, row, r->row_bytes);
    r->n++;
    if (r->n % KERN_LANES == 0 || r->n == r->to->n_out)
        flush_panel(r, (r->n - 1) / KERN_LANES);
}

static int begin_rows(struct adapter_loading *l, struct rows *r, struct matrix *to)
{
    const size_t elem = l->type == KERN_F32 ? 4 : 2;

    hold_here("QUIRE_DEBUG_HOLD_ADAPTER");
    *r = (struct rows){.to = to, .row_bytes = to->n_in * elem};
    r->lanes = mem_calloc(KERN_LANES, r->row_bytes);
    if (r->lanes == NULL)
        return adapter_fail(l, ERR_NOMEM, "out of memory");
    to->data = l->at;
    l->at += matrix_bytes(to);
    return 0;
}

static int fill_up(struct adapter_loading *l, enum adapter_target t, const struct adapter_pair *p,
                   struct matrix *to)
{
    const bool turns = l->turns_rows && (t == ADAPTER_Q || t == ADAPTER_K);
    struct rows r;
    int rc = begin_rows(l, &r, to);

    for (uint32_t i = 0; i < p->n_out && rc == 0; i++) {
        rc = decode_row(l, p->b, p->row0 + (turns ? turned_row(l, i) : i));
        if (rc == 0)
            add_row(&r, l->row);
    }
    mem_free(r.lanes);
    return rc;
}

static int fill_down(struct adapter_loading *l, const struct adapter_pair *pairs,
                     enum adapter_input in, struct matrix *to)
{
    struct rows r;
    int rc = begin_rows(l, &r, to);

    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET; t++) {
        if (pairs[t].a == NULL || adapter_input_of(t) != in)
            continue;
        for (uint32_t i = 0; i < pairs[t].rank && rc == 0; i++) {
            rc = decode_row(l, pairs[t].a, i);
            if (rc == 0)
                add_row(&r, l->row);
        }
    }
    mem_free(r.lanes);
    return rc;
}

static int fill_layer(struct adapter_loading *l, uint32_t i)
{
    struct adapter_layer *to = &l->out->layers[i];
    int rc = 0;

    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET && rc == 0; t++)
        if (matrix_exists(&to->up[t]))
            rc = fill_up(l, t, &l->pairs[i][t], &to->up[t]);
    for (int in = 0; in < ADAPTER_N_INPUT && rc == 0; in++)
        if (matrix_exists(&to->down[in]))
            rc = fill_down(l, l->pairs[i], (enum adapter_input)in, &to->down[in]);
    return rc;
}

/* ---- identity ---- */

/* Of what it computes: numbers, where they belong, and factors. */
static void hash_layer(XXH3_state_t *state, const struct adapter_layer *layer)
{
    for (int t = 0; t < ADAPTER_N_TARGET; t++) {
        const struct matrix *up = &layer->up[t];
        const uint32_t shape[] = {up->n_out, up->n_in, layer->at[t]};

        XXH3_128bits_update(state, shape, sizeof(shape));
        XXH3_128bits_update(state, &layer->scale[t], sizeof(layer->scale[t]));
    }
}

static int identify(struct adapter_loading *l)
{
    struct adapter *a = l->out;
    XXH3_state_t *state = XXH3_createState();
    const uint32_t type = l->type;
    XXH128_hash_t hash;

    if (state == NULL)
        return adapter_fail(l, ERR_NOMEM, "out of memory");
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, &type, sizeof(type));
    for (uint32_t i = 0; i < a->n_layer; i++)
        hash_layer(state, &a->layers[i]);
    XXH3_128bits_update(state, a->panels, (size_t)(l->at - a->panels));
    hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    a->id[0] = hash.low64;
    a->id[1] = hash.high64;
    return 0;
}

int adapter_pack(struct adapter_loading *l)
{
    int rc;

    l->type = choose_type(l->g);
    rc = take_room(l);
    for (uint32_t i = 0; i < l->out->n_layer && rc == 0; i++)
        rc = fill_layer(l, i);
    return rc == 0 ? identify(l) : rc;
}

size_t adapter_most_bytes(const struct gguf *g)
{
    const size_t elem = choose_type(g) == KERN_F32 ? 4 : 2;
    size_t bytes = 0;

    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const uint64_t lanes = (t->dims[1] + KERN_LANES - 1) / KERN_LANES * KERN_LANES;

        bytes += (size_t)(t->dims[0] * lanes * elem) + PANEL_ALIGN;
    }
    return bytes < MEM_HUGE_PAGE ? bytes : round_up(bytes, MEM_HUGE_PAGE);
}
