/* server/api/params/params_defaults.c - the sampling of a body that does not set it.
 *
 * There are three layers, each over the one before: the wire format's own defaults, then those of
 * the model's file and the settings (sampling_defaults.h), then the body's fields, which are read
 * afterwards. GET() returns its second argument where the middle layer sets nothing.
 */
#include "server/api/params/params_impl.h"

#include "core/model/sampling_defaults.h"

#define GET(what, otherwise) sampling_defaults_get(d, SAMPLING_##what, otherwise)

/* llama-server's defaults, for its own endpoints. */
static void set_llama_defaults(struct sampling *s)
{
    s->temperature = 0.8f;
    s->top_k = 40;
    s->top_p = 0.95f;
    s->min_p = 0.05f;
}

/* Ollama's defaults, for its options. */
static void set_ollama_defaults(struct sampling *s)
{
    s->temperature = 0.8f;
    s->top_k = 40;
    s->top_p = 0.9f;
}

/* Anthropic's bodies must have max_tokens; embeddings generate nothing. */
static bool has_default_length(enum params_form form)
{
    return (form & (PARAMS_ANTHROPIC | PARAMS_VECTORS)) == 0;
}

void sampling_defaults_apply(const struct sampling_defaults *d, struct params *p)
{
    struct sampling *s = &p->sampling;
    double top_k;

    if ((p->form & PARAMS_LLAMA) != 0)
        set_llama_defaults(s);
    if ((p->form & PARAMS_OLLAMA_TEXTS) != 0)
        set_ollama_defaults(s);
    s->temperature = (float)GET(TEMPERATURE, s->temperature);
    s->top_p = (float)GET(TOP_P, s->top_p);
    s->min_p = (float)GET(MIN_P, s->min_p);
    top_k = GET(TOP_K, s->top_k);
    s->top_k = top_k > 0 ? (int32_t)top_k : 0;
    s->repetition_penalty = (float)GET(REPETITION_PENALTY, s->repetition_penalty);
    s->presence_penalty = (float)GET(PRESENCE_PENALTY, s->presence_penalty);
    s->frequency_penalty = (float)GET(FREQUENCY_PENALTY, s->frequency_penalty);
    s->xtc_probability = (float)GET(XTC_PROBABILITY, s->xtc_probability);
    s->xtc_threshold = (float)GET(XTC_THRESHOLD, s->xtc_threshold);
    s->mirostat_tau = (float)GET(MIROSTAT_TAU, s->mirostat_tau);
    s->mirostat_eta = (float)GET(MIROSTAT_ETA, s->mirostat_eta);
    if (GET(PENALTY_LAST_N, -2) > -2)
        params_set_window(p, GET(PENALTY_LAST_N, -2));
    p->has_mirostat = GET(MIROSTAT, 0) != 0;
    p->default_max_tokens = PARAMS_NO_LIMIT;
    if (has_default_length(p->form)) {
        p->default_max_tokens = (uint32_t)GET(MAX_TOKENS, PARAMS_NO_LIMIT);
        p->max_tokens = (uint32_t)GET(MAX_TOKENS, p->max_tokens);
    }
}
