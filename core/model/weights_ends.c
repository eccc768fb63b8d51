/* core/model/weights_ends.c - the tensors outside the layers: norms, outputs, heads (see
 * weights.h).
 *
 * An encoder has norms of its embeddings and a pooling head; a decoder has a last norm and an
 * output matrix; if that is missing, the embedding serves as one. Classifiers and projections after
 * the pooling are looked up by name, since files mark them in no other way. Tensors of parts that
 * are not computed are marked as used, so that the file is not refused.
 */
#include "core/model/weights.h"

#include "core/base/err.h"
#include "core/model/keys.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_ROWS 65536 /* outputs of a head */
#define MAX_TOKEN_TYPES 16
#define MAX_WIDE (1u << 17)
#define POOLING_TYPE_RANK 4   /* pooling type of rerankers in files */
#define POOLING_TYPE_TOKENS 5 /* and of classifiers of tokens */

/* Add what a head for decisions adds to its input, by the kind of question. */
static int add_questions(struct load *l, const struct gguf_tensor *t)
{
    const struct extent want = {l->m->shape.n_embd, MODEL_N_QUESTION, 1};

    if (t == NULL)
        return load_fail(l, ERR_FORMAT,
                         "tensor 'token_types.weight' is missing, but the key "
                         "'%s.decision.block_count' says that the model has a head for decisions",
                         l->traits->arch);
    if (!tensor_has_extent(t, want))
        return tensor_fail_extent(l, "token_types.weight", t, want);
    l->used[t - gguf_tensor_at(l->g, 0)] = true;
    return weights_add_vector_job(
        l, (struct vector_job){.src = t,
                               .dst = &l->m->head.questions,
                               .n = l->m->shape.n_embd * MODEL_N_QUESTION,
                               .n_rows = 1});
}

/* Add the embeddings of token types: the first type's and, for a second text, the second's. */
static int add_token_type(struct load *l)
{
    const uint32_t n = l->m->shape.n_embd;
    const struct gguf_tensor *t = gguf_tensor_find(l->g, "token_types.weight");

    if (l->m->shape.n_head_layers > 0)
        return add_questions(l, t);
    if (t == NULL)
        return 0;
    if (!tensor_has_extent(t, (struct extent){n, t->dims[1], 1}) || t->dims[1] > MAX_TOKEN_TYPES)
        return tensor_fail_extent(l, "token_types.weight", t, (struct extent){n, 1, 1});
    l->m->shape.n_token_types = (uint32_t)t->dims[1];
    l->used[t - gguf_tensor_at(l->g, 0)] = true;
    return weights_add_vector_job(l, (struct vector_job){.src = t,
                                                         .dst = &l->m->type_embed,
                                                         .n = n * l->m->shape.n_token_types,
                                                         .n_rows = 1});
}

/* Add NAME.weight and, for a layer norm, NAME.bias, which is required where the layers' biases
 * are. */
static int add_norm(struct load *l, const char *name, struct norm *norm)
{
    const uint32_t n = l->m->shape.n_embd;
    const bool has_biases = (l->traits->required >> LAYER_ATTN_SUM_NORM_BIAS & 1) != 0;
    char tensor[GGUF_MAX_NAME];
    int rc;

    snprintf(tensor, sizeof(tensor), "%s.weight", name);
    rc = weights_add_vector(l, tensor, TENSOR_REQUIRED, n, &norm->weight);
    snprintf(tensor, sizeof(tensor), "%s.bias", name);
    if (rc == 0 && l->m->shape.norm == NORM_LAYER)
        rc = weights_add_vector(l, tensor, has_biases ? TENSOR_REQUIRED : TENSOR_OPTIONAL, n,
                                &norm->bias);
    return rc;
}

/* Add a dense layer after the pooling: NAME.weight, [*n_out][n_in]; the keys NAME_feat_in and
 * NAME_feat_out must agree. */
