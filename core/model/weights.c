/* core/model/weights.c - finds tensors by name and gives them to members of the model (see load.h).
 *
 * Every tensor that the architecture has is looked up, checked against the shape, and given its
 * place. A tensor of the file that nothing asked for is refused: the model was trained with it, and
 * ignoring it would give wrong answers.
 */
#include "core/model/weights.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PANEL_ALIGN 64
#define FLOAT_ALIGN 16 /* in floats: vectors begin on a cache line */

static enum kern_weight packed_type(enum block_type type)
{
    static const uint8_t packed[] = {
        [BLOCK_F32] = KERN_F32,       [BLOCK_F16] = KERN_F16,
        [BLOCK_BF16] = KERN_BF16,     [BLOCK_Q4_0] = KERN_Q4_0,
        [BLOCK_Q4_1] = KERN_Q4_1,     [BLOCK_Q5_0] = KERN_Q5_0,
        [BLOCK_Q5_1] = KERN_Q5_1,     [BLOCK_Q8_0] = KERN_Q8_0,
        [BLOCK_Q2_K] = KERN_Q2_K,     [BLOCK_Q3_K] = KERN_Q3_K,
        [BLOCK_Q4_K] = KERN_Q4_K,     [BLOCK_Q5_K] = KERN_Q5_K,
        [BLOCK_Q6_K] = KERN_Q6_K,     [BLOCK_IQ2_XXS] = KERN_IQ2_XXS,
        [BLOCK_IQ2_XS] = KERN_IQ2_XS, [BLOCK_IQ3_XXS] = KERN_IQ3_XXS,
        [BLOCK_IQ1_S] = KERN_IQ1_S,   [BLOCK_IQ4_NL] = KERN_IQ4_NL,
        [BLOCK_IQ3_S] = KERN_IQ3_S,   [BLOCK_IQ2_S] = KERN_IQ2_S,
        [BLOCK_IQ4_XS] = KERN_IQ4_XS, [BLOCK_IQ1_M] = KERN_IQ1_M,
        [BLOCK_TQ1_0] = KERN_TQ1_0,   [BLOCK_TQ2_0] = KERN_TQ2_0,
        [BLOCK_MXFP4] = KERN_MXFP4,   [BLOCK_NVFP4] = KERN_NVFP4,
        [BLOCK_Q1_0] = KERN_Q1_0,     [BLOCK_Q2_0] = KERN_Q2_0,
        [BLOCK_IQ2_K] = KERN_IQ2_K,   [BLOCK_IQ3_K] = KERN_IQ3_K,
        [BLOCK_IQ4_K] = KERN_IQ4_K,   [BLOCK_IQ5_K] = KERN_IQ5_K,
        [BLOCK_IQ6_K] = KERN_IQ6_K,   [BLOCK_IQ4_KS] = KERN_IQ4_KS,
        [BLOCK_IQ5_KS] = KERN_IQ5_KS,
    };

    return (enum kern_weight)packed[type];
}

/* ---- a tensor ---- */

bool tensor_has_extent(const struct gguf_tensor *t, struct extent e)
{
    return t->dims[0] == e.n_in && t->dims[1] == e.n_out && t->dims[2] == e.n_each &&
           t->dims[3] == 1;
}

int tensor_fail_extent(struct load *l, const char *name, const struct gguf_tensor *t,
                       struct extent e)
{
    char wanted[96];

    if (e.n_each > 1)
        snprintf(wanted, sizeof(wanted), "%" PRIu64 " x %" PRIu64 " x %" PRIu64, e.n_in, e.n_out,
                 e.n_each);
    else
        snprintf(wanted, sizeof(wanted), "%" PRIu64 " x %" PRIu64, e.n_in, e.n_out);
    return load_fail(l, ERR_FORMAT,
                     "tensor '%s': has dimensions %" PRIu64 " x %" PRIu64 " x %" PRIu64
                     " x %" PRIu64 ", but %s is expected",
                     name, t->dims[0], t->dims[1], t->dims[2], t->dims[3], wanted);
}

