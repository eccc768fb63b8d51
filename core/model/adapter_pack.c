/* core/model/adapter_pack.c - packs an adapter's matrices into panels; see adapter_impl.h.
 *
 * Two passes over the layers: the first chooses types and adds up sizes, so that one allocation
 * takes all panels; the second reads the file row by row, 16 rows to a panel. The id is a hash over
 * the finished panels, their places and factors, so adapters with the same numbers share cached
 * prefixes, whatever their files are called.
 */
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

/* ---- types ---- */

static enum kern_weight packed_type(const struct gguf_tensor *t)
{
    return t->type == BLOCK_F16    ? KERN_F16
           : t->type == BLOCK_BF16 ? KERN_BF16
           : t->type == BLOCK_Q8_0 ? KERN_Q8_0
                                   : KERN_F32;
}

static bool is_8bit(const struct matrix *m)
{
    return !matrix_exists(m) || kern_weight_is_quantised(m->type);
}

/* True: all of the model's matrices that take this input take it as 8-bit rows. */
static bool takes_8bit(const struct model_layer *l, enum adapter_input in)
{
    switch (in) {
    case ADAPTER_IN_ATTENTION:
        return is_8bit(&l->q) && is_8bit(&l->k) && is_8bit(&l->v);
    case ADAPTER_IN_ATTN_OUT:
        return is_8bit(&l->attn_out);
    case ADAPTER_IN_FFN:
        return is_8bit(&l->ffn.gate) && is_8bit(&l->ffn.up);
    default:
        return is_8bit(&l->ffn.down);
    }
}

/* Return the type of an input's As: their common type, else F32. Q8_0 only if the model's matrices
 * take 8-bit rows; with load_type As become Q8_0. */
static enum kern_weight type_of_downs(const struct adapter_loading *l, uint32_t layer,
                                      enum adapter_input in)
{
    const struct adapter_pair *pairs = l->pairs[layer];
    enum kern_weight type = KERN_N_WEIGHT;
    const bool is_8bit_input = takes_8bit(&l->m->layers[layer], in);

    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET; t++) {
        if (pairs[t].a == NULL || adapter_input_of(t) != in)
            continue;
        if (type != KERN_N_WEIGHT && type != packed_type(pairs[t].a))
            type = KERN_F32;
        else if (type == KERN_N_WEIGHT)
            type = packed_type(pairs[t].a);
    }
    if (is_8bit_input && l->m->load_type != BLOCK_F32)
        return KERN_Q8_0;
    return type == KERN_Q8_0 && is_8bit_input ? type : type < KERN_Q8_0 ? type : KERN_F32;
}

/* Return the type of a B. Most Bs have rows too short for blocks, so Bs that are Q8_0 in the file
 * become F32. */
static enum kern_weight type_of_up(const struct adapter_loading *l, const struct adapter_pair *p)
{
    const enum kern_weight type = packed_type(p->b);

    if (l->m->load_type != BLOCK_F32)
        return KERN_Q8_0; /* with one scale for each row */
    return type == KERN_Q8_0 ? KERN_F32 : type;
}

static size_t row_bytes(enum kern_weight type, size_t n)
{
    return type == KERN_Q8_0   ? (size_t)block_row_bytes(block_format(BLOCK_Q8_0), n)
           : type == KERN_F32 ? 4 * n
                              : 2 * n;
}

/* ---- memory ---- */

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

static struct matrix make_up(enum kern_weight type, uint32_t n_in, uint32_t n_out)
{
    struct matrix m = make_matrix(type, n_in, n_out);

    m.panel_bytes = kern_lora_panel_bytes(type, n_in);
    return m;
}

