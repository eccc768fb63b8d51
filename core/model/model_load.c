/* core/model/model_load.c - loading a model step by step (see load.h), and freeing it.
 *
 * load_weights() has given every matrix and vector an offset, so two mappings take everything, and
 * pointers are set before a byte is read. only_plan stops there: the same code that loads a model
 * computes how much memory it will take. Vectors are decoded by the loading thread; panels come
 * from the weight cache or from the packing threads. The file is checked at the end, because pages
 * of a truncated mapping read as zeros.
 */
#include "core/model/model.h"

#include "core/base/err.h"
#include "core/base/file_stem.h"
#include "core/base/hold.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/numa.h"
#include "core/model/load.h"
#include "core/model/pack.h"
#include "core/model/weight_cache.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct arena {
    void *panels;
    size_t panel_bytes;
    float *floats; /* vectors, then the rope tables */
    size_t float_bytes;
    struct weight_cache_writer *writer; /* writes the panels to the cache, or NULL */
};

int load_fail(struct load *l, int rc, const char *format, ...)
{
    va_list args;
    const int n = snprintf(l->err, l->err_len, "%s: ", gguf_name(l->g));

    va_start(args, format);
    if (n >= 0 && (size_t)n < l->err_len)
        vsnprintf(l->err + n, l->err_len - (size_t)n, format, args);
    va_end(args);
    return rc;
}

void load_printable(char *dst, size_t size, struct gguf_str s)
{
    size_t n = 0;

    for (; n < s.len && n + 1 < size; n++)
        dst[n] = s.data[n] >= 0x20 && s.data[n] <= 0x7e ? s.data[n] : '?';
    dst[n] = '\0';
}

/* Set the model's name: general.name, or the file's name without folder and ".gguf". */
static int set_name(struct load *l)
{
    struct gguf_str name = {0};
    const int rc = gguf_get_str(l->g, "general.name", &name, l->err, l->err_len);

    if (rc < 0 && rc != ERR_NOENT)
        return rc;
    if (name.len == 0)
        name.len = file_stem(gguf_name(l->g), &name.data);
    load_printable(l->m->name, sizeof(l->m->name), name);
    return 0;
}