/* Find a tensor by its name and check its extent; *t is NULL if it is optional and absent. */
static int find_tensor(struct load *l, const char *name, int need, struct extent e,
                       const struct gguf_tensor **t)
{
    *t = gguf_tensor_find(l->g, name);
    if (*t == NULL)
        return need == TENSOR_OPTIONAL ? 0
                                       : load_fail(l, ERR_FORMAT, "tensor '%s' is missing", name);
    if (!tensor_has_extent(*t, e))
        return tensor_fail_extent(l, name, *t, e);
    l->used[*t - gguf_tensor_at(l->g, 0)] = true;
    return 0;
}

/* True: quantisers would quantise this matrix. */
static bool may_be_quantised(const struct gguf_tensor *t)
{
    static const char *const kept[] = {"ffn_gate_inp", "position_embd", "altup_router", "_coef"};

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (memmem(t->name.data, t->name.len, kept[i], strlen(kept[i])) != NULL)
            return false;
    return t->dims[0] % block_format(BLOCK_Q8_0)->elems == 0;
}

static bool is_called(const struct gguf_tensor *t, const char *name)
{
    return t->name.len == strlen(name) && memcmp(t->name.data, name, t->name.len) == 0;
}

static bool is_mtp_output(const struct gguf_tensor *t)
{
    static const char end[] = "nextn.shared_head_head.weight";

    return memmem(t->name.data, t->name.len, end, sizeof(end) - 1) != NULL;
}

/* True: the matrix makes the logits, where errors matter most. */
static bool is_output(const struct load *l, const struct gguf_tensor *t)
{
    return is_called(t, "output.weight") || is_mtp_output(t) ||
           (is_called(t, "token_embd.weight") && gguf_tensor_find(l->g, "output.weight") == NULL);
}

/* Return the type that a matrix of floats is quantised to. */
static enum kern_weight small_type(const struct load *l, const struct gguf_tensor *t)
{
    enum block_type type = l->load_type;

    if (type == BLOCK_Q4_0 && is_output(l, t))
        type = BLOCK_Q6_K;
    return packed_type(t->dims[0] % block_format(type)->elems == 0 ? type : BLOCK_Q8_0);
}

/* Return the type of a matrix's panels: its tensor's, or load_type's; for a transposed one F16 if
 * the tensor is quantised (a block's scales go along its rows, so codes cannot be transposed). */
static enum kern_weight job_type(const struct load *l, const struct matrix_job *job)
{
    const enum kern_weight type = packed_type(job->src->type);

    if (l->load_type != BLOCK_F32 && !job->is_transposed && !kern_weight_is_quantised(type) &&
        may_be_quantised(job->src))
        return small_type(l, job->src);
    return job->is_transposed && kern_weight_is_quantised(type) ? KERN_F16 : type;
}

/* Add X.scale, if the file has it: a factor of products with X.weight, or one for each expert.
 * Embeddings are only looked up, so they have none. */
static int add_scale(struct load *l, const struct matrix_job *job)
{
    static const char weight[] = ".weight";
    const struct gguf_str whole = job->src->name;
    const size_t n = whole.len - (sizeof(weight) - 1);
    const uint32_t n_scale = (uint32_t)job->src->dims[2];
    const struct gguf_tensor *t;
    char name[GGUF_MAX_NAME];

    if (whole.len < sizeof(weight) || memcmp(whole.data + n, weight, sizeof(weight) - 1) != 0 ||
        job->dst == &l->m->embed || job->dst == &l->m->mtp.embed)
        return 0;
    if ((l->traits->experts & EXPERT_TRAIT_APART) != 0 &&
        memmem(whole.data, n, "ffn_gate_inp", 12) != NULL)
        return 0; /* the name is that of a norm: LAYER_ROUTER_NORM */
    snprintf(name, sizeof(name), "%.*s.scale", (int)n, whole.data);
    t = gguf_tensor_find(l->g, name);
    if (t == NULL)
        return 0;
    if (!tensor_has_extent(t, (struct extent){n_scale, 1, 1}))
        return tensor_fail_extent(l, name, t, (struct extent){n_scale, 1, 1});
    l->used[t - gguf_tensor_at(l->g, 0)] = true;
    job->dst->n_scale = n_scale;
    return weights_add_vector_job(
        l, (struct vector_job){.src = t, .dst = &job->dst->scale, .n = n_scale, .n_rows = 1});
}

