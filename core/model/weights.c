/* core/model/weights.c - from the names of tensors to places in the model (see load.h).
 *
 * Every tensor that the architecture has is looked up, checked against the shape, and given room.
 * A tensor of the file that nothing asked for is refused: what a model holds, it was trained with.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PANEL_ALIGN 64
#define FLOAT_ALIGN 16 /* floats: vectors begin on a cache line */

enum { TENSOR_REQUIRED = 0, TENSOR_OPTIONAL = 1 };

static enum kern_weight packed_type(enum block_type type)
{
    switch (type) {
    case BLOCK_F16:
        return KERN_F16;
    case BLOCK_BF16:
        return KERN_BF16;
    case BLOCK_Q8_0:
        return KERN_Q8_0;
    case BLOCK_Q4_0:
        return KERN_Q4_0;
    case BLOCK_Q4_K:
        return KERN_Q4_K;
    case BLOCK_Q6_K:
        return KERN_Q6_K;
    case BLOCK_Q4_1:
        return KERN_Q4_1;
    case BLOCK_Q5_0:
        return KERN_Q5_0;
    case BLOCK_Q5_1:
        return KERN_Q5_1;
    case BLOCK_Q5_K:
        return KERN_Q5_K;
    case BLOCK_Q3_K:
        return KERN_Q3_K;
    case BLOCK_Q2_K:
        return KERN_Q2_K;
    case BLOCK_IQ2_XXS:
        return KERN_IQ2_XXS;
    case BLOCK_IQ2_XS:
        return KERN_IQ2_XS;
    case BLOCK_IQ3_XXS:
        return KERN_IQ3_XXS;
    case BLOCK_IQ1_S:
        return KERN_IQ1_S;
    case BLOCK_IQ4_NL:
        return KERN_IQ4_NL;
    case BLOCK_IQ3_S:
        return KERN_IQ3_S;
    case BLOCK_IQ2_S:
        return KERN_IQ2_S;
    case BLOCK_IQ4_XS:
        return KERN_IQ4_XS;
    case BLOCK_IQ1_M:
        return KERN_IQ1_M;
    case BLOCK_TQ1_0:
        return KERN_TQ1_0;
    case BLOCK_TQ2_0:
        return KERN_TQ2_0;
    case BLOCK_MXFP4:
        return KERN_MXFP4;
    case BLOCK_F32:
        return KERN_F32;
    }
    return KERN_F32;
}

/* The tensor by its name, its shape checked; *t is NULL when it may be absent and is. */
static int find(struct load *l, const char *name, int need, uint64_t n_in, uint64_t n_out,
                const struct gguf_tensor **t)
{
    *t = gguf_tensor_find(l->g, name);
    if (*t == NULL)
        return need == TENSOR_OPTIONAL ? 0
                                       : load_fail(l, ERR_FORMAT, "tensor '%s' is missing", name);
    if ((*t)->dims[0] != n_in || (*t)->dims[1] != n_out || (*t)->dims[2] != 1 || (*t)->dims[3] != 1)
        return load_fail(l, ERR_FORMAT,
                         "tensor '%s': has dimensions %" PRIu64 " x %" PRIu64 " x %" PRIu64
                         " x %" PRIu64 ", but %" PRIu64 " x %" PRIu64 " is wanted",
                         name, (*t)->dims[0], (*t)->dims[1], (*t)->dims[2], (*t)->dims[3], n_in,
                         n_out);
    l->used[*t - gguf_tensor_at(l->g, 0)] = true;
    return 0;
}

static int add_matrix(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                      struct matrix *dst)
{
    const struct gguf_tensor *t;
    struct matrix_job *job = &l->matrices[l->n_matrices];
    const int rc = find(l, name, need, n_in, n_out, &t);

    if (rc < 0 || t == NULL)
        return rc;
    dst->type = packed_type(t->type);
    dst->n_in = n_in;
    dst->n_out = n_out;
    dst->n_panels = (n_out + KERN_LANES - 1) / KERN_LANES;
    dst->panel_bytes = kern_panel_bytes(dst->type, n_in);
    job->src = t;
    job->dst = dst;
    job->at = l->panel_bytes;
    l->panel_bytes +=
        ((uint64_t)dst->n_panels * dst->panel_bytes + PANEL_ALIGN - 1) / PANEL_ALIGN * PANEL_ALIGN;
    l->n_matrices++;
    return 0;
}

