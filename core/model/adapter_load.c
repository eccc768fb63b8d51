/* core/model/adapter_load.c - turns a file's tensors into an adapter's matrices; see adapter.h.
 *
 * Every target of every layer looks for its pair blk.N.NAME.lora_a and lora_b, under its own name
 * and under the names of fused tensors that contain it, whose B is then cut by rows. Each tensor
 * found is marked as used; an unused tensor at the end is an error, because an adapter that is
 * applied in part gives wrong answers silently. Only then adapter_pack() takes memory.
 */
#include "core/model/adapter_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/load.h"
#include "core/model/traits.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The tensors of a layer that can be targets. In a layer with experts the dense net is the shared
 * expert, whose tensors have names of their own. */
static const struct target_row {
    enum adapter_target target;
    enum layer_tensor tensor, shared;
} rows[] = {
    {ADAPTER_Q, LAYER_Q, LAYER_Q},
    {ADAPTER_K, LAYER_K, LAYER_K},
    {ADAPTER_V, LAYER_V, LAYER_V},
    {ADAPTER_ATTN_OUT, LAYER_ATTN_OUT, LAYER_ATTN_OUT},
    {ADAPTER_GATE, LAYER_GATE, LAYER_GATE_SHARED},
    {ADAPTER_UP, LAYER_UP, LAYER_UP_SHARED},
    {ADAPTER_DOWN, LAYER_DOWN, LAYER_DOWN_SHARED},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

int adapter_fail(struct adapter_loading *l, int rc, const char *format, ...)
{
    const int n = snprintf(l->err, l->err_len, "%s: ", gguf_name(l->g));
    va_list args;

    va_start(args, format);
    if (n >= 0 && (size_t)n < l->err_len)
        vsnprintf(l->err + n, l->err_len - (size_t)n, format, args);
    va_end(args);
    return rc;
}

int adapter_fail_tensor(struct adapter_loading *l, int rc, const struct gguf_tensor *t,
                        const char *what)
{
    return adapter_fail(l, rc, "tensor '%.*s': %s", (int)t->name.len, t->name.data, what);
}

/* ---- keys of the file ---- */

static int check_text(struct adapter_loading *l, const char *key, const char *wanted)
{
    struct gguf_str found = {0};
    char shown[48];
    const int rc = gguf_get_str(l->g, key, &found, l->err, l->err_len);

    if (rc < 0 && rc != ERR_NOENT)
        return rc;
    if (rc == 0 && found.len == strlen(wanted) && memcmp(found.data, wanted, found.len) == 0)
        return 0;
    load_printable(shown, sizeof(shown), found);
    return adapter_fail(l, ERR_UNSUPPORTED, "key '%s': is '%s', but '%s' is expected", key, shown,
                        wanted);
}

static int check_kind(struct adapter_loading *l)
{
    const struct gguf_str arch = {l->m->arch, strlen(l->m->arch)};
    bool halves = false;
    int rc = check_text(l, "general.type", "adapter");

    if (rc == 0)
        rc = check_text(l, "adapter.type", "lora");
    if (rc == 0 && gguf_find(l->g, "general.architecture") != NULL)
        rc = check_text(l, "general.architecture", l->m->arch);
    if (rc < 0)
        return rc;
    if (l->m->shape.n_latent > 0)
        return adapter_fail(l, ERR_UNSUPPORTED,
                            "adapters for models with latent attention (%s) are not supported",
                            l->m->arch);
    rc = gguf_get_f32(l->g, "adapter.lora.alpha", &l->alpha, l->err, l->err_len);
    if (rc == ERR_FORMAT)
        return rc;
    rc = gguf_get_bool(l->g, "adapter.lora.halves", &halves, l->err, l->err_len);
    l->file_has_pairs = !halves;
    l->turns_rows = (traits_find(arch)->flags & TRAIT_PAIRED_ROWS) != 0 &&
                    l->file_has_pairs == l->m->shape.rope_neox;
    return rc == ERR_FORMAT ? rc : 0;
}

/* ---- pairs ---- */

static enum layer_tensor tensor_of(const struct model_layer *layer, const struct target_row *row)
{
    return matrix_exists(&layer->router) ? row->shared : row->tensor;
}

static const struct matrix *matrix_of(const struct model_layer *layer, enum layer_tensor t)
{
    return (const void *)((const char *)layer + traits_layer_tensor(t)->offset);
}

static const struct gguf_tensor *find_adapter_tensor(const struct adapter_loading *l,
                                                     uint32_t layer, const char *suffix, char which)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.%s.lora_%c", layer, suffix, which);
    return gguf_tensor_find(l->g, name);
}

