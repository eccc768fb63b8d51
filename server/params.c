/* server/params.c - see params.h. One row of the table for each known field. */
#include "server/params.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/field.h"

#include <string.h>

/* The fields of the body: XX(name). The order is that in which they are checked. */
#define FIELDS(XX)                                                                                 \
    XX(model)                                                                                      \
    XX(prompt)                                                                                     \
    XX(n)                                                                                          \
    XX(best_of)                                                                                    \
    XX(suffix)                                                                                     \
    XX(max_tokens)                                                                                 \
    XX(min_tokens)                                                                                 \
    XX(temperature)                                                                                \
    XX(top_p)                                                                                      \
    XX(top_k)                                                                                      \
    XX(min_p)                                                                                      \
    XX(seed)                                                                                       \
    XX(repetition_penalty)                                                                         \
    XX(frequency_penalty)                                                                          \
    XX(presence_penalty)                                                                           \
    XX(logit_bias)                                                                                 \
    XX(stop)                                                                                       \
    XX(stop_token_ids)                                                                             \
    XX(logprobs)                                                                                   \
    XX(echo)                                                                                       \
    XX(ignore_eos)                                                                                 \
    XX(return_token_ids)                                                                           \
    XX(stream)                                                                                     \
    XX(stream_options)                                                                             \
    XX(priority)                                                                                   \
    XX(deadline_ms)                                                                                \
    XX(max_queue_ms)                                                                               \
    XX(cache_salt)                                                                                 \
    XX(timings)                                                                                    \
    XX(user)

struct field_args { /* what a parse function gets */
    const cJSON *v; /* never NULL, never a JSON null */
    const char *name;
    struct params *p;
    const struct params_limits *limits;
    struct api_error *e;
};