/* Return the most panels of a matrix in one part. */
static uint32_t panels_of_part(const struct matrix *m)
{
    const uint32_t n_pairs = (m->n_panels + 1) / 2;

    return m->n_parts <= 1 ? m->n_panels : 2 * ((n_pairs + m->n_parts - 1) / m->n_parts);
}

int weights_add_matrix_job(struct load *l, struct matrix_job job, uint32_t n_in, uint32_t n_out,
                          uint32_t n_each)
{
    struct matrix *dst = job.dst;

    *dst =
        (struct matrix){.type = job_type(l, &job), .n_in = n_in, .n_out = n_out, .n_each = n_each};
    dst->n_panels = n_out / KERN_LANES + (n_out % KERN_LANES != 0);
    dst->panel_bytes = kern_panel_bytes(dst->type, n_in);
    dst->n_parts = l->n_parts;
    dst->part_panels = panels_of_part(dst);
    job.at = l->panel_bytes;
    l->panel_bytes += ((uint64_t)n_each * dst->part_panels * dst->panel_bytes + PANEL_ALIGN - 1) /
                      PANEL_ALIGN * PANEL_ALIGN;
    l->matrices[l->n_matrices++] = job;
    return add_scale(l, &job);
}

int weights_find(struct load *l, uint32_t layer, const char *suffix, int need, struct extent e,
                 const struct gguf_tensor **t)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.%s", layer, suffix);
    return find_tensor(l, name, need, e, t);
}

int weights_add_matrices(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                         uint32_t n_each, struct matrix *dst)
{
    const struct gguf_tensor *t;
    const int rc = find_tensor(l, name, need, (struct extent){n_in, n_out, n_each}, &t);

    if (rc < 0 || t == NULL)
        return rc;
    return weights_add_matrix_job(
        l, (struct matrix_job){.src = t, .dst = dst, .row_stride = n_each > 1 ? n_out : 0}, n_in,
        n_out, n_each);
}

int weights_add_matrix(struct load *l, const char *name, int need, uint32_t n_in, uint32_t n_out,
                       struct matrix *dst)
{
    return weights_add_matrices(l, name, need, n_in, n_out, 1, dst);
}

/* Return the floats that a job's vector takes, padding included. */
static size_t vector_floats(const struct vector_job *job)
{
    switch (job->layout) {
    case VECTOR_ROWS:
        return (size_t)job->n * job->n_rows;
    case VECTOR_TRANSPOSED:
        return (size_t)job->n * job->stride;
    case VECTOR_PANELS:
        return kern_state_floats(job->n, job->n_rows);
    case VECTOR_REPEATED:
        return (size_t)job->n * job->n_rows * job->stride;
    }
    return 0;
}

int weights_add_vector_job(struct load *l, struct vector_job job)
{
    const enum block_type type = job.src->type;

    if (type != BLOCK_F32 && type != BLOCK_F16 && type != BLOCK_BF16)
        return load_fail(l, ERR_UNSUPPORTED,
                         "tensor '%.*s': has type %s, but a vector must be F32, F16 or BF16",
                         (int)job.src->name.len, job.src->name.data, block_format(type)->name);
    if (job.dst != NULL) {
        job.at = l->n_floats;
        l->n_floats += (vector_floats(&job) + FLOAT_ALIGN - 1) / FLOAT_ALIGN * FLOAT_ALIGN;
    }
    l->vectors[l->n_vectors++] = job;
    return 0;
}

int weights_add_vector(struct load *l, const char *name, int need, uint32_t n, const float **dst)
{
    const struct gguf_tensor *t;
    const int rc = find_tensor(l, name, need, (struct extent){n, 1, 1}, &t);

    if (rc < 0 || t == NULL)
        return rc;
    return weights_add_vector_job(l,
                                  (struct vector_job){.src = t, .dst = dst, .n = n, .n_rows = 1});
}