static bool is_flat(const struct gguf_tensor *t, uint64_t n_in, uint64_t n_out)
{
    return t->dims[0] == n_in && t->dims[1] == n_out && t->dims[2] == 1 && t->dims[3] == 1;
}

/* Find where the rows of `t` are in the fused tensor `f`: they begin at row *row0 of *n_all. False:
 * `t` is not a part of `f`, or the layer lacks a part. */
static bool place_in(const struct model_layer *layer, const struct fused_row *f,
                     enum layer_tensor t, uint32_t *row0, uint32_t *n_all)
{
    bool has = false;

    *n_all = 0;
    for (int i = 0; i < f->n_parts; i++) {
        if (!traits_layer_tensor(f->parts[i])->is_matrix ||
            !matrix_exists(matrix_of(layer, f->parts[i])))
            return false;
        if (f->parts[i] == t) {
            *row0 = *n_all;
            has = true;
        }
        *n_all += matrix_of(layer, f->parts[i])->n_out;
    }
    return has;
}

/* Take A and B of the name `suffix`, B with n_all rows, for a target with the matrix `w`. *done:
 * both exist and fit. */
static int take_pair(struct adapter_loading *l, uint32_t layer, const char *suffix,
                     const struct matrix *w, uint32_t n_all, struct adapter_pair *to, bool *done)
{
    const struct gguf_tensor *a = find_adapter_tensor(l, layer, suffix, 'a'),
                             *b = find_adapter_tensor(l, layer, suffix, 'b');

    *done = false;
    if (a == NULL && b == NULL)
        return 0;
    if (a == NULL || b == NULL)
        return adapter_fail_tensor(l, ERR_FORMAT, a != NULL ? a : b,
                                   "has no counterpart (an adapter needs both lora_a and lora_b)");
    if (b->dims[1] != n_all)
        return 0; /* the tensors may belong to another part only */
    if (a->dims[1] < 1 || a->dims[1] > ADAPTER_MAX_RANK)
        return adapter_fail(l, ERR_UNSUPPORTED,
                            "tensor '%.*s': has rank %" PRIu64
                            ", but ranks of 1 to %d are supported",
                            (int)a->name.len, a->name.data, a->dims[1], ADAPTER_MAX_RANK);
    if (!is_flat(a, w->n_in, a->dims[1]) || !is_flat(b, a->dims[1], n_all))
        return adapter_fail(l, ERR_FORMAT,
                            "tensor '%.*s': has dimensions %" PRIu64 " x %" PRIu64
                            " and its counterpart %" PRIu64 " x %" PRIu64
                            ", but the model's matrix is %u x %u",
                            (int)a->name.len, a->name.data, a->dims[0], a->dims[1], b->dims[0],
                            b->dims[1], w->n_in, n_all);
    l->used[a - gguf_tensor_at(l->g, 0)] = l->used[b - gguf_tensor_at(l->g, 0)] = *done = true;
    *to = (struct adapter_pair){
        .a = a, .b = b, .n_in = w->n_in, .n_out = w->n_out, .rank = (uint32_t)a->dims[1]};
    return 0;
}

static int fail_rows(struct adapter_loading *l, const struct gguf_tensor *b, const struct matrix *w)
{
    return adapter_fail(l, ERR_FORMAT,
                        "tensor '%.*s': has %" PRIu64 " rows, but the model's matrix has %u",
                        (int)b->name.len, b->name.data, b->dims[1], w->n_out);
}