static int parse_model(const struct field_args *a)
{
    if (!cJSON_IsString(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'model' must be a string");
    if (strcmp(a->v->valuestring, a->limits->model) == 0 ||
        strcmp(a->v->valuestring, "default") == 0)
        return 0;
    api_error_set(a->e, 404, a->name, "model_not_found", "the model '%.100s' does not exist here",
                  a->v->valuestring);
    a->e->type = "invalid_request_error"; /* OpenAI's type for this 404 */
    return ERR_NOENT;
}

static int check_id_list(const struct field_args *a, const cJSON *list)
{
    if (list->child == NULL)
        return api_error_set(a->e, 400, a->name, NULL, "'prompt' has an empty list of token ids");
    for (const cJSON *it = list->child; it != NULL; it = it->next)
        if (!field_is_int(it, 0, a->limits->n_vocab - 1))
            return api_error_set(a->e, 400, a->name, NULL,
                                 "'prompt' must hold token ids between 0 and %d",
                                 a->limits->n_vocab - 1);
    return 0;
}

/* Each element of a list of prompts is of the first one's kind. */
static int check_prompt_list(const struct field_args *a)
{
    const bool strings = cJSON_IsString(a->v->child);
    uint32_t n = 0;

    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (++n > PARAMS_MAX_CHOICES)
            return api_error_set(a->e, 400, a->name, NULL, "'prompt' must hold at most %d prompts",
                                 PARAMS_MAX_CHOICES);
        if (strings ? !cJSON_IsString(it) : !cJSON_IsArray(it))
            return api_error_set(a->e, 400, a->name, NULL, "'prompt' mixes kinds of prompts");
        if (!strings && check_id_list(a, it) < 0)
            return ERR_INVAL;
    }
    a->p->n_prompts = n;
    return 0;
}

static int parse_prompt(const struct field_args *a)
{
    a->p->prompt = a->v;
    a->p->n_prompts = 1;
    if (cJSON_IsString(a->v))
        return 0;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return api_error_set(
            a->e, 400, a->name, NULL,
            "'prompt' must be a string, a list of strings, a list of token ids or a "
            "list of lists of token ids");
    return cJSON_IsNumber(a->v->child) ? check_id_list(a, a->v) : check_prompt_list(a);
}

static int parse_n(const struct field_args *a)
{
    return field_uint(a->v, a->name, 1, PARAMS_MAX_CHOICES, &a->p->n, a->e);
}

static int parse_best_of(const struct field_args *a)
{
    if (field_is_int(a->v, a->p->n, a->p->n))
        return 0;
    return api_error_set(a->e, 400, a->name, NULL,
                         "'best_of' is supported only when it equals 'n'");
}

static int parse_suffix(const struct field_args *a)
{
    if (cJSON_IsString(a->v) && a->v->valuestring[0] == '\0')
        return 0;
    return api_error_set(a->e, 400, a->name, NULL, "'suffix' is not supported");
}

static int parse_max_tokens(const struct field_args *a)
{
    return field_uint(a->v, a->name, 0, INT32_MAX, &a->p->max_tokens, a->e);
}

static int parse_min_tokens(const struct field_args *a)
{
    return field_uint(a->v, a->name, 0, INT32_MAX, &a->p->min_tokens, a->e);
}

static int parse_temperature(const struct field_args *a)
{
    return field_float(a->v, a->name, 0, 2, &a->p->sampling.temperature, a->e);
}

static int parse_top_p(const struct field_args *a)
{
    const int rc = field_float(a->v, a->name, 0, 1, &a->p->sampling.top_p, a->e);

    if (rc == 0 && a->p->sampling.top_p <= 0)
        return api_error_set(a->e, 400, a->name, NULL, "'top_p' must be above 0");
    return rc;
}

/* vLLM's -1 means the same as 0: off. */
static int parse_top_k(const struct field_args *a)
{
    if (!field_is_int(a->v, -1, INT32_MAX))
        return api_error_set(a->e, 400, a->name, NULL,
                             "'top_k' must be an integer, -1 or 0 for off");
    a->p->sampling.top_k = a->v->valuedouble < 0 ? 0 : (int32_t)a->v->valuedouble;
    return 0;
}

static int parse_min_p(const struct field_args *a)
{
    return field_float(a->v, a->name, 0, 1, &a->p->sampling.min_p, a->e);
}

static int parse_seed(const struct field_args *a)
{
    a->p->has_seed = true;
    return field_seed(a->v, a->name, &a->p->sampling.seed, a->e);
}

static int parse_repetition_penalty(const struct field_args *a)
{
    const int rc = field_float(a->v, a->name, 0, 10, &a->p->sampling.repetition_penalty, a->e);

    if (rc == 0 && a->p->sampling.repetition_penalty <= 0)
        return api_error_set(a->e, 400, a->name, NULL, "'repetition_penalty' must be above 0");
    return rc;
}

static int parse_frequency_penalty(const struct field_args *a)
{
    return field_float(a->v, a->name, -2, 2, &a->p->sampling.frequency_penalty, a->e);
}

static int parse_presence_penalty(const struct field_args *a)
{
    return field_float(a->v, a->name, -2, 2, &a->p->sampling.presence_penalty, a->e);
}

/* A token id written as a decimal string without sign or leading zeros; -1 when it is none. */
static int32_t id_of_key(const char *key, int32_t n_vocab)
{
    int64_t id = 0;

    if (key[0] == '\0' || (key[0] == '0' && key[1] != '\0'))
        return -1;
    for (; *key != '\0'; key++) {
        if (*key < '0' || *key > '9')
            return -1;
        id = id * 10 + (*key - '0');
        if (id >= n_vocab)
            return -1;
    }
    return (int32_t)id;
}

/* Of duplicate keys the last one holds here as well. */
static struct logit_bias *bias_slot(struct params *p, int32_t id)
{
    for (uint32_t i = 0; i < p->sampling.n_bias; i++)
        if (p->bias[i].id == id)
            return &p->bias[i];
    return p->sampling.n_bias < SAMPLING_MAX_BIAS ? &p->bias[p->sampling.n_bias++] : NULL;
}

static int parse_logit_bias(const struct field_args *a)
{
    if (!cJSON_IsObject(a->v))
        return api_error_set(a->e, 400, a->name, NULL, "'logit_bias' must be an object");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        const int32_t id = id_of_key(it->string, a->limits->n_vocab);
        struct logit_bias bias = {.id = id};
        struct logit_bias *slot;

        if (id < 0)
            return api_error_set(a->e, 400, a->name, NULL,
                                 "'logit_bias' must have token ids between 0 and %d as keys",
                                 a->limits->n_vocab - 1);
        if (field_float(it, a->name, -100, 100, &bias.bias, a->e) < 0)
            return ERR_INVAL;
        slot = bias_slot(a->p, id);
        if (slot == NULL)
            return api_error_set(a->e, 400, a->name, NULL,
                                 "'logit_bias' must have at most %d entries", SAMPLING_MAX_BIAS);
        *slot = bias;
    }
    return 0;
}

static int add_stop(const struct field_args *a, const cJSON *v)
{
    struct stop_list *list = &a->p->stop;
    size_t len;

    if (!cJSON_IsString(v))
        return api_error_set(a->e, 400, a->name, NULL,
                             "'stop' must be a string or a list of strings");
    len = strlen(v->valuestring);
    if (len == 0 || len > STOP_MAX_BYTES)
        return api_error_set(a->e, 400, a->name, NULL,
                             "a stop string must have 1 to %d bytes, got %zu", STOP_MAX_BYTES, len);
    if (list->n == STOP_MAX)
        return api_error_set(a->e, 400, a->name, NULL, "'stop' must hold at most %d strings",
                             STOP_MAX);
    list->text[list->n] = mem_strdup(v->valuestring);
    if (list->text[list->n] == NULL)
        return api_error_set(a->e, 500, NULL, NULL, "out of memory");
    list->n++;
    return 0;
}

static int parse_stop(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return add_stop(a, a->v);
    for (const cJSON *it = a->v->child; it != NULL; it = it->next)
        if (add_stop(a, it) < 0)
            return ERR_INVAL;
    return 0;
}

static int parse_stop_token_ids(const struct field_args *a)
{
    return field_ids(a->v, a->name, a->limits->n_vocab, REQUEST_MAX_STOP_IDS, a->p->stop_ids,
                     &a->p->n_stop_ids, a->e);
}

