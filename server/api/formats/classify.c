/* server/api/formats/classify.c - answers of POST /classify, in the shape of vLLM: the label of a
 * text, and the probabilities of all labels.
 *
 * The engine has left the classifier's outputs with each prompt; scores.c makes probabilities of
 * them, in one buffer for all texts. The label that is told is the most probable one, the first of
 * several that are equal.
 */
#include "server/api/response/response_writer.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/formats/scores.h"

#include <inttypes.h>

static void begin_classes(struct response_writer *a)
{
    (void)a;
}

static uint32_t best_of(const float *x, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* A label without a name is called as in Hugging Face's models. */
static void add_label(const struct response_labels *l, uint32_t label, struct buf *out)
{
    if (l->names != NULL)
        json_add_cstring(out, l->names[label]);
    else
        buf_printf(out, "\"LABEL_%u\"", label);
}

static void add_class_text(const struct response_writer *a, uint32_t i, float *probs,
                           struct buf *out)
{
    const uint32_t n = a->labels.n;

    scores_of_labels(a, a->choices[i].prompt, probs);
    buf_printf(out, "%s{\"index\":%u,\"label\":", i > 0 ? "," : "", i);
    add_label(&a->labels, best_of(probs, n), out);
    buf_add_str(out, ",\"probs\":[");
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0)
            buf_add_char(out, ',');
        json_add_float(out, probs[k]);
    }
    buf_printf(out, "],\"num_classes\":%u}", n);
}

static void whole_classes(struct response_writer *a, struct buf *out)
{
    float *probs = mem_calloc(a->labels.n, sizeof(*probs));

    if (probs == NULL) {
        out->err = ERR_NOMEM;
        return;
    }
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%" PRId64 ",\"model\":", a->id,
               a->created);
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->n_choices; i++)
        add_class_text(a, i, probs, out);
    buf_printf(out, "],\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64
                    ",\"completion_tokens\":0}}",
               a->usage.prompt, a->usage.prompt);
    mem_free(probs);
}

const struct wire_format wire_classify = {
    .id_prefix = "classify-",
    .form = PARAMS_CLASSIFY,
    .begin = begin_classes,
    .whole = whole_classes,
};