static void set_totals(struct load *l)
{
    static const enum block_type types[] = {
        BLOCK_F32,   BLOCK_F16,    BLOCK_BF16,    BLOCK_Q4_0,   BLOCK_Q4_1,
        BLOCK_Q5_0,  BLOCK_Q5_1,   BLOCK_Q8_0,    BLOCK_Q2_K,   BLOCK_Q3_K,
        BLOCK_Q4_K,  BLOCK_Q5_K,   BLOCK_Q6_K,    BLOCK_IQ4_NL, BLOCK_IQ4_XS,
        BLOCK_MXFP4, BLOCK_TQ2_0,  BLOCK_TQ1_0,   BLOCK_IQ3_S,  BLOCK_IQ3_XXS,
        BLOCK_IQ2_S, BLOCK_IQ2_XS, BLOCK_IQ2_XXS, BLOCK_IQ1_S,  BLOCK_IQ1_M,
        BLOCK_NVFP4, BLOCK_Q1_0,   BLOCK_Q2_0,    BLOCK_IQ2_K,  BLOCK_IQ3_K,
        BLOCK_IQ4_K, BLOCK_IQ5_K,  BLOCK_IQ6_K,   BLOCK_IQ4_KS, BLOCK_IQ5_KS};
    struct model *m = l->m;
    uint64_t most = 0;

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < l->n_matrices; i++)
            if (pack_job_type(&l->matrices[i]) == types[t])
                bytes += pack_job_bytes(&l->matrices[i]);
        if (bytes > most)
            snprintf(m->ftype, sizeof(m->ftype), "%s", block_format(types[t])->name);
        most = bytes > most ? bytes : most;
    }
    for (uint64_t i = 0; i < gguf_n_tensors(l->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(l->g, i);

        m->n_params += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    m->file_bytes = gguf_file_bytes(l->g);
    m->weight_bytes = (uint64_t)l->n_parts * l->panel_bytes + (uint64_t)l->n_floats * sizeof(float);
    m->table_bytes = ((const struct arena *)m->arena)->float_bytes - l->n_floats * sizeof(float);
}

static size_t rope_floats(const struct rope_options *r)
{
    return (size_t)r->n_ctx * (r->n_rot / 2); /* floats of the cosines; the sines take as many */
}

/* Place every rope table after the vectors. */
static void place_ropes(struct load *l)
{
    const struct arena *a = l->m->arena;
    const float *at = a->floats + l->n_floats;

    for (int i = 0; i < MODEL_N_ROPE; i++) {
        const size_t n = rope_floats(&l->ropes[i]);

        l->m->ropes[i] = (struct rope_table){n > 0 ? at : NULL, n > 0 ? at + n : NULL};
        at += 2 * n;
    }
}

/* Give the guessing layer the model's embedding, norm and output, unless the file has others for
 * it. */
static void share_ends(struct model *m)
{
    struct model_mtp *mtp = &m->mtp;

    if (!m->has_mtp)
        return;
    if (!matrix_exists(&mtp->embed))
        mtp->embed = m->embed;
    if (mtp->output_norm.weight == NULL)
        mtp->output_norm = m->output_norm;
    if (!matrix_exists(&mtp->output))
        mtp->output = m->output;
}

/* Return the bytes of a part: whole huge pages, because a page lies on one node. */
static size_t part_stride(const struct load *l)
{
    const size_t bytes = (size_t)l->panel_bytes;

    return l->n_parts > 1 ? (bytes + MEM_HUGE_PAGE - 1) & ~(MEM_HUGE_PAGE - 1) : bytes;
}

/* Take the two mappings and set the pointer of every matrix and vector. */
static int take_arena(struct load *l)
{
    struct model *m = l->m;
    const size_t tables = rope_floats(&l->ropes[0]) + rope_floats(&l->ropes[1]);
    struct arena *a = mem_calloc(1, sizeof(*a));

    m->arena = a;
    if (a == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    a->panel_bytes = l->n_parts * part_stride(l);
    a->float_bytes = (l->n_floats + 2 * tables) * sizeof(float);
    a->panels = mem_map(a->panel_bytes);
    a->floats = mem_map(a->float_bytes);
    if (a->panels == NULL || a->floats == NULL)
        return load_fail(l, ERR_NOMEM, "no memory for %zu bytes of weights and %zu of tables",
                         a->panel_bytes, a->float_bytes);
    (void)numa_place(l->numa, a->panels, a->panel_bytes);
    (void)numa_spread(l->numa, a->floats, a->float_bytes);
    for (size_t i = 0; i < l->n_matrices; i++) {
        l->matrices[i].dst->data = (const uint8_t *)a->panels + l->matrices[i].at;
        l->matrices[i].dst->part_stride = part_stride(l);
    }
    for (size_t i = 0; i < l->n_vectors; i++)
        if (l->vectors[i].dst != NULL)
            *l->vectors[i].dst = a->floats + l->vectors[i].at;
    if (!matrix_exists(&m->output) && !m->shape.is_encoder)
        m->output = m->embed; /* tied embeddings */
    share_ends(m);
    place_ropes(l);
    return 0;
}

static int fail_not_finite(struct load *l, const struct gguf_tensor *t)
{
    return load_fail(l, ERR_FORMAT, "tensor '%.*s': contains a number that is not finite",
                     (int)t->name.len, t->name.data);
}

/* Write element j of row i to its place in the vector's layout. */
static void place_number(const struct vector_job *job, float *to, size_t i, size_t j, float v)
{
    switch (job->layout) {
    case VECTOR_ROWS:
        to[i * job->n + j] = v;
        break;
    case VECTOR_TRANSPOSED:
        to[j * job->stride + i] = v;
        break;
    case VECTOR_PANELS:
        to[(i / KERN_LANES * job->n + j) * KERN_LANES + i % KERN_LANES] = v;
        break;
    case VECTOR_REPEATED:
        for (size_t n = 0; n < job->stride; n++)
            to[(i * job->n + j) * job->stride + n] = v;
        break;
    }
}

/* Decode elements first .. first + n - 1 of row i into the vector; the types' blocks have one
 * element, so any may be the first. `room` is for rows that a recipe makes. */
static int decode_vector_row(struct load *l, const struct vector_job *job, uint32_t i,
                             uint8_t *room)
{
    const struct arena *a = l->m->arena;
    const struct gguf_tensor *t = job->src;
    const size_t elem = block_format(t->type)->bytes;
    const uint8_t *row = gguf_row(t, job->row0 + i, room) + job->first * elem;

    assert(t->recipe == NULL || job->first + job->n <= t->dims[0]);
    for (uint32_t j = 0; j < job->n; j++) {
        float v;

        block_decode(t->type, row + j * elem, &v, 1);
        if (!isfinite(v))
            return fail_not_finite(l, t);
        if (job->is_rate && v > 0.0f)
            return load_fail(l, ERR_FORMAT,
                             "tensor '%.*s': contains %g, but its numbers must not be above 0",
                             (int)t->name.len, t->name.data, (double)v);
        place_number(job, a->floats + job->at, i, j, v);
    }
    return 0;
}

static int decode_vector(struct load *l, const struct vector_job *job)
{
    uint8_t *room = NULL;
    int rc = 0;

    if (job->src->recipe != NULL) {
        room = mem_alloc((size_t)gguf_row_bytes(job->src));
        if (room == NULL)
            return load_fail(l, ERR_NOMEM, "out of memory");
    }
    for (uint32_t row = 0; row < job->n_rows && rc == 0; row++)
        rc = decode_vector_row(l, job, row, room);
    mem_free(room);
    return rc;
}

static int decode_vectors(struct load *l)
{
    int rc = 0;

    for (size_t i = 0; i < l->n_vectors && rc == 0; i++)
        rc = decode_vector(l, &l->vectors[i]);
    return rc;
}

static int fill_ropes(struct load *l)
{
    const struct arena *a = l->m->arena;
    float *at = a->floats + l->n_floats;

    for (uint32_t j = 0; l->divisors != NULL && j < l->ropes[0].n_rot / 2; j++)
        if (!(l->divisors[j] > 0.0f))
            return load_fail(l, ERR_FORMAT,
                             "tensor '%s': contains %g, but its numbers must be above 0",
                             l->divisors_name, (double)l->divisors[j]);
    l->ropes[0].divisors = l->divisors;
    for (int i = 0; i < MODEL_N_ROPE; i++) {
        const size_t n = rope_floats(&l->ropes[i]);

        if (n > 0)
            rope_tables(&l->ropes[i], at, at + n);
        at += 2 * n;
    }
    return 0;
}

/* Return the last of the first n layers with the same window and rope table as layer i. */
static uint32_t owner_of(const struct model *m, uint32_t n, uint32_t i)
{
    const struct model_layer *of = &m->layers[i];
    uint32_t j = n;

    while (j > 0 && (m->layers[j - 1].window != of->window || m->layers[j - 1].rope != of->rope))
        j--;
    return j > 0 ? j - 1 : UINT32_MAX;
}

/* Assign cache groups to those of the first n layers that have attention; a model may have none. */
static void assign_groups(struct model *m, uint32_t n, uint32_t *windows,
                          struct kv_location *places)
{
    uint32_t n_kv = 0;

    for (uint32_t i = 0; i < n; i++)
        if (m->layers[i].has_attention)
            windows[n_kv++] = m->shape.is_encoder ? 0 : m->layers[i].window;
    if (n_kv > 0)
        kv_groups_assign(windows, n_kv, &m->groups, places);
    else
        m->groups = (struct kv_groups){.n = 1};
    for (uint32_t i = 0, at = 0; i < n; i++)
        if (m->layers[i].has_attention)
            m->layers[i].kv = places[at++];
}

/* Group the layers that have keys and values by how long they keep blocks; an encoder keeps all.
 * ERR_FORMAT: a layer shares keys and values, but no earlier layer has the same window and rope
 * table. */
static int assign_layers(struct model *m)
{
    const uint32_t n_layer = model_n_layers(m), n = n_layer - m->shape.n_shared_kv;
    uint32_t *windows = mem_calloc(n, sizeof(*windows));
    struct kv_location *places = mem_calloc(n, sizeof(*places));
    int rc = windows != NULL && places != NULL ? 0 : ERR_NOMEM;

    if (rc == 0)
        assign_groups(m, n, windows, places);
    for (uint32_t i = n; rc == 0 && i < n_layer; i++) {
        const uint32_t owner = owner_of(m, n, i);

        if (owner == UINT32_MAX)
            rc = ERR_FORMAT;
        else
            m->layers[i].kv = m->layers[owner].kv;
    }
    mem_free(windows);
    mem_free(places);
    return rc;
}

/* Check norms that files may leave out: in all layers or in none, and a bias only with its norm. */
static int check_norms(struct load *l, uint32_t i)
{
    const struct model_layer *layer = &l->m->layers[i], *first = &l->m->layers[0];
    const bool both_have_ffn = layer->has_ffn && first->has_ffn;

    if ((layer->attn_norm.weight == NULL && layer->attn_norm.bias != NULL) ||
        (layer->ffn_norm.weight == NULL && layer->ffn_norm.bias != NULL) ||
        (layer->q_norm.weight == NULL && layer->q_norm.bias != NULL) ||
        (layer->k_norm.weight == NULL && layer->k_norm.bias != NULL) ||
        (layer->attn_input_norm.weight == NULL && layer->attn_input_norm.bias != NULL) ||
        (both_have_ffn && (layer->ffn_norm.weight == NULL) != (first->ffn_norm.weight == NULL)))
        return load_fail(l, ERR_FORMAT,
                         "layer %u has other norms than layer 0, or a bias without its norm", i);
    return 0;
}

/* Check that grok's norm of the experts' output is there under one of its two names, and that keys
 * that serve as values are as long as values. */
static int check_tensors(struct load *l, uint32_t i)
{
    const struct model_layer *layer = &l->m->layers[i];

    if (l->m->shape.n_latent == 0 && layer->has_attention && !layer->shares_kv &&
        !matrix_exists(&layer->v) && layer->key_dim != layer->value_dim)
        return load_fail(l, ERR_FORMAT, "tensor 'blk.%u.attn_v.weight' is missing", i);
    if ((l->traits->optional >> LAYER_FFN_SUM_NORM_AS_POST & 1) == 0 ||
        layer->ffn_post_norm.weight != NULL)
        return 0;
    return load_fail(l, ERR_FORMAT, "tensor 'blk.%u.post_ffw_norm.weight' is missing", i);
}

/* Check all layers and set their windows, rope tables and places in the KV cache. If one norm
 * serves both parallel branches, both get it. */
static int settle_layers(struct load *l)
{
    int rc = 0;

    for (uint32_t i = 0; i < model_n_layers(l->m) && rc == 0; i++)
        rc = check_norms(l, i) < 0 ? ERR_FORMAT : check_tensors(l, i);
    for (uint32_t i = 0; i < model_n_layers(l->m); i++) {
        struct model_layer *layer = &l->m->layers[i];

        if (rc == 0)
            rc = load_layer_rope(l, i);
        if (rc < 0)
            return rc;
        if (!l->m->shape.is_parallel)
            continue;
        if (layer->ffn_norm.weight == NULL) {
            layer->ffn_norm = layer->attn_norm;
        } else if ((l->traits->optional >> LAYER_ATTN_NORM_2 & 1) != 0) {
            const struct norm second = layer->ffn_norm;

            layer->ffn_norm = layer->attn_norm;
            layer->attn_norm = second;
        }
    }
    rc = assign_layers(l->m);
    if (rc == ERR_FORMAT)
        return load_fail(l, rc,
                         "key '%s.attention.shared_kv_layers': is %u, but some of these layers "
                         "have no earlier layer of their kind to share with",
                         l->traits->arch, l->m->shape.n_shared_kv);
    return rc < 0 ? load_fail(l, rc, "out of memory") : 0;
}

static int pack(struct load *l, const struct model_options *options)
{
    size_t bad = 0;
    const int rc = pack_matrices(l->g, l->matrices, l->n_matrices, options, &bad);

    if (rc == ERR_FORMAT)
        return fail_not_finite(l, l->matrices[bad].src);
    return rc < 0 ? load_fail(l, rc, "out of memory") : 0;
}

/* Pack, and check that the file did not change: pages that could not be read are zeros, which must
 * not get into the cache. */
static int pack_unchanged(struct load *l, const struct model_options *options)
{
    int rc;

    hold_here("QUIRE_DEBUG_HOLD_PACK");
    rc = pack(l, options);
    hold_here("QUIRE_DEBUG_HOLD_PACKED");
    return rc == 0 ? gguf_check_unchanged(l->g, l->err, l->err_len) : rc;
}

/* Read the panels from the cache; or pack them and, if options->weight_cache says so, write the
 * cache. */
static int pack_or_fetch(struct load *l, const struct model_options *options)
{
    struct arena *a = l->m->arena;
    char path[WEIGHT_CACHE_MAX_PATH], cause[WEIGHT_CACHE_MAX_CAUSE], quoted[300], why[128];
    struct weight_cache_id id;
    int rc;

    if (options->weight_cache == NULL || !gguf_is_file(l->g) ||
        weight_cache_path(path, options->weight_cache, gguf_name(l->g)) < 0)
        return pack_unchanged(l, options);
    weight_cache_identify(&id, l->g, l->matrices, l->n_matrices);
    rc = weight_cache_load(path, &id, a->panels, a->panel_bytes, options->threads, cause);
    l->m->is_cached = rc == 0;
    if (rc == 0)
        return 0;
    if (rc != ERR_NOENT)
        log_warn("model", "event=weight-cache-refused file=%s cause=%s",
                 log_quote(quoted, sizeof(quoted), path), log_quote(why, sizeof(why), cause));
    rc = pack_unchanged(l, options);
    if (rc == 0)
        a->writer = weight_cache_write(path, &id, a->panels, a->panel_bytes);
    return rc;
}

static int plan(struct load *l)
{
    const int rc = settle_layers(l);

    if (rc == 0)
        set_totals(l);
    return rc;
}

static int load_model(struct load *l, const struct model_options *options)
{
    int rc = load_shape(l, options->n_ctx);

    if (rc == 0)
        rc = set_name(l);
    if (rc == 0)
        rc = load_weights(l);
    if (rc == 0)
        rc = take_arena(l);
    if (rc == 0 && options->only_plan)
        return plan(l);
    if (rc == 0)
        rc = decode_vectors(l);
    if (rc == 0)
        rc = fill_ropes(l);
    if (rc == 0)
        rc = settle_layers(l);
    if (rc == 0)
        rc = pack_or_fetch(l, options);
    if (rc == 0)
        rc = gguf_check_unchanged(l->g, l->err, l->err_len);
    if (rc < 0)
        return rc;
    set_totals(l);
    return 0;
}

int model_load(struct model **out, const struct gguf *g, const struct model_options *options,
               char *err, size_t err_len)
{
    struct load l = {.g = g,
                     .load_type = options->load_type,
                     .wants_mtp = options->wants_mtp,
                     .n_parts = numa_n_parts(options->numa),
                     .numa = options->numa,
                     .err = err,
                     .err_len = err_len};
    int rc;

    *out = NULL;
    l.m = mem_calloc(1, sizeof(*l.m));
    if (l.m == NULL)
        return load_fail(&l, ERR_NOMEM, "out of memory");
    l.m->load_type = options->load_type;
    l.m->n_parts = l.n_parts;
    rc = load_model(&l, options);
    load_weights_release(&l);
    if (rc < 0) {
        model_destroy(&l.m);
        return rc;
    }
    *out = l.m;
    return 0;
}

void model_destroy(struct model **mp)
{
    struct model *m = mp != NULL ? *mp : NULL;
    struct arena *a;

    if (m == NULL)
        return;
    a = m->arena;
    if (a != NULL) {
        weight_cache_writer_destroy(&a->writer);
        mem_unmap(a->panels, a->panel_bytes);
        mem_unmap(a->floats, a->float_bytes);
    }
    mem_free(a);
    for (uint32_t i = 0; m->labels != NULL && i < m->shape.n_labels; i++)
        mem_free(m->labels[i]);
    mem_free(m->labels);
    mem_free(m->slopes);
    mem_free(m->query_scale);
    mem_free(m->ones);
    mem_free(m->layers);
    mem_free(m);
    *mp = NULL;
}

double model_placed_share(const struct model *m, const struct numa *numa)
{
    const struct arena *a = m->arena;

    return numa_placed_share(numa, a->panels, a->panel_bytes);
}