static int add_projection(struct load *l, const char *name, uint32_t n_in, struct matrix *dst,
                          uint32_t *n_out)
{
    const struct gguf_tensor *t;
    char tensor[GGUF_MAX_NAME], in[64], out[64];
    uint32_t said_in = 0, said_out = 0;
    int rc;

    snprintf(tensor, sizeof(tensor), "%s.weight", name);
    snprintf(in, sizeof(in), "%s_feat_in", name);
    snprintf(out, sizeof(out), "%s_feat_out", name);
    t = gguf_tensor_find(l->g, tensor);
    rc = key_u32(l, in, KEY_OPTIONAL, 1, MAX_WIDE, &said_in);
    if (rc == 0)
        rc = key_u32(l, out, KEY_OPTIONAL, 1, MAX_WIDE, &said_out);
    if (rc < 0)
        return rc;
    if (t == NULL && said_in == 0 && said_out == 0)
        return 0;
    if (t != NULL && (t->dims[1] > MAX_WIDE || (said_in > 0 && said_in != t->dims[0]) ||
                      (said_out > 0 && said_out != t->dims[1])))
        return load_fail(l, ERR_FORMAT,
                         "tensor '%s': maps %" PRIu64 " numbers to %" PRIu64
                         ", but its keys say %u and %u",
                         tensor, t->dims[0], t->dims[1], said_in, said_out);
    *n_out = t != NULL ? (uint32_t)t->dims[1] : said_out;
    return weights_add_matrix(l, tensor, TENSOR_REQUIRED, n_in, *n_out, dst);
}

static int add_projections(struct load *l)
{
    static const char *const names[MODEL_N_PROJECTION] = {"dense_2", "dense_3"};
    struct model *m = l->m;
    uint32_t n = m->shape.n_embd;

    for (int i = 0; i < MODEL_N_PROJECTION; i++) {
        const int rc = add_projection(l, names[i], n, &m->projections[i], &n);

        if (rc < 0)
            return rc;
        if (matrix_exists(&m->projections[i]) && n > m->shape.n_wide)
            m->shape.n_wide = n;
    }
    if (n != m->shape.n_embd)
        return load_fail(l, ERR_UNSUPPORTED,
                         "tensors 'dense_2.weight' and 'dense_3.weight': their output has %u "
                         "numbers, but only the embedding's length, %u, is supported",
                         n, m->shape.n_embd);
    return 0;
}

/* Add the last matrix, NAME.weight, which has *n rows, and its bias. */
static int add_out(struct load *l, const char *name, const struct gguf_tensor *t,
                   struct model_head *h, uint32_t *n)
{
    char weight[GGUF_MAX_NAME], bias[GGUF_MAX_NAME];
    int rc;

    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    if (t->dims[1] > MAX_ROWS)
        return load_fail(l, ERR_UNSUPPORTED, "tensor '%s': has more than %d rows", weight,
                         MAX_ROWS);
    *n = (uint32_t)t->dims[1];
    rc = weights_add_matrix(l, weight, TENSOR_REQUIRED, l->m->shape.n_embd, *n, &h->out);
    return rc == 0 ? weights_add_vector(l, bias, TENSOR_OPTIONAL, *n, &h->out_bias) : rc;
}

/* Add the head of that name; one of each kind may be there. */
static int add_token_head(struct load *l, enum token_head kind, const char *name,
                          const struct gguf_tensor *t)
{
    uint32_t *n = &l->m->shape.n_token_out[kind];

    if (*n > 0)
        return load_fail(l, ERR_FORMAT, "tensor '%s.weight': the file has another head of its kind",
                         name);
    if (kind == TOKEN_HEAD_WEIGHT && t->dims[1] != 1)
        return load_fail(l, ERR_FORMAT,
                         "tensor '%s.weight': has %" PRIu64
                         " rows, but a token has 1 lexical weight",
                         name, t->dims[1]);
    return add_out(l, name, t, &l->m->token_heads[kind], n);
}

/* Add the heads that are marked by their names alone. A dense layer of an architecture without
 * layers after the pooling reads tokens. */
static int add_token_heads(struct load *l)
{
    static const struct {
        enum token_head kind;
        const char *name;
        bool skips_bos;
    } heads[] = {{TOKEN_HEAD_VECTOR, "dense_2", false},
                 {TOKEN_HEAD_VECTOR, "colbert_linear", true},
                 {TOKEN_HEAD_WEIGHT, "sparse_linear", false}};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(heads) / sizeof(heads[0]); i++) {
        char weight[GGUF_MAX_NAME];
        const struct gguf_tensor *t;

        snprintf(weight, sizeof(weight), "%s.weight", heads[i].name);
        t = gguf_tensor_find(l->g, weight);
        if (t == NULL)
            continue;
        l->m->shape.skips_bos = l->m->shape.skips_bos || heads[i].skips_bos;
        rc = add_token_head(l, heads[i].kind, heads[i].name, t);
    }
    return rc;
}