/* Set the sizes of a layer's matrices, without data; returns their bytes. */
static size_t shape_layer(const struct adapter_loading *l, uint32_t layer, struct adapter_layer *to)
{
    const struct adapter_pair *pairs = l->pairs[layer];
    uint32_t n_out[ADAPTER_N_INPUT] = {0}, n_in[ADAPTER_N_INPUT] = {0};
    size_t bytes = 0;

    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET; t++) {
        const struct adapter_pair *p = &pairs[t];
        const enum adapter_input in = adapter_input_of(t);

        if (p->a == NULL)
            continue;
        to->at[t] = n_out[in];
        to->scale[t] = l->alpha != 0.0f ? l->alpha / (float)p->rank : 1.0f;
        to->up[t] = make_up(type_of_up(l, p), p->rank, p->n_out);
        n_out[in] += p->rank;
        n_in[in] = p->n_in;
        bytes += matrix_bytes(&to->up[t]);
    }
    for (int in = 0; in < ADAPTER_N_INPUT; in++) {
        if (n_out[in] == 0)
            continue;
        to->down[in] = make_matrix(type_of_downs(l, layer, (enum adapter_input)in), n_in[in],
                                   n_out[in]);
        bytes += matrix_bytes(&to->down[in]);
    }
    return bytes;
}

/* Take the panels. A step reads all panels of all its adapters, and in small pages each page would
 * need a TLB entry: panels that fill a huge page get huge pages. */
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
        a->bytes += shape_layer(l, i, &a->layers[i]);
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

/* Decode row i of a tensor into l->row. */
static int decode_row(struct adapter_loading *l, const struct gguf_tensor *t, uint64_t i)
{
    const size_t n = (size_t)t->dims[0];

    if (l->canceled != NULL && atomic_load_explicit(l->canceled, memory_order_relaxed))
        return adapter_fail(l, ERR_CANCELED, "no request needs the adapter any more");
    block_decode(t->type, (const uint8_t *)t->data + i * gguf_row_bytes(t), l->row, n);
    for (size_t j = 0; j < n; j++)
        if (!isfinite(l->row[j]))
            return adapter_fail_tensor(l, ERR_FORMAT, t, "contains a number that is not finite");
    return 0;
}

/* Return the file's row that becomes row `i` of the panels of q or k. */
static uint64_t turned_row(const struct adapter_loading *l, uint32_t i)
{
    const uint32_t dim = l->m->shape.key_dim, half = dim / 2, in = i % dim;
    const uint32_t from = l->file_has_pairs ? in % half * 2 + in / half : in / 2 + in % 2 * half;

    return i - in + from;
}

/* Adds rows one after the other to a matrix; 16 of them make a panel. */
struct rows {
    struct matrix *to;
    enum kern_weight type; /* type of the lanes; floats for a B of Q8_0, because its scales are made
                            * for a panel */
    uint8_t *lanes; /* [16][row bytes]: rows of the panel that is being filled */
    size_t row_bytes;
    uint32_t n; /* rows so far */
};

static void flush_panel(struct rows *r, uint32_t panel)
{
    const uint32_t first = panel * KERN_LANES;
    uint8_t *to = (uint8_t *)r->to->data + panel * r->to->panel_bytes;
    const void *lanes[KERN_LANES] = {0};
    const float *rows[KERN_LANES] = {0};

    for (uint32_t i = 0; i < KERN_LANES && first + i < r->n; i++)
        rows[i] = lanes[i] = r->lanes + i * r->row_bytes;
    if (r->type == r->to->type)
        kern_pack(r->type, to, lanes, r->to->n_in);
    else
        kern_lora_pack_q8_0(to, rows, r->to->n_in);
}

/* Encode a decoded row in the panels' type. */
static void encode_row(enum kern_weight type, const float *row, size_t n, uint8_t *to)
{
    if (type == KERN_F32)
        memcpy(to, row, n * sizeof(*row));
    else if (type == KERN_Q8_0)
        (void)block_encode(BLOCK_Q8_0, row, to, n);
    else
        (void)block_encode(type == KERN_F16 ? BLOCK_F16 : BLOCK_BF16, row, to, n);
}

/* Append row i of a tensor to the matrix. A row that is quantised in the file is copied
 * unchanged. */