int weights_add_layer_matrix(struct load *l, uint32_t layer, const char *suffix, uint32_t n_in,
                             uint32_t n_out, struct matrix *dst)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.%s", layer, suffix);
    return weights_add_matrix(l, name, TENSOR_REQUIRED, n_in, n_out, dst);
}

int weights_add_layer_vector(struct load *l, uint32_t layer, const char *suffix, int need,
                             uint32_t n, const float **dst)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.%s", layer, suffix);
    return weights_add_vector(l, name, need, n, dst);
}

/* ---- the tensors of a layer ---- */

static struct extent extent_of(const struct load *l, uint32_t layer, enum layer_tensor t)
{
    const struct model_shape s = load_shape_of_layer(l, layer);
    const struct layer_tensor_row *row = traits_layer_tensor(t);

    return (struct extent){
        .n_in = traits_dim(&s, row->n_in),
        .n_out = traits_dim(&s, row->n_out),
        .n_each = row->is_matrix ? traits_dim(&s, row->n_each) : 1,
    };
}

/* Add rows (elements, if it is a vector) of a fused tensor, from `first` on, as the layer's tensor
 * `t`. */
static int add_matrix_part(struct load *l, uint32_t layer, enum layer_tensor t,
                           const struct gguf_tensor *src, uint64_t first)
{
    const struct layer_tensor_row *row = traits_layer_tensor(t);
    const struct extent e = extent_of(l, layer, t);
    void *dst = (char *)&l->m->layers[layer] + row->offset;

    l->used[src - gguf_tensor_at(l->g, 0)] = true;
    if (!row->is_matrix)
        return weights_add_vector_job(l, (struct vector_job){.src = src,
                                                             .dst = dst,
                                                             .first = (uint32_t)first,
                                                             .n = (uint32_t)e.n_in,
                                                             .n_rows = (uint32_t)e.n_out});
    return weights_add_matrix_job(
        l,
        (struct matrix_job){
            .src = src, .dst = dst, .row0 = (uint32_t)first, .row_stride = (uint32_t)src->dims[1]},
        (uint32_t)e.n_in, (uint32_t)e.n_out, (uint32_t)e.n_each);
}

const struct gguf_tensor *weights_in_layer(const struct load *l, uint32_t layer,
                                               const char *suffix)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.%s", layer, suffix);
    return gguf_tensor_find(l->g, name);
}

/* Return the extent of the fused tensor `f`; *first: the row where part `t` begins. */
static struct extent fused_extent(const struct load *l, const struct fused_row *f, uint32_t layer,
                                  enum layer_tensor t, uint64_t *first)
{
    struct extent sum = extent_of(l, layer, f->parts[0]);
    const bool is_matrix = traits_layer_tensor(t)->is_matrix;
    uint64_t n = 0;

    for (int i = 0; i < f->n_parts; i++) {
        const struct extent e = extent_of(l, layer, f->parts[i]);

        if (f->parts[i] == t)
            *first = n;
        n += is_matrix ? e.n_out : e.n_in;
    }
    if (is_matrix)
        sum.n_out = n;
    else
        sum.n_in = n;
    return sum;
}

/* True: a part of `f` has a tensor of its own, with another name than the fused one. */
static bool has_own(const struct load *l, const struct fused_row *f, uint32_t layer)
{
    for (int i = 0; i < f->n_parts; i++) {
        const char *suffix = traits_layer_tensor(f->parts[i])->suffix;

        if (strcmp(suffix, f->suffix) != 0 && weights_in_layer(l, layer, suffix) != NULL)
            return true;
    }
    return false;
}

/* Return the file's fused tensor that contains `t`, or NULL. */
static const struct gguf_tensor *find_fused(const struct load *l, struct traits_tensors set,
                                            uint32_t layer, enum layer_tensor t, uint64_t *first)
{
    const struct fused_row *f;

    for (size_t i = 0; (f = traits_fused(i)) != NULL; i++) {
        const struct gguf_tensor *src;
        bool has_all = true, has_t = false;

        for (int j = 0; j < f->n_parts; j++) {
            has_all &= ((set.required | set.optional) >> f->parts[j] & 1) != 0;
            has_t |= f->parts[j] == t;
        }
        if (!has_all || !has_t || (src = weights_in_layer(l, layer, f->suffix)) == NULL)
            continue;
        if (tensor_has_extent(src, fused_extent(l, f, layer, t, first)) && !has_own(l, f, layer))
            return src;
    }
    return NULL;
}

