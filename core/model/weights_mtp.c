/* core/model/weights_mtp.c - the parts around a layer that guesses tokens (see weights.h).
 *
 * The layer itself is loaded like any other, as number n_layer. Its embedding, last norm and output
 * matrix are optional: share_ends() in model_load.c replaces missing ones by the model's own.
 */
#include "core/model/weights.h"

#include <stdio.h>

/* Quantisers may have dropped the layer's tensors although the keys name it: then it counts as
 * absent. */
bool load_has_mtp(const struct load *l)
{
    return l->wants_mtp && l->n_nextn > 0 && (l->traits->flags & TRAIT_MTP) != 0 &&
           weights_in_layer(l, l->m->shape.n_layer, "nextn.eh_proj.weight") != NULL;
}

static int add_matrix(struct load *l, const char *suffix, int need, uint32_t n_in, uint32_t n_out,
                      struct matrix *dst)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.nextn.%s.weight", l->m->shape.n_layer, suffix);
    return weights_add_matrix(l, name, need, n_in, n_out, dst);
}

static int add_norm(struct load *l, const char *suffix, int need, struct norm *dst)
{
    char name[GGUF_MAX_NAME];

    snprintf(name, sizeof(name), "blk.%u.nextn.%s.weight", l->m->shape.n_layer, suffix);
    return weights_add_vector(l, name, need, l->m->shape.n_embd, &dst->weight);
}

int weights_add_mtp(struct load *l)
{
    const struct model_shape *s = &l->m->shape;
    struct model_mtp *to = &l->m->mtp;
    int rc = add_matrix(l, "eh_proj", TENSOR_REQUIRED, 2 * s->n_embd, s->n_embd, &to->eh_proj);

    if (rc == 0)
        rc = add_norm(l, "enorm", TENSOR_REQUIRED, &to->embed_norm);
    if (rc == 0)
        rc = add_norm(l, "hnorm", TENSOR_REQUIRED, &to->hidden_norm);
    if (rc == 0)
        rc = add_norm(l, "shared_head_norm", TENSOR_OPTIONAL, &to->output_norm);
    if (rc == 0)
        rc = add_matrix(l, "embed_tokens", TENSOR_OPTIONAL, s->n_embd, s->n_vocab, &to->embed);
    if (rc == 0)
        rc = add_matrix(l, "shared_head_head", TENSOR_OPTIONAL, s->n_embd, s->n_vocab, &to->output);
    return rc;
}
