/* server/api/formats/pooling.c - answers of POST /pooling, in the shape of vLLM: a text's vector,
 * the numbers of its labels, or a vector, the numbers of labels or the lexical weight for each of
 * its tokens.
 *
 * The engine has left with each prompt what the task asked for, and add_data() goes by that: the
 * labels' numbers if there are any, else those of each token's labels, a vector for each token, or
 * one vector.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"
#include "server/api/formats/embedding.h"
#include "server/api/formats/scores.h"

#include <inttypes.h>

static void begin_pooling(struct response_writer *a)
{
    (void)a;
}

static void add_token_labels(struct response_writer *a, const struct prompt *prompt,
                             struct buf *out)
{
    const uint32_t n = prompt->width;

    for (uint32_t k = 0; k < prompt->n_pooled; k++)
        scores_of_outputs(a, prompt->pooled + (size_t)k * n, n, prompt->pooled + (size_t)k * n);
    embedding_add_matrix(a, prompt->pooled, prompt->n_pooled, n, out);
}

static void add_token_weights(const struct response_writer *a, const struct prompt *prompt,
                              struct buf *out)
{
    float *x = prompt->pooled + prompt->n_skipped;

    for (uint32_t k = 0; k < prompt->n_pooled && !a->params->without_activation; k++)
        x[k] = x[k] > 0 ? x[k] : 0;
    embedding_add_numbers(a, x, prompt->n_pooled, out);
}

static void add_data(struct response_writer *a, uint32_t i, struct buf *out)
{
    struct prompt *prompt = a->choices[i].prompt;

    if (prompt->labels != NULL) {
        scores_of_labels(a, prompt, prompt->labels);
        embedding_add_numbers(a, prompt->labels, a->labels.n, out);
    } else if (prompt->has_weights) {
        add_token_weights(a, prompt, out);
    } else if (prompt->has_token_labels) {
        add_token_labels(a, prompt, out);
    } else if (prompt->is_each) {
        embedding_add_tokens(a, i, out);
    } else {
        embedding_add(a, i, out);
    }
}

static void whole_pooling(struct response_writer *a, struct buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%" PRId64 ",\"model\":", a->id,
               a->created);
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        buf_printf(out, "%s{\"index\":%u,\"object\":\"pooling\",\"data\":", i > 0 ? "," : "", i);
        add_data(a, i, out);
        buf_add_char(out, '}');
    }
    buf_printf(out, "],\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64
                    ",\"completion_tokens\":0}}",
               a->usage.prompt, a->usage.prompt);
}

const struct wire_format wire_pooling = {
    .id_prefix = "pool-",
    .form = PARAMS_POOL,
    .gives_tokens = true,
    .begin = begin_pooling,
    .whole = whole_pooling,
};