static int add_encoder(struct load *l)
{
    struct model *m = l->m;
    int rc = add_token_type(l);

    if (rc == 0 && (l->traits->flags & TRAIT_EMBED_NORM) != 0)
        rc = add_norm(l, "token_embd_norm", &m->embed_norm);
    if (rc == 0 && (l->traits->flags & TRAIT_OUT_NORM) != 0)
        rc = add_norm(l, "output_norm", &m->output_norm);
    if (rc == 0)
        rc = (l->traits->flags & TRAIT_PROJECTED) != 0 ? add_projections(l) : add_token_heads(l);
    return rc;
}

/* Add the part before the last matrix of a classifier. */
static int add_dense(struct load *l, struct model_head *h)
{
    const uint32_t n = l->m->shape.n_embd;
    int rc = weights_add_matrix(l, "cls.weight", TENSOR_OPTIONAL, n, n, &h->dense);

    if (rc < 0 || !matrix_exists(&h->dense))
        return rc;
    rc = weights_add_vector(l, "cls.bias", TENSOR_OPTIONAL, n, &h->dense_bias);
    if (rc == 0 && l->m->shape.n_head_layers > 0)
        return add_norm(l, "cls.norm", &h->state_norm);
    return rc == 0 && l->m->shape.head_kind == HEAD_MEAN ? add_norm(l, "cls.norm", &h->norm) : rc;
}

/* The head of a model that was trained for decisions has as many outputs as its file says. */
static int check_head_width(struct load *l, const char *name)
{
    uint32_t said = l->m->shape.n_labels;
    const int rc = l->m->decision.type[0] == '\0'
                       ? 0
                       : key_u32(l, "embedding_length_out", KEY_OPTIONAL, 1, MAX_ROWS, &said);

    if (rc == 0 && said != l->m->shape.n_labels)
        return load_fail(l, ERR_FORMAT,
                         "tensor '%s.weight': has %u outputs, but the key "
                         "'%s.embedding_length_out' says %u",
                         name, l->m->shape.n_labels, l->traits->arch, said);
    return rc;
}

/* Add the last matrix of a classifier, which has a row for each label. */
static int add_labels(struct load *l, const char *name, const struct gguf_tensor *t)
{
    int rc = add_out(l, name, t, &l->m->head, &l->m->shape.n_labels);

    if (rc == 0)
        rc = check_head_width(l, name);
    return rc == 0 ? load_labels(l) : rc;
}

/* Add the classifier of tokens. The part before its last matrix is ModernBERT's; others that have
 * a part there activate it in another way. */
static int add_token_labels(struct load *l, const struct gguf_tensor *t)
{
    struct model_shape *s = &l->m->shape;
    struct model_head *h = &l->m->token_heads[TOKEN_HEAD_LABELS];
    int rc = s->head_kind == HEAD_MEAN ? add_dense(l, h) : 0;

    if (rc == 0)
        rc = add_out(l, "cls.output", t, h, &s->n_token_out[TOKEN_HEAD_LABELS]);
    s->n_labels = s->n_token_out[TOKEN_HEAD_LABELS];
    return rc == 0 ? load_labels(l) : rc;
}

