/* server/api/formats/generative_scoring.c - answers of POST /generative_scoring, in the shape of
 * vLLM: the probability of the first label token after each prompt, among the labels or, with
 * apply_softmax false, among all tokens.
 */
#include "server/api/response/response_writer.h"

#include "core/base/maths.h"
#include "core/json/json.h"
#include "server/api/response/decision_result.h"

#include <inttypes.h>

static void begin_scoring(struct response_writer *a)
{
    (void)a;
}

static double score_of(const struct response_writer *a, uint32_t i)
{
    const struct prompt *prompt = a->choices[i].prompt;
    struct decision_result r = {.is_valid = true};

    if (a->params->over_all_tokens)
        return maths_exp((double)prompt->label_logprobs[0]);
    decision_result_add(&r, prompt->label_logprobs, prompt->n_labels, 1);
    return r.probabilities[0];
}

static void whole_scoring(struct response_writer *a, struct buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%" PRId64 ",\"model\":", a->id,
               a->created);
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        buf_printf(out, "%s{\"index\":%u,\"object\":\"score\",\"score\":", i > 0 ? "," : "", i);
        json_add_float(out, (float)score_of(a, i));
        buf_add_char(out, '}');
    }
    buf_printf(out,
               "],\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64
               ",\"completion_tokens\":%" PRIu64 "}}",
               a->usage.prompt, a->usage.prompt + a->usage.completion, a->usage.completion);
}

const struct wire_format wire_generative_scoring = {
    .id_prefix = "generative-scoring-",
    .form = PARAMS_SCORING,
    .begin = begin_scoring,
    .whole = whole_scoring,
};
