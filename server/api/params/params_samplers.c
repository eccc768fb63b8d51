/* server/api/params/params_samplers.c - the stages that choose a token, and their order.
 *
 * llama-server runs its samplers in an order that a request may change; chats and completions use
 * the sampler's own order, which needs no chain, unless they have a field that only llama-server
 * has.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>

#define LAST_N 64 /* llama-server's repeat_last_n */

enum { FIRST_PENALTIES = STAGE_TEMPERATURE + 1, FIRST_DRY }; /* not stages of a chain */

static const struct sampler_name {
    const char *name;
    char letter; /* in the short form; 0: it has no letter */
    uint8_t stage;
} names[] = {
    {"top_n_sigma", 's', STAGE_TOP_N_SIGMA}, {"top_k", 'k', STAGE_TOP_K},
    {"typ_p", 'y', STAGE_TYPICAL},           {"typical_p", 0, STAGE_TYPICAL},
    {"top_p", 'p', STAGE_TOP_P},             {"min_p", 'm', STAGE_MIN_P},
    {"xtc", 'x', STAGE_XTC},                 {"temperature", 't', STAGE_TEMPERATURE},
    {"temp", 0, STAGE_TEMPERATURE},          {"penalties", 'e', FIRST_PENALTIES},
    {"dry", 'd', FIRST_DRY},
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

void params_set_sampler_defaults(struct params *p)
{
    static const uint8_t llama[] = {STAGE_TOP_N_SIGMA, STAGE_TOP_K, STAGE_TYPICAL, STAGE_TOP_P,
                                    STAGE_MIN_P,       STAGE_XTC,   STAGE_TEMPERATURE};
    static const uint8_t own[] = {STAGE_TOP_N_SIGMA, STAGE_TEMPERATURE, STAGE_TOP_K, STAGE_TOP_P,
                                  STAGE_MIN_P,       STAGE_TYPICAL,     STAGE_XTC};
    const bool is_llama = (p->form & PARAMS_LLAMA_ORDER) != 0;

    p->sampling.dynatemp_exponent = 1;
    p->sampling.penalty_last_n = is_llama ? LAST_N : 0;
    p->n_samplers = sizeof(own);
    memcpy(p->samplers, is_llama ? llama : own, sizeof(own));
    p->uses_penalties = p->uses_dry = true;
}

/* ---- samplers ---- */

/* Penalties and DRY always change the logits before anything is cut; a list with another order is
 * noted, and refused when they are on. */
static int add_sampler(const struct field_args *a, const struct sampler_name *s)
{
    if (s->stage == FIRST_PENALTIES || s->stage == FIRST_DRY) {
        *(s->stage == FIRST_DRY ? &a->p->uses_dry : &a->p->uses_penalties) = true;
        a->p->has_penalties_last = a->p->has_penalties_last || a->p->n_samplers > 0;
        return 0;
    }
    if (a->p->n_samplers == SAMPLING_MAX_CHAIN)
        return params_refuse(a, "must have at most %d names", SAMPLING_MAX_CHAIN);
    a->p->samplers[a->p->n_samplers++] = s->stage;
    return 0;
}

static int add_by_name(const struct field_args *a, const char *name)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (strcmp(names[i].name, name) == 0)
            return add_sampler(a, &names[i]);
    return params_refuse(a, "has '%.40s', which is not a known sampler", name);
}

static int add_by_letter(const struct field_args *a, char letter)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (names[i].letter == letter)
            return add_sampler(a, &names[i]);
    return params_refuse(a, "has a letter that does not stand for a known sampler");
}

/* A stage that is not named is not used. */
int params_parse_samplers(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v) && !cJSON_IsString(a->v))
        return params_refuse(a, "must be a list of names");
    a->p->has_samplers = true;
    a->p->n_samplers = 0;
    a->p->uses_penalties = a->p->uses_dry = false;
    for (const char *c = cJSON_IsString(a->v) ? a->v->valuestring : ""; *c != '\0'; c++)
        if (add_by_letter(a, *c) < 0)
            return ERR_INVAL;
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (!cJSON_IsString(it))
            return params_refuse(a, "must be a list of names");
        if (add_by_name(a, it->valuestring) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* -1: the whole text; 0: no penalties. */
void params_set_window(struct params *p, double last_n)
{
    p->has_no_window = last_n == 0;
    p->sampling.penalty_last_n = last_n < 0 ? UINT32_MAX : (uint32_t)last_n;
}

int params_parse_repeat_last_n(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, INT32_MAX))
        return params_refuse(a, "must be an integer of at least -1");
    params_set_window(a->p, a->v->valuedouble);
    return 0;
}