static int add_vector(struct load *l, const char *name, int need, uint32_t n, const float **dst)
{
    const struct gguf_tensor *t;
    struct vector_job *job = &l->vectors[l->n_vectors];
    const int rc = find(l, name, need, n, 1, &t);

    if (rc < 0 || t == NULL)
        return rc;
    if (t->type != BLOCK_F32 && t->type != BLOCK_F16 && t->type != BLOCK_BF16)
        return load_fail(l, ERR_UNSUPPORTED,
                         "tensor '%s': has type %s, but a vector must be F32, F16 or BF16", name,
                         block_format(t->type)->name);
    job->src = t;
    job->dst = dst;
    job->at = l->n_floats;
    l->n_floats += (n + FLOAT_ALIGN - 1) / FLOAT_ALIGN * FLOAT_ALIGN;
    l->n_vectors++;
    return 0;
}

static int add_layer(struct load *l, uint32_t i)
{
    const struct model_shape *s = &l->m->shape;
    char *layer = (char *)&l->m->layers[i];
    char name[GGUF_MAX_NAME];
    int rc = 0;

    for (int t = 0; t < LAYER_N_TENSOR && rc == 0; t++) {
        const struct layer_tensor_row *row = traits_layer_tensor((enum layer_tensor)t);
        const uint32_t n_in = traits_dim(s, row->n_in);
        void *dst = layer + row->offset;
        int need = TENSOR_REQUIRED;

        if ((l->traits->required >> t & 1) == 0) {
            if ((l->traits->optional >> t & 1) == 0)
                continue;
            need = TENSOR_OPTIONAL;
        }
        snprintf(name, sizeof(name), "blk.%u.%s", i, row->suffix);
        rc = row->is_matrix ? add_matrix(l, name, need, n_in, traits_dim(s, row->n_out), dst)
                            : add_vector(l, name, need, n_in, dst);
    }
    return rc;
}

static int check_all_used(struct load *l)
{
    for (uint64_t i = 0; i < gguf_n_tensors(l->g); i++) {
        const struct gguf_str name = gguf_tensor_at(l->g, i)->name;

        if (!l->used[i])
            return load_fail(l, ERR_UNSUPPORTED,
                             "tensor '%.*s' is no part of architecture %s as we compute it",
                             (int)name.len, name.data, l->traits->arch);
    }
    return 0;
}

static int make_room(struct load *l)
{
    const size_t n = (size_t)gguf_n_tensors(l->g); /* each becomes one job at most */

    l->matrices = mem_calloc(n + 1, sizeof(*l->matrices)); /* one past: for a job not taken */
    l->vectors = mem_calloc(n + 1, sizeof(*l->vectors));
    l->used = mem_calloc(n, sizeof(*l->used));
    l->m->layers = mem_calloc(l->m->shape.n_layer, sizeof(*l->m->layers));
    if (l->matrices == NULL || l->vectors == NULL || l->used == NULL || l->m->layers == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    return 0;
}

int load_weights(struct load *l)
{
    struct model *m = l->m;
    const struct model_shape *s = &m->shape;
    int rc = make_room(l);

    if (rc == 0)
        rc = add_matrix(l, "token_embd.weight", TENSOR_REQUIRED, s->n_embd, s->n_vocab, &m->embed);
    for (uint32_t i = 0; i < s->n_layer && rc == 0; i++)
        rc = add_layer(l, i);
    if (rc == 0)
        rc = add_vector(l, "output_norm.weight", TENSOR_REQUIRED, s->n_embd, &m->output_norm);
    if (rc == 0)
        rc = add_matrix(l, "output.weight", TENSOR_OPTIONAL, s->n_embd, s->n_vocab, &m->output);
    if (rc == 0)
        rc = add_vector(l, "rope_freqs.weight", TENSOR_OPTIONAL, s->n_rot / 2, &l->divisors);
    return rc == 0 ? check_all_used(l) : rc;
}

void load_weights_release(struct load *l)
{
    mem_free(l->matrices);
    mem_free(l->vectors);
    mem_free(l->used);
    l->matrices = NULL;
    l->vectors = NULL;
    l->used = NULL;
}