static int add_layer_tensor(struct load *l, struct traits_tensors set, uint32_t layer,
                            enum layer_tensor t)
{
    const struct layer_tensor_row *row = traits_layer_tensor(t);
    const struct gguf_tensor *src = weights_in_layer(l, layer, row->suffix);
    char name[GGUF_MAX_NAME];
    uint64_t first = 0;

    if (src != NULL && tensor_has_extent(src, extent_of(l, layer, t)))
        return add_matrix_part(l, layer, t, src, 0);
    snprintf(name, sizeof(name), "blk.%u.%s", layer, row->suffix);
    if (src != NULL && find_fused(l, set, layer, t, &first) == NULL)
        return tensor_fail_extent(l, name, src, extent_of(l, layer, t));
    src = find_fused(l, set, layer, t, &first);
    if (src != NULL)
        return add_matrix_part(l, layer, t, src, first);
    return (set.required >> t & 1) == 0 ? 0
                                        : load_fail(l, ERR_FORMAT, "tensor '%s' is missing", name);
}

static bool layer_has_experts(const struct load *l, uint32_t i)
{
    if (l->m->shape.n_expert == 0 || !l->m->layers[i].has_ffn)
        return false;
    if ((l->traits->experts & EXPERT_TRAIT_BY_ROUTER) != 0)
        return weights_in_layer(l, i, "ffn_gate_inp.weight") != NULL;
    return i >= l->n_dense_lead &&
           (l->expert_period == 0 || i % l->expert_period == l->expert_at);
}

/* Choose the name of the norm before the net: in some files it has an ending. */
static void name_ffn_norm(const struct load *l, uint32_t i, struct traits_tensors *set)
{
    const tensor_set bare = (tensor_set)1 << LAYER_FFN_NORM_BARE;
    const char *suffix = traits_layer_tensor(LAYER_FFN_NORM_BARE)->suffix;

    if ((set->required & bare) == 0 || weights_in_layer(l, i, suffix) != NULL)
        return;
    set->required &= ~bare;
    set->required |= (tensor_set)1 << LAYER_FFN_NORM;
}

static int add_layer_tensors(struct load *l, uint32_t i)
{
    const struct model_shape *s = &l->m->shape;
    const struct model_layer *to = &l->m->layers[i];
    const bool has_experts = layer_has_experts(l, i);
    struct traits_tensors set = traits_tensors(l->traits, s, i, to, has_experts);
    tensor_set done = 0;
    int rc = 0;

    name_ffn_norm(l, i, &set);
    if (to->has_ffn && !has_experts && to->n_ff == 0)
        return load_fail(l, ERR_FORMAT, "key '%s.feed_forward_length' is missing",
                         l->traits->arch);
    if (to->has_attention)
        rc = weights_add_attention(l, i, &done);
    if (rc == 0 && to->recurrent != RECURRENT_NONE)
        rc = weights_add_recurrent(l, i);
    set.required &= ~done;
    set.optional &= ~done;
    for (int t = 0; t < LAYER_N_TENSOR && rc == 0; t++)
        if (((set.required | set.optional) >> t & 1) != 0)
            rc = add_layer_tensor(l, set, i, (enum layer_tensor)t);
    return rc;
}

/* Add a layer: its sizes, the place of its state, and its tensors. */
static int add_layer(struct load *l, uint32_t i)
{
    struct model *m = l->m;
    const int rc = load_layer_shape(l, i);

    if (rc < 0)
        return rc;
    m->layers[i].state_at = m->state_floats;
    if (m->layers[i].recurrent != RECURRENT_NONE)
        m->state_floats += m->shape.recurrent.layer_floats;
    return add_layer_tensors(l, i);
}