static int add_head(struct load *l)
{
    const struct gguf_tensor *t = gguf_tensor_find(l->g, "cls.output.weight");
    const bool is_of_tokens = l->m->shape.pooling_type == POOLING_TYPE_TOKENS;
    int rc;

    if (t == NULL && !is_of_tokens && (l->traits->flags & TRAIT_SINGLE_HEAD) != 0 &&
        (t = gguf_tensor_find(l->g, "cls.weight")) != NULL) {
        l->m->shape.head_kind = HEAD_SINGLE;
        return add_labels(l, "cls", t);
    }
    if (t == NULL && !is_of_tokens && l->m->shape.pooling_type != POOLING_TYPE_RANK &&
        l->m->shape.n_head_layers == 0)
        return 0;
    if (l->m->shape.n_head_layers > 0 && gguf_tensor_find(l->g, "cls.weight") == NULL)
        return load_fail(l, ERR_FORMAT, "tensor 'cls.weight' of the head for decisions is missing");
    if (t == NULL)
        return load_fail(l, ERR_FORMAT,
                         "tensor 'cls.output.weight' is missing, but the key '%s.%s' says that the "
                         "model %s",
                         l->traits->arch,
                         l->m->shape.n_head_layers > 0 ? "decision.block_count" : "pooling_type",
                         l->m->shape.n_head_layers > 0 ? "has a head for decisions"
                         : is_of_tokens                ? "labels tokens"
                                                       : "ranks texts");
    if (is_of_tokens)
        return add_token_labels(l, t);
    rc = add_dense(l, &l->m->head);
    return rc == 0 ? add_labels(l, "cls.output", t) : rc;
}

/* Mark a tensor as used that belongs to a part that is not computed here. */
static void use(struct load *l, const char *name)
{
    const struct gguf_tensor *t = gguf_tensor_find(l->g, name);

    if (t != NULL)
        l->used[t - gguf_tensor_at(l->g, 0)] = true;
}

static int add_output(struct load *l)
{
    struct model *m = l->m;
    const struct model_shape *s = &m->shape;
    const char *norm = (l->traits->flags & TRAIT_OUT_NORM_AS_EMBED) != 0 ? "token_embd_norm.weight"
                                                                         : "output_norm.weight";
    int rc = weights_add_vector(l, norm, TENSOR_REQUIRED, s->n_embd, &m->output_norm.weight);

    if (rc == 0 && s->norm == NORM_LAYER)
        rc = weights_add_vector(l, "output_norm.bias", TENSOR_OPTIONAL, s->n_embd,
                                &m->output_norm.bias);
    if (rc == 0 && s->is_encoder) { /* also a decoder's body that is used for embeddings */
        use(l, "output.weight");
        use(l, "output.bias");
        return 0;
    }
    if (rc == 0)
        rc = weights_add_matrix(l, "output.weight", TENSOR_OPTIONAL, s->n_embd, s->n_vocab,
                                &m->output);
    if (rc == 0)
        rc = weights_add_vector(l, "output.bias", TENSOR_OPTIONAL, s->n_vocab, &m->output_bias);
    return rc;
}

/* Add rope's factors; those for another context length than the served one are ignored. */
static int add_divisors(struct load *l)
{
    use(l, "rope_factors_long.weight");
    use(l, "rope_factors_short.weight");
    return weights_add_vector(l, l->divisors_name, TENSOR_OPTIONAL, l->m->shape.n_rot / 2,
                              &l->divisors);
}

int weights_add_per_layer(struct load *l)
{
    struct model *m = l->m;
    const struct model_shape *s = &m->shape;
    const uint32_t n = s->n_layer * s->n_per_layer;
    int rc = weights_add_matrix(l, "per_layer_token_embd.weight", TENSOR_REQUIRED, n, s->n_vocab,
                                &m->per_layer_embed);

    if (rc == 0)
        rc = weights_add_matrix(l, "per_layer_model_proj.weight", TENSOR_REQUIRED, s->n_embd, n,
                                &m->per_layer_in);
    if (rc == 0)
        rc = weights_add_vector(l, "per_layer_proj_norm.weight", TENSOR_REQUIRED, s->n_per_layer,
                                &m->per_layer_norm.weight);
    if (rc == 0 && s->n_streams > 1)
        rc = weights_add_matrices(l, "altup_proj.weight", TENSOR_REQUIRED, s->n_embd, s->n_embd,
                                  s->n_streams - 1, &m->stream_in);
    if (rc == 0 && s->n_streams > 1)
        rc = weights_add_matrices(l, "altup_unembd_proj.weight", TENSOR_REQUIRED, s->n_embd,
                                  s->n_embd, s->n_streams - 1, &m->stream_out);
    return rc;
}

int weights_add_ends(struct load *l)
{
    int rc = (l->traits->flags & TRAIT_ENCODER) != 0 ? add_encoder(l) : add_output(l);

    if (rc == 0)
        rc = add_head(l);
    return rc == 0 && l->m->shape.n_rot > 0 ? add_divisors(l) : rc;
}