/* Find a target's own tensors, or its rows of the tensors that it shares with other targets. */
static int find_pair(struct adapter_loading *l, uint32_t layer, const struct target_row *row)
{
    const struct model_layer *of = &l->m->layers[layer];
    const enum layer_tensor t = tensor_of(of, row);
    const struct matrix *w = matrix_of(of, t);
    struct adapter_pair *to = &l->pairs[layer][row->target];
    const struct fused_row *f;
    uint32_t row0, n_all;
    bool done;
    int rc;

    if (!matrix_exists(w))
        return 0;
    rc = take_pair(l, layer, traits_layer_tensor(t)->suffix, w, w->n_out, to, &done);
    for (size_t i = 0; rc == 0 && !done && (f = traits_fused(i)) != NULL; i++) {
        if (!place_in(of, f, t, &row0, &n_all))
            continue;
        rc = take_pair(l, layer, f->suffix, w, n_all, to, &done);
        if (rc == 0 && done)
            to->row0 = row0;
    }
    if (rc == 0 && !done &&
        find_adapter_tensor(l, layer, traits_layer_tensor(t)->suffix, 'b') != NULL)
        return fail_rows(l, find_adapter_tensor(l, layer, traits_layer_tensor(t)->suffix, 'b'), w);
    return rc;
}

static int find_pairs(struct adapter_loading *l)
{
    int rc = 0;

    for (uint32_t i = 0; i < l->m->shape.n_layer; i++)
        for (size_t j = 0; j < N_ROWS && rc == 0; j++)
            rc = find_pair(l, i, &rows[j]);
    for (uint64_t i = 0; i < gguf_n_tensors(l->g) && rc == 0; i++)
        if (!l->used[i])
            rc = adapter_fail_tensor(
                l, ERR_UNSUPPORTED, gguf_tensor_at(l->g, i),
                "is not supported in an adapter for this model (attn_q, attn_k, attn_v, "
                "attn_output, ffn_gate, ffn_up and ffn_down of its layers are)");
    if (rc == 0 && gguf_n_tensors(l->g) == 0)
        rc = adapter_fail(l, ERR_FORMAT, "has no tensors");
    return rc;
}

/* ---- loading ---- */

static void count_params(struct adapter_loading *l)
{
    for (uint64_t i = 0; i < gguf_n_tensors(l->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(l->g, i);

        l->out->n_params += t->dims[0] * t->dims[1];
    }
}

/* If the file changed meanwhile, report that error, because it may have caused any other. */
static int load_adapter(struct adapter_loading *l)
{
    int rc = check_kind(l);

    if (rc == 0)
        rc = find_pairs(l);
    if (rc == 0)
        rc = adapter_pack(l);
    if (rc == 0)
        count_params(l);
    if (rc != ERR_CANCELED && rc != ERR_NOMEM &&
        gguf_check_unchanged(l->g, l->err, l->err_len) < 0)
        return ERR_IO;
    return rc;
}

int adapter_load(struct adapter **out, const struct gguf *g, const struct model *m,
                 const atomic_bool *canceled, char *err, size_t err_len)
{
    struct adapter_loading l = {
        .g = g, .m = m, .canceled = canceled, .err = err, .err_len = err_len};
    int rc = ERR_NOMEM;

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    l.out = mem_calloc(1, sizeof(*l.out));
    l.pairs = mem_calloc(m->shape.n_layer, sizeof(*l.pairs));
    l.used = mem_calloc(gguf_n_tensors(g) + 1, sizeof(*l.used));
    if (l.out != NULL) {
        atomic_init(&l.out->n_refs, 1);
        l.out->n_layer = m->shape.n_layer;
        l.out->layers = mem_calloc(m->shape.n_layer, sizeof(*l.out->layers));
    }
    if (l.out != NULL && l.out->layers != NULL && l.pairs != NULL && l.used != NULL)
        rc = load_adapter(&l);
    mem_free(l.pairs);
    mem_free(l.used);
    mem_free(l.row);
    if (rc < 0)
        adapter_unref(&l.out);
    *out = l.out;
    return rc;
}