/* True: the tensor is X.input_scale, for activations in 4 bits, which are not used here. */
static bool is_input_scale(struct gguf_str name)
{
    static const char end[] = ".input_scale";
    const size_t n = sizeof(end) - 1;

    return name.len > n && memcmp(name.data + name.len - n, end, n) == 0;
}

/* Return N of "blk.N.SUFFIX" and set *suffix, or UINT32_MAX. */
static uint32_t layer_in(struct gguf_str name, struct gguf_str *suffix)
{
    uint32_t layer = 0;
    size_t i = 4;

    if (name.len < 6 || memcmp(name.data, "blk.", 4) != 0)
        return UINT32_MAX;
    for (; i < name.len && name.data[i] >= '0' && name.data[i] <= '9' && layer < 10000; i++)
        layer = 10 * layer + (uint32_t)(name.data[i] - '0');
    if (i == 4 || i >= name.len || name.data[i] != '.')
        return UINT32_MAX;
    *suffix = (struct gguf_str){name.data + i + 1, name.len - i - 1};
    return layer;
}

/* True: no computation needs the tensor: it belongs to a guessing layer that is not loaded, or
 * makes keys and values of a layer that uses those of another. */
static bool is_left(const struct load *l, struct gguf_str name)
{
    static const char *const kv[] = {"attn_k.", "attn_v.", "attn_k_norm."};
    const struct model_shape *s = &l->m->shape;
    struct gguf_str suffix = {0};
    const uint32_t layer = layer_in(name, &suffix);

    if (layer >= s->n_layer)
        return layer >= model_n_layers(l->m) && layer < s->n_layer + l->n_nextn;
    for (size_t i = 0; i < sizeof(kv) / sizeof(kv[0]); i++)
        if (l->m->layers[layer].shares_kv && suffix.len > strlen(kv[i]) &&
            memcmp(suffix.data, kv[i], strlen(kv[i])) == 0)
            return true;
    return false;
}

static int check_all_used(struct load *l)
{
    for (uint64_t i = 0; i < gguf_n_tensors(l->g); i++) {
        const struct gguf_str name = gguf_tensor_at(l->g, i)->name;

        if (!l->used[i] && !is_input_scale(name) && !is_left(l, name))
            return load_fail(l, ERR_UNSUPPORTED,
                             "tensor '%.*s' is not supported for architecture %s", (int)name.len,
                             name.data, l->traits->arch);
    }
    return 0;
}

static int grow_matrices(struct load *l)
{
    const size_t n = (size_t)gguf_n_tensors(l->g);
    const size_t most = TENSOR_MAX_JOBS * n; /* most jobs that the tensors become */

    l->matrices = mem_calloc(most, sizeof(*l->matrices));
    l->vectors = mem_calloc(most, sizeof(*l->vectors));
    l->used = mem_calloc(n, sizeof(*l->used));
    l->m->layers = mem_calloc(model_n_layers(l->m), sizeof(*l->m->layers));
    if (l->matrices == NULL || l->vectors == NULL || l->used == NULL || l->m->layers == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    return 0;
}

int load_weights(struct load *l)
{
    struct model *m = l->m;
    const struct model_shape *s = &m->shape;
    int rc = grow_matrices(l);

    if (rc == 0)
        rc = weights_add_matrix(l, "token_embd.weight", TENSOR_REQUIRED, s->n_embd, s->n_vocab,
                                &m->embed);
    if (rc == 0 && s->n_per_layer > 0)
        rc = weights_add_per_layer(l);
    if (rc == 0 && (l->traits->flags & TRAIT_LEARNED_POS) != 0)
        rc = weights_add_matrix(l, "position_embd.weight", TENSOR_REQUIRED, s->n_embd,
                                s->n_ctx_train, &m->pos_embed);
    for (uint32_t i = 0; i < model_n_layers(m) && rc == 0; i++)
        rc = add_layer(l, i);
    if (rc == 0)
        rc = weights_add_ends(l);
    if (rc == 0 && m->has_mtp)
        rc = weights_add_mtp(l);
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