/* ---- the chain ---- */

static bool is_used(const struct params *p, enum sampling_stage stage)
{
    return memchr(p->samplers, stage, p->n_samplers) != NULL;
}

static bool is_on(const struct sampling *s, enum sampling_stage stage)
{
    switch (stage) {
    case STAGE_NONE:
        break;
    case STAGE_TOP_N_SIGMA:
        return s->top_n_sigma > 0;
    case STAGE_TOP_K:
        return s->top_k > 0;
    case STAGE_TYPICAL:
        return s->typical_p > 0 && s->typical_p < 1;
    case STAGE_TOP_P:
        return s->top_p < 1;
    case STAGE_MIN_P:
        return s->min_p > 0;
    case STAGE_XTC:
        return s->xtc_probability > 0;
    case STAGE_TEMPERATURE:
        return s->temperature != 1 || s->dynatemp_range > 0;
    }
    return false;
}

/* Turn off the stages that were not named. */
static void drop_unused(struct params *p)
{
    struct sampling *s = &p->sampling;

    if (!p->uses_penalties || p->has_no_window) {
        s->repetition_penalty = 1;
        s->frequency_penalty = s->presence_penalty = 0;
    }
    if (!p->uses_dry)
        s->dry_multiplier = 0;
    s->top_k = is_used(p, STAGE_TOP_K) ? s->top_k : 0;
    s->top_p = is_used(p, STAGE_TOP_P) ? s->top_p : 1;
    s->min_p = is_used(p, STAGE_MIN_P) ? s->min_p : 0;
    s->typical_p = is_used(p, STAGE_TYPICAL) ? s->typical_p : 1;
    s->xtc_probability = is_used(p, STAGE_XTC) ? s->xtc_probability : 0;
    s->top_n_sigma = is_used(p, STAGE_TOP_N_SIGMA) ? s->top_n_sigma : 0;
    if (is_used(p, STAGE_TEMPERATURE))
        return;
    s->temperature = 1;
    s->dynatemp_range = 0;
}

static bool wants_chain(const struct params *p)
{
    return (p->form & PARAMS_LLAMA_ORDER) != 0 || p->has_samplers || p->sampling.wants_shares ||
           p->sampling.min_keep > 1 || p->sampling.top_n_sigma > 0 ||
           p->sampling.dynatemp_range > 0;
}

static bool has_penalties(const struct sampling *s)
{
    return s->repetition_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0 ||
           s->dry_multiplier > 0;
}

/* Build the chain of the stages that are on. A temperature alone needs no chain: it cuts nothing,
 * and the sampler draws from the whole vocabulary. */
static void build_chain(struct params *p)
{
    struct sampling *s = &p->sampling;

    s->n_chain = 0;
    for (uint32_t i = 0; i < p->n_samplers; i++)
        if (is_on(s, (enum sampling_stage)p->samplers[i]))
            s->chain[s->n_chain++] = p->samplers[i];
    if (s->wants_shares && s->n_chain == 0)
        s->chain[s->n_chain++] = STAGE_NONE;
    if (s->n_chain == 1 && s->chain[0] == STAGE_TEMPERATURE && s->dynatemp_range <= 0 &&
        !s->wants_shares)
        s->n_chain = 0;
}

int params_settle_samplers(struct params *p, struct api_error *e)
{
    if (p->has_samplers || p->has_no_window)
        drop_unused(p);
    if (p->has_penalties_last && has_penalties(&p->sampling))
        return api_error_set(e, 400, "samplers", NULL,
                             "'samplers' must begin with penalties and dry when these are on");
    if (p->has_mirostat && p->sampling.wants_shares)
        return api_error_set(e, 400, "post_sampling_probs", NULL,
                             "'post_sampling_probs' and 'mirostat' cannot be used together");
    if (p->sampling.n_top_ids > 0 && p->sampling.wants_shares)
        return api_error_set(
            e, 400, "post_sampling_probs", NULL,
            "'post_sampling_probs' and 'logprob_token_ids' cannot be used together");
    if (p->sampling.n_top < 0)
        p->sampling.wants_shares = false;
    if (!p->has_mirostat && wants_chain(p))
        build_chain(p);
    return 0;
}
