/* server/api/params/params.c - see params.h. One row of the table for each known field. */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>

int params_parse_model(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'model' must be a string");
    if (strcmp(a->v->valuestring, a->limits->model) == 0 ||
        strcmp(a->v->valuestring, "default") == 0)
        return 0;
    return api_error_no_model(a->e, a->v->valuestring);
}

int params_parse_n(const struct field_args *a)
{
    return field_uint(a->v, a->name, 1, PARAMS_MAX_CHOICES, &a->p->n, a->e);
}

int params_parse_max_tokens(const struct field_args *a)
{
    return field_uint(a->v, a->name, 0, INT32_MAX, &a->p->max_tokens, a->e);
}

int params_parse_return_token_ids(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->return_token_ids, a->e);
}

int params_parse_stream(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->stream, a->e);
}

int params_parse_stream_options(const struct field_args *a)
{
    const cJSON *usage = field_find(a->v, "include_usage");

    if (!cJSON_IsObject(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'stream_options' must be an object");
    if (!a->p->stream)
        return api_error_set(a->e, 400, a->name, NULL,
                             "'stream_options' is only allowed with 'stream': true");
    if (usage == NULL)
        return 0;
    return field_bool(usage, "stream_options.include_usage", &a->p->include_usage, a->e);
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
    return api_error_set(a->e, 400, a->name, NULL,
                         "'priority' must be low, normal, high, critical or 0 to 3");
}

int params_parse_deadline_ms(const struct field_args *a)
{
    uint32_t ms = 0;
    const int rc = field_uint(a->v, a->name, 1, UINT32_MAX, &ms, a->e);

    a->p->deadline_ms = ms;
    return rc;
}

int params_parse_max_queue_ms(const struct field_args *a)
{
    uint32_t ms = 0;
    const int rc = field_uint(a->v, a->name, 1, UINT32_MAX, &ms, a->e);

    a->p->max_queue_ms = ms;
    return rc;
}

int params_parse_cache_salt(const struct field_args *a)
{
    size_t n;

    if (!cJSON_IsString(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'cache_salt' must be a string");
    n = strlen(a->v->valuestring);
    if (n > PARAMS_MAX_SALT)
        return api_error_set(a->e, 400, a->name, NULL,
                             "'cache_salt' must have at most %d bytes, got %zu", PARAMS_MAX_SALT,
                             n);
    memcpy(a->p->cache_salt, a->v->valuestring, n + 1);
    return 0;
}

int params_parse_timings(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->timings, a->e);
}

enum field {
#define FIELD(name, forms, parse) FIELD_##parse,
#include "server/api/params/params_fields.inc"
#undef FIELD
#undef NO_EFFECT
    FIELD_COUNT
};

static const struct {
    const char *name;
    unsigned forms;
    int (*parse)(const struct field_args *a); /* NULL: of no effect */
} fields[] = {
#define FIELD(name, forms, parse) {#name, forms, params_parse_##parse},
#define NO_EFFECT(name, forms, parse) {#name, forms, NULL},
#include "server/api/params/params_fields.inc"
#undef FIELD
#undef NO_EFFECT
};

/* Sort the members into the table's order; the last of a name stays. */
static void collect(struct params *p, const cJSON *body, const cJSON *found[FIELD_COUNT])
{
    for (const cJSON *v = body->child; v != NULL; v = v->next) {
        int i = 0;

        while (i < FIELD_COUNT &&
               ((fields[i].forms & p->form) == 0 || strcmp(fields[i].name, v->string) != 0))
            i++;
        if (i < FIELD_COUNT)
            found[i] = v;
        else
            p->n_unknown++;
    }
}

void params_set_defaults(struct params *p, enum params_form form)
{
    *p = (struct params){.form = form, .n = 1, .n_prompts = 1, .priority = PRIORITY_NORMAL};
    p->max_tokens = form == PARAMS_TEXT ? 16 : form == PARAMS_EMBED ? 0 : PARAMS_NO_LIMIT;
    p->prompt_logprobs = -1;
    p->add_generation_prompt = true;
    p->parallel_tool_calls = true;
    p->sampling =
        (struct sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .n_top = -1};
    params_set_sampling_defaults(p);
}

static const char *what_is_missing(const struct params *p)
{
    if (p->form == PARAMS_INFILL && p->infill.prefix == NULL)
        return "input_prefix";
    if (p->form == PARAMS_INFILL && p->infill.suffix == NULL)
        return "input_suffix";
    if (p->form == PARAMS_MESSAGES && p->max_tokens == PARAMS_NO_LIMIT)
        return "max_tokens";
    if ((p->form & (PARAMS_CHATS | PARAMS_INFILL)) != 0 || p->prompt != NULL)
        return NULL;
    return p->form == PARAMS_EMBED ? "input" : "prompt";
}

/* What no field can be judged by alone. */
static int check_combinations(const struct params *p, struct api_error *e)
{
    const char *missing = what_is_missing(p);

    if (missing != NULL)
        return api_error_set(e, 400, missing, NULL, "'%s' is required", missing);
    if (p->n_prompts * p->n_each > PARAMS_MAX_CHOICES)
        return api_error_set(e, 400, p->n_each > p->n ? "best_of" : "n", NULL,
                             "%u prompts times %s = %u is more than %d choices", p->n_prompts,
                             p->n_each > p->n ? "best_of" : "n", p->n_each, PARAMS_MAX_CHOICES);
    if (p->n_each > p->n && p->stream)
        return api_error_set(e, 400, "best_of", NULL,
                             "'best_of' above 'n' is not for streams: the best comes last");
    if (p->prompt_logprobs >= 0 && p->stream)
        return api_error_set(e, 400, "prompt_logprobs", NULL,
                             "'prompt_logprobs' is not for streams");
    if (p->echo && p->infill.suffix != NULL)
        return api_error_set(e, 400, "suffix", NULL, "'suffix' and 'echo' do not go together");
    if (p->min_tokens > p->max_tokens)
        return api_error_set(e, 400, "min_tokens", NULL, "'min_tokens' %u is above 'max_tokens' %u",
                             p->min_tokens, p->max_tokens);
    return (p->form & PARAMS_CHATS) != 0 ? params_check_chat(p, e) : 0;
}

int params_parse(struct params *p, enum params_form form, const cJSON *body,
                 const struct params_limits *limits, struct api_error *e)
{
    const cJSON *found[FIELD_COUNT] = {NULL};

    params_set_defaults(p, form);
    if (!cJSON_IsObject(body))
        return api_error_set(e, 400, NULL, NULL, "the body must be a JSON object");
    collect(p, body, found);
    for (int i = 0; i < FIELD_COUNT; i++) {
        const struct field_args args = {found[i], fields[i].name, p, limits, e};

        if (found[i] == NULL || cJSON_IsNull(found[i]) || fields[i].parse == NULL)
            continue;
        if (fields[i].parse(&args) < 0)
            return ERR_INVAL;
    }
    params_settle_sampling(p);
    if (p->n_each == 0)
        p->n_each = p->n;
    if (check_combinations(p, e) < 0)
        return ERR_INVAL;
    return (form & PARAMS_CHATS) != 0 ? params_force_call(p, e) : 0;
}

void params_release(struct params *p)
{
    stop_list_release(&p->stop);
    conversation_release(&p->chat);
    cJSON_Delete(p->forced_schema);
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
