/* server/api/params/params.c - see params.h. One row of the table for each known field.
 *
 * params_parse() first sorts the body's members into the order of params_fields.inc, then reads
 * them in that order. So a row may rely on the rows above it (`stream_options` on `stream`), and
 * where two names mean the same the later row wins, in whatever order a client writes them. Rules
 * about several fields come last, when all are known. Runs on the thread that parses the body.
 */
#include "server/api/params/params_impl.h"
#include "server/api/params/request_defaults.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"
#include "core/base/name_list.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_field_name(const char *own, const char *aliases, const char *name)
{
    return strcmp(name, own) == 0 || strcmp(name, "default") == 0 ||
           name_list_has(aliases, name) || name_list_matches(aliases, name);
}

bool params_is_model(const char *own, const char *aliases, const char *name)
{
    char bare[NAME_LIST_MAX_BARE];

    return is_field_name(own, aliases, name) ||
           (name_list_untag(name, bare) && is_field_name(own, aliases, bare));
}

int params_parse_model(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    if (params_take_adapter(a, a->v->valuestring))
        return 0;
    if (!params_is_model(a->limits->model, a->limits->aliases, a->v->valuestring))
        return api_error_no_model(a->e, a->v->valuestring);
    if (strcmp(a->v->valuestring, "default") != 0) /* a name that is too long is not repeated in the
                                                    * answer */
        (void)name_copy(a->p->asked_model, sizeof(a->p->asked_model), a->v->valuestring);
    return 0;
}

int params_refuse(const struct field_args *a, const char *format, ...)
{
    char what[256];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return api_error_set(a->e, 400, a->name, NULL, "'%s' %s", a->name, what);
}