/* Some clients send false for "none". */
static int parse_logprobs(const struct field_args *a)
{
    uint32_t n = 0;

    if (cJSON_IsFalse(a->v))
        return 0;
    if (field_uint(a->v, a->name, 0, PARAMS_MAX_LOGPROBS, &n, a->e) < 0)
        return ERR_INVAL;
    a->p->sampling.n_top = (int32_t)n;
    return 0;
}

static int parse_echo(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->echo, a->e);
}

static int parse_ignore_eos(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->ignore_eos, a->e);
}

static int parse_return_token_ids(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->return_token_ids, a->e);
}

static int parse_stream(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->stream, a->e);
}

static int parse_stream_options(const struct field_args *a)
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

bool params_priority(const char *text, enum priority *out)
{
    for (int p = 0; p < PRIORITY_COUNT; p++) {
        const char digit[2] = {(char)('0' + p), '\0'};

        if (strcmp(text, priority_name((enum priority)p)) == 0 || strcmp(text, digit) == 0) {
            *out = (enum priority)p;
            return true;
        }
    }
    return false;
}

static int parse_priority(const struct field_args *a)
{
    a->p->has_priority = true;
    if (field_is_int(a->v, 0, PRIORITY_COUNT - 1)) {
        a->p->priority = (enum priority)(int)a->v->valuedouble;
        return 0;
    }
    if (cJSON_IsString(a->v) && params_priority(a->v->valuestring, &a->p->priority))
        return 0;
    return api_error_set(a->e, 400, a->name, NULL,
                         "'priority' must be low, normal, high, critical or 0 to 3");
}

static int parse_deadline_ms(const struct field_args *a)
{
    uint32_t ms = 0;
    const int rc = field_uint(a->v, a->name, 1, UINT32_MAX, &ms, a->e);

    a->p->deadline_ms = ms;
    return rc;
}

static int parse_max_queue_ms(const struct field_args *a)
{
    uint32_t ms = 0;
    const int rc = field_uint(a->v, a->name, 1, UINT32_MAX, &ms, a->e);

    a->p->max_queue_ms = ms;
    return rc;
}

static int parse_cache_salt(const struct field_args *a)
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

static int parse_timings(const struct field_args *a)
{
    return field_bool(a->v, a->name, &a->p->timings, a->e);
}

/* A name for the caller's own end user: of no effect here. */
static int parse_user(const struct field_args *a)
{
    (void)a;
    return 0;
}

enum field {
#define XX(name) FIELD_##name,
    FIELDS(XX)
#undef XX
        FIELD_COUNT
};

static const struct {
    const char *name;
    int (*parse)(const struct field_args *a);
} fields[] = {
#define XX(name) {#name, parse_##name},
    FIELDS(XX)
#undef XX
};

/* Sort the members into the table's order; the last of a name stays. */
static void collect(struct params *p, const cJSON *body, const cJSON *found[FIELD_COUNT])
{
    for (const cJSON *v = body->child; v != NULL; v = v->next) {
        int i = 0;

        while (i < FIELD_COUNT && strcmp(fields[i].name, v->string) != 0)
            i++;
        if (i < FIELD_COUNT)
            found[i] = v;
        else
            p->n_unknown++;
    }
}

static void set_defaults(struct params *p)
{
    *p = (struct params){.n = 1, .max_tokens = 16, .priority = PRIORITY_NORMAL};
    p->sampling =
        (struct sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .n_top = -1};
}

int params_parse(struct params *p, const cJSON *body, const struct params_limits *limits,
                 struct api_error *e)
{
    const cJSON *found[FIELD_COUNT] = {NULL};

    set_defaults(p);
    if (!cJSON_IsObject(body))
        return api_error_set(e, 400, NULL, NULL, "the body must be a JSON object");
    collect(p, body, found);
    for (int i = 0; i < FIELD_COUNT; i++) {
        const struct field_args args = {found[i], fields[i].name, p, limits, e};

        if (found[i] == NULL || cJSON_IsNull(found[i]))
            continue;
        if (fields[i].parse(&args) < 0)
            return ERR_INVAL;
    }
    if (p->prompt == NULL)
        return api_error_set(e, 400, "prompt", NULL, "'prompt' is required");
    if (p->n_prompts * p->n > PARAMS_MAX_CHOICES)
        return api_error_set(e, 400, "n", NULL, "%u prompts times n = %u is more than %d choices",
                             p->n_prompts, p->n, PARAMS_MAX_CHOICES);
    if (p->min_tokens > p->max_tokens)
        return api_error_set(e, 400, "min_tokens", NULL, "'min_tokens' %u is above 'max_tokens' %u",
                             p->min_tokens, p->max_tokens);
    return 0;
}

void params_release(struct params *p)
{
    stop_list_release(&p->stop);
}

const cJSON *params_prompt(const struct params *p, uint32_t i)
{
    const cJSON *it = p->prompt;

    if (cJSON_IsString(it) || cJSON_IsNumber(it->child))
        return it;
    it = it->child;
    while (i-- > 0)
        it = it->next;
    return it;
}