static int add_row(struct adapter_loading *l, struct rows *r, const struct gguf_tensor *t,
                   uint64_t i)
{
    uint8_t *to = r->lanes + r->n % KERN_LANES * r->row_bytes;
    const int rc = decode_row(l, t, i);

    if (rc < 0)
        return rc;
    if (r->type == KERN_Q8_0 && t->type == BLOCK_Q8_0)
        memcpy(to, (const uint8_t *)t->data + i * gguf_row_bytes(t), r->row_bytes);
    else
        encode_row(r->type, l->row, r->to->n_in, to);
    r->n++;
    if (r->n % KERN_LANES == 0 || r->n == r->to->n_out)
        flush_panel(r, (r->n - 1) / KERN_LANES);
    return 0;
}

static int begin_rows(struct adapter_loading *l, struct rows *r, struct matrix *to,
                      enum kern_weight type)
{
    hold_here("QUIRE_DEBUG_HOLD_ADAPTER");
    *r = (struct rows){.to = to, .type = type, .row_bytes = row_bytes(type, to->n_in)};
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
    int rc = begin_rows(l, &r, to, to->type == KERN_Q8_0 ? KERN_F32 : to->type);

    for (uint32_t i = 0; i < p->n_out && rc == 0; i++)
        rc = add_row(l, &r, p->b, p->row0 + (turns ? turned_row(l, i) : i));
    mem_free(r.lanes);
    return rc;
}

static int fill_down(struct adapter_loading *l, const struct adapter_pair *pairs,
                     enum adapter_input in, struct matrix *to)
{
    struct rows r;
    int rc = begin_rows(l, &r, to, to->type);

    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET; t++) {
        if (pairs[t].a == NULL || adapter_input_of(t) != in)
            continue;
        for (uint32_t i = 0; i < pairs[t].rank && rc == 0; i++)
            rc = add_row(l, &r, pairs[t].a, i);
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

/* Hash all that decides a layer's results: weights, their places, and factors. */
static void hash_layer(XXH3_state_t *state, const struct adapter_layer *layer)
{
    for (int t = 0; t < ADAPTER_N_TARGET; t++) {
        const struct matrix *up = &layer->up[t];
        const uint32_t shape[] = {up->type, up->n_out, up->n_in, layer->at[t]};

        XXH3_128bits_update(state, shape, sizeof(shape));
        XXH3_128bits_update(state, &layer->scale[t], sizeof(layer->scale[t]));
    }
    for (int in = 0; in < ADAPTER_N_INPUT; in++) {
        const uint32_t type = layer->down[in].type;

        XXH3_128bits_update(state, &type, sizeof(type));
    }
}

static int identify(struct adapter_loading *l)
{
    struct adapter *a = l->out;
    XXH3_state_t *state = XXH3_createState();
    XXH128_hash_t hash;

    if (state == NULL)
        return adapter_fail(l, ERR_NOMEM, "out of memory");
    XXH3_128bits_reset(state);
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
    int rc = take_room(l);

    for (uint32_t i = 0; i < l->out->n_layer && rc == 0; i++)
        rc = fill_layer(l, i);
    return rc == 0 ? identify(l) : rc;
}

/* Return the most bytes of a packed value: 2 if all tensors have the same 16-bit type, else those
 * of F32. */
static size_t most_bytes_each(const struct gguf *g)
{
    const enum block_type first = gguf_n_tensors(g) > 0 ? gguf_tensor_at(g, 0)->type : BLOCK_F32;

    for (uint64_t i = 0; i < gguf_n_tensors(g); i++)
        if (gguf_tensor_at(g, i)->type != first)
            return 4;
    return first == BLOCK_F16 || first == BLOCK_BF16 ? 2 : 4;
}

size_t adapter_most_bytes(const struct gguf *g)
{
    const size_t elem = most_bytes_each(g);
    size_t bytes = 0;

    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const uint64_t lanes = (t->dims[1] + KERN_LANES - 1) / KERN_LANES * KERN_LANES;
        const uint64_t as_float = t->dims[0] * elem, as_q8_0 = t->dims[0] + sizeof(float);

        bytes += (size_t)((as_float > as_q8_0 ? as_float : as_q8_0) * lanes) + PANEL_ALIGN;
    }
    return bytes < MEM_HUGE_PAGE ? bytes : round_up(bytes, MEM_HUGE_PAGE);
}