int params_take_each(const struct field_args *a,
                     int (*take)(const struct field_args *a, const struct field_path *p,
                                 const cJSON *item))
{
    int i = 0;

    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        const struct field_path p = field_path(a->name, i++, a->e);

        if (take(a, &p, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

int params_parse_stream_options(const struct field_args *a)
{
    const cJSON *usage = field_find(a->v, "include_usage");
    const cJSON *always = field_find(a->v, "continuous_usage_stats");

    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    if (!a->p->stream)
        return params_refuse(a, "is only allowed with 'stream': true");
    if (usage != NULL &&
        field_bool(usage, "stream_options.include_usage", &a->p->include_usage, a->e) < 0)
        return ERR_INVAL;
    if (always != NULL && field_bool(always, "stream_options.continuous_usage_stats",
                                     &a->p->continuous_usage, a->e) < 0)
        return ERR_INVAL;
    a->p->continuous_usage = a->p->continuous_usage && a->p->include_usage;
    return 0;
}

int params_parse_priority(const struct field_args *a)
{
    a->p->has_priority = true;
    if (field_is_int(a->v, 0, PRIORITY_COUNT - 1)) {
        a->p->priority = (enum priority)(int)a->v->valuedouble;
        return 0;
    }
    if (cJSON_IsString(a->v) && priority_find(a->v->valuestring, &a->p->priority))
        return 0;
    return params_refuse(a, "must be low, normal, high, critical or 0 to 3");
}

int params_parse_cache_salt(const struct field_args *a)
{
    size_t n;

    if (!cJSON_IsString(a->v))
        return params_refuse(a, "must be a string");
    n = strlen(a->v->valuestring);
    if (n > PARAMS_MAX_SALT)
        return params_refuse(a, "must have at most %d bytes, got %zu", PARAMS_MAX_SALT, n);
    memcpy(a->p->cache_salt, a->v->valuestring, n + 1);
    return 0;
}

enum field_kind {
    KIND_OWN,
    KIND_BOOL,
    KIND_UINT,
    KIND_FLOAT,
    KIND_ABOVE_ZERO,
    KIND_REFUSED,
    KIND_NO_EFFECT,
};

static const struct field {
    const char *name;
    unsigned forms; /* enum params_form */
    enum field_kind kind;
    double min, max;
    size_t at;                                /* the member's offset in struct params */
    int (*parse)(const struct field_args *a); /* KIND_OWN */
    const char *harmless, *why;               /* KIND_REFUSED */
} fields[] = {
#define FIELD(name, forms, row) {#name, forms, KIND_OWN, 0, 0, 0, params_parse_##row, NULL, NULL},
#define ALIAS(name, forms, row, of)                                                                \
    {#name, forms, KIND_OWN, 0, 0, 0, params_parse_##of, NULL, NULL},
#define NO_EFFECT(name, forms, why) {#name, forms, KIND_NO_EFFECT, 0, 0, 0, NULL, NULL, why},
#define REFUSED(name, forms, harmless, why)                                                        \
    {#name, forms, KIND_REFUSED, 0, 0, 0, NULL, harmless, why},
/* The member's offset; does not compile when the member has another type. */
#define AT(type, member)                                                                           \
    (offsetof(struct params, member) + 0 * _Generic(((struct params *)0)->member, type: 1))
#define BOOL_FIELD(name, forms, row, member)                                                       \
    {#name, forms, KIND_BOOL, 0, 1, AT(bool, member), NULL, NULL, NULL},
#define UINT_FIELD(name, forms, row, min, max, member)                                             \
    {#name, forms, KIND_UINT, min, max, AT(uint32_t, member), NULL, NULL, NULL},
#define FLOAT_FIELD(name, forms, row, min, max, member)                                            \
    {#name, forms, KIND_FLOAT, min, max, AT(float, member), NULL, NULL, NULL},
#define ABOVE_ZERO_FIELD(name, forms, row, max, member)                                            \
    {#name, forms, KIND_ABOVE_ZERO, 0, max, AT(float, member), NULL, NULL, NULL},
#include "server/api/params/params_fields.inc"
#undef AT
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

static int parse_above_zero(const struct field *f, const struct field_args *a, float *out)
{
    const int rc = field_float(a->v, a->name, 0, f->max, out, a->e);

    if (rc == 0 && *out <= 0)
        return params_refuse(a, "must be above 0");
    return rc;
}

/* Is the value harmless? `text` is a row's harmless value, or several with a | between them. */
static bool is_harmless(const cJSON *v, const char *text)
{
    const size_t n = strcspn(text, "|");

    if (n == 0)
        return false;
    if (text[n] == '|' && is_harmless(v, text + n + 1))
        return true;
    switch (text[0]) {
    case '[':
        return cJSON_IsArray(v) && v->child == NULL;
    case '{':
        return cJSON_IsObject(v) && v->child == NULL;
    case 't':
        return cJSON_IsTrue(v);
    case 'f':
        return cJSON_IsFalse(v);
    case '\'':
        return cJSON_IsString(v) && strlen(v->valuestring) == n - 2 &&
               memcmp(v->valuestring, text + 1, n - 2) == 0;
    default:
        return cJSON_IsNumber(v) && v->valuedouble == strtod(text, NULL);
    }
}

static int refuse_unless_harmless(const struct field *f, const struct field_args *a)
{
    if (is_harmless(a->v, f->harmless))
        return 0;
    if (f->harmless[0] == '\0')
        return params_refuse(a, "is not supported. %s", f->why);
    return params_refuse(a, "is not supported with a value other than %s. %s", f->harmless, f->why);
}

static int parse_field(const struct field *f, const struct field_args *a)
{
    void *at = (char *)a->p + f->at;

    switch (f->kind) {
    case KIND_OWN:
        return f->parse(a);
    case KIND_BOOL:
        return field_bool(a->v, a->name, at, a->e);
    case KIND_UINT:
        return field_uint(a->v, a->name, (uint32_t)f->min, (uint32_t)f->max, at, a->e);
    case KIND_FLOAT:
        return field_float(a->v, a->name, f->min, f->max, at, a->e);
    case KIND_ABOVE_ZERO:
        return parse_above_zero(f, a, at);
    case KIND_REFUSED:
        return refuse_unless_harmless(f, a);
    case KIND_NO_EFFECT:
        break;
    }
    return 0;
}

/* True: false, 0, or empty, by which most fields are off. */
static bool is_off(const cJSON *v)
{
    return cJSON_IsNull(v) || cJSON_IsFalse(v) || (cJSON_IsNumber(v) && v->valuedouble == 0) ||
           (cJSON_IsString(v) && v->valuestring[0] == '\0') ||
           ((cJSON_IsArray(v) || cJSON_IsObject(v)) && v->child == NULL);
}

/* True: a form has a row of this name, and it has an effect there. */
static bool has_effect_elsewhere(const char *name)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, name) == 0 && fields[i].kind != KIND_NO_EFFECT)
            return true;
    return false;
}

/* Sort the body's members into the table's order; of duplicate names the last one stays. Returns,
 * of a call for decisions, a member that has an effect in bodies of other forms only, or NULL. */
static const cJSON *collect_fields(struct params *p, enum params_form form, const cJSON *body,
                                   const cJSON *found[FIELD_COUNT])
{
    const bool is_decision = (form & PARAMS_DECISIONS) != 0;
    const cJSON *foreign = NULL;

    for (const cJSON *v = body->child; v != NULL; v = v->next) {
        size_t i = 0;

        while (i < FIELD_COUNT &&
               ((fields[i].forms & form) == 0 || strcmp(fields[i].name, v->string) != 0))
            i++;
        if (i < FIELD_COUNT) {
            found[i] = v;
            continue;
        }
        p->n_unknown++;
        if (is_decision && foreign == NULL && !is_off(v) && has_effect_elsewhere(v->string))
            foreign = v;
    }
    return foreign;
}

void params_set_defaults(struct params *p, enum params_form form,
                         const struct sampling_defaults *defaults)
{
    *p = (struct params){.form = form, .n = 1, .n_prompts = 1, .priority = PRIORITY_NORMAL};
    p->max_tokens = form == PARAMS_TEXT                ? 16
                    : (form & PARAMS_POOLED) != 0 ? 0
                                                   : PARAMS_NO_LIMIT;
    p->prompt_logprobs = -1;
    p->add_generation_prompt = (form & PARAMS_POOLED) == 0;
    p->parallel_tool_calls = true;
    buf_init(&p->prediction, PARAMS_MAX_PREDICTION);
    p->thinking_budget = THOUGHT_NO_LIMIT;
    p->sampling =
        (struct sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .n_top = -1};
    p->embd_normalize = 2;
    p->embedding_types = EMBEDDING_FLOAT;
    params_set_ollama_defaults(p);
    params_set_sampling_defaults(p);
    params_set_sampler_defaults(p);
    sampling_defaults_apply(defaults, p);
}

bool params_has_turns(const struct params *p)
{
    return (p->form & PARAMS_TURNS) != 0 || ((p->form & PARAMS_INPUTS) != 0 && p->has_messages);
}

static const char *what_is_missing(const struct params *p)
{
    if (p->form == PARAMS_INFILL && p->infill.prefix == NULL)
        return "input_prefix";
    if (p->form == PARAMS_INFILL && p->infill.suffix == NULL)
        return "input_suffix";
    if (p->form == PARAMS_MESSAGES && p->max_tokens == PARAMS_NO_LIMIT)
        return "max_tokens";
    if ((p->form & PARAMS_PAIRS) != 0)
        return params_missing_pair(p);
    if (params_has_turns(p) || (p->form & PARAMS_INFILL) != 0 || p->prompt != NULL)
        return NULL;
    return (p->form & (PARAMS_INPUTS | PARAMS_OLLAMA_EMBED)) != 0 ? "input" : "prompt";
}

/* Check the rules that involve several fields. */
static int check_combinations(const struct params *p, struct api_error *e)
{
    const char *missing = what_is_missing(p);

    if (missing != NULL)
        return api_error_set(e, 400, missing, NULL, "'%s' is required", missing);
    if ((p->form & PARAMS_MANY) == 0 && p->n_prompts * p->n_each > PARAMS_MAX_CHOICES)
        return api_error_set(e, 400, p->n_each > p->n ? "best_of" : "n", NULL,
                             "%u prompts times %s = %u is more than %d choices", p->n_prompts,
                             p->n_each > p->n ? "best_of" : "n", p->n_each, PARAMS_MAX_CHOICES);
    if (p->receipt && p->reasoning_control)
        return api_error_set(e, 400, "reasoning_control", NULL,
                             "'reasoning_control' and 'receipt' cannot be used together: a receipt "
                             "does not record when reasoning was ended");
    if (p->n_each > p->n && p->stream)
        return api_error_set(
            e, 400, "best_of", NULL,
            "'best_of' above 'n' cannot be streamed: the best choices are known only at the end");
    if (!p->stream && p->resume_tokens)
        return api_error_set(e, 400, "resume_tokens", NULL,
                             "'resume_tokens' is only allowed with 'stream': true");
    if (!p->stream && p->resumable && p->has_resumable)
        return api_error_set(e, 400, "resumable", NULL,
                             "'resumable' is only allowed with 'stream': true");
    if (p->prompt_logprobs >= 0 && p->stream)
        return api_error_set(e, 400, "prompt_logprobs", NULL,
                             "'prompt_logprobs' is not available with 'stream': true");
    if (p->echo && p->infill.suffix != NULL)
        return api_error_set(e, 400, "suffix", NULL, "'suffix' and 'echo' cannot be used together");
    if (p->min_tokens > p->max_tokens)
        return api_error_set(e, 400, "min_tokens", NULL, "'min_tokens' %u is above 'max_tokens' %u",
                             p->min_tokens, p->max_tokens);
    if ((p->form & PARAMS_INPUTS) != 0 && p->has_messages && p->prompt != NULL)
        return api_error_set(e, 400, "messages", NULL,
                             "'messages' and 'input' cannot be used together");
    return params_has_turns(p) ? params_check_chat(p, e) : 0;
}

int params_take_fields(struct params *p, enum params_form form, const cJSON *object,
                       const struct params_limits *limits, struct api_error *e)
{
    const cJSON *found[FIELD_COUNT] = {NULL}, *foreign = collect_fields(p, form, object, found);

    if (foreign != NULL)
        return api_error_set(e, 400, foreign->string, NULL,
                             "'%.60s' has no effect on decisions: leave it out", foreign->string);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field_args args = {found[i], fields[i].name, p, limits, e};

        if (found[i] != NULL && !cJSON_IsNull(found[i]) && parse_field(&fields[i], &args) < 0)
            return ERR_INVAL;
    }
    return 0;
}

int params_parse(struct params *p, enum params_form form, const cJSON *body,
                 const struct params_limits *limits, struct api_error *e)
{
    params_set_defaults(p, form, limits->defaults);
    request_defaults_apply(limits->request_defaults, p);
    p->store = form == PARAMS_RESPONSES && limits->keeps;
    p->resumable = limits->resumable;
    if (params_take_fields(p, form, body, limits, e) < 0)
        return ERR_INVAL;
    p->resume_tokens = p->resume_tokens || (limits->resume_tokens && p->stream &&
                                            (form & PARAMS_COMPLETIONS) != 0);
    params_settle_sampling(p);
    if (params_settle_samplers(p, e) < 0)
        return ERR_INVAL;
    if (p->n_each == 0)
        p->n_each = p->n;
    if ((form & PARAMS_ANTHROPIC) != 0 && params_settle_anthropic(p, e) < 0)
        return ERR_INVAL;
    if (form == PARAMS_RESPONSES && params_settle_search(p, e) < 0)
        return ERR_INVAL;
    if ((form & PARAMS_TURNS) != 0 && params_settle_breakpoints(p, e) < 0)
        return ERR_INVAL;
    if ((form & PARAMS_DECISIONS) != 0 && params_settle_decisions(p, e) < 0)
        return ERR_INVAL;
    if (form == PARAMS_SCORING)
        return params_settle_scoring(p, e);
    if (form == PARAMS_COHERE_EMBED)
        return params_settle_cohere(p, limits, e);
    if (check_combinations(p, e) < 0)
        return ERR_INVAL;
    if (params_settle_lazy(p, e) < 0)
        return ERR_INVAL;
    if ((form & PARAMS_PAIRS) != 0)
        return params_settle_pairs(p, limits, e);
    return (form & PARAMS_TURNS) != 0 ? params_force_call(p, e) : 0;
}

void params_release(struct params *p)
{
    stop_list_release(&p->stop);
    conversation_release(&p->chat);
    decision_set_release(&p->decisions);
    cJSON_Delete(p->forced_schema);
    cJSON_Delete(p->response_fields);
    mem_free(p->allowed);
    mem_free(p->bad_words);
    mem_free(p->top_ids);
    mem_free(p->label_ids);
    cJSON_Delete(p->joined_texts);
    mem_free(p->resume.tokens);
    buf_release(&p->prediction);
}

const cJSON *params_prompt(const struct params *p, uint32_t i)
{
    const cJSON *it = p->prompt;

    if (!p->is_prompt_list)
        return it;
    it = it->child;
    while (i-- > 0)
        it = it->next;
    return it;
}
