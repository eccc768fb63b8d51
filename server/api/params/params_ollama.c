/* server/api/params/params_ollama.c - the fields that only Ollama's bodies have.
 *
 * /api/generate is a conversation of a system message and one of the user; with `raw` or a `suffix`
 * it is a text. Sampling stands in the object `options`, whose members are read as a form of their
 * own. https://github.com/ollama/ollama/blob/main/docs/api.md
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"
#include "server/api/params/field.h"

#include <string.h>
#include <strings.h>

void params_set_ollama_defaults(struct params *p)
{
    p->stream = (p->form & PARAMS_OLLAMA_TEXTS) != 0;
    p->drops_messages = p->form == PARAMS_OLLAMA_CHAT;
    p->cuts_middle = (p->form & PARAMS_OLLAMA_TEXTS) != 0;
    if ((p->form & PARAMS_OLLAMA_TEXTS) != 0)
        p->n_keep = 4;
    if ((p->form & PARAMS_OLLAMA_VECTORS) != 0) {
        p->max_prompt = UINT32_MAX;
        p->cuts_end = true;
    }
    if (p->form == PARAMS_OLLAMA_EMBEDDINGS)
        p->embd_normalize = -1;
}

/* ---- texts ---- */

static int need_text(const struct field_args *a)
{
    return cJSON_IsString(a->v) ? 0 : params_refuse(a, "must be a string");
}

/* An empty system message is left out. */
int params_parse_ollama_system(const struct field_args *a)
{
    if (need_text(a) < 0)
        return ERR_INVAL;
    if (a->v->valuestring[0] == '\0')
        return 0;
    if (params_add_message(a, "system") < 0)
        return ERR_INVAL;
    return params_add_text(a, a->v->valuestring);
}

int params_parse_ollama_prompt(const struct field_args *a)
{
    a->p->has_messages = true;
    if (need_text(a) < 0 || params_add_message(a, "user") < 0)
        return ERR_INVAL;
    return params_add_text(a, a->v->valuestring);
}

int params_parse_ollama_text(const struct field_args *a)
{
    a->p->prompt = a->v;
    return need_text(a);
}

int params_parse_ollama_input(const struct field_args *a)
{
    uint32_t n = 0;

    a->p->prompt = a->v;
    if (cJSON_IsString(a->v))
        return 0;
    if (!cJSON_IsArray(a->v) || a->v->child == NULL)
        return params_refuse(a, "must be a string or a list of strings");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next) {
        if (!cJSON_IsString(it))
            return params_refuse(a, "must be a string or a list of strings");
        if (++n > PARAMS_MAX_CHOICES)
            return params_refuse(a, "must hold at most %d texts", PARAMS_MAX_CHOICES);
    }
    a->p->is_prompt_list = true;
    a->p->n_prompts = n;
    return 0;
}

/* The tokens of a conversation, as an earlier answer gave them; the prompt continues it. */
int params_parse_context(const struct field_args *a)
{
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of token ids");
    for (const cJSON *it = a->v->child; it != NULL; it = it->next)
        if (!field_is_int(it, 0, a->limits->n_vocab - 1))
            return params_refuse(a, "must hold token ids between 0 and %d", a->limits->n_vocab - 1);
    a->p->context = a->v->child != NULL ? a->v : NULL;
    return 0;
}

/* `raw` has already chosen the form of the body. */
int params_parse_raw(const struct field_args *a)
{
    bool ignored;

    return field_bool(a->v, a->name, &ignored, a->e);
}

/* 0, or more than the model has: all dimensions. */
int params_parse_ollama_dimensions(const struct field_args *a)
{
    uint32_t n = 0;

    if (field_uint(a->v, a->name, 0, INT32_MAX, &n, a->e) < 0)
        return ERR_INVAL;
    a->p->dimensions = n < a->limits->n_embd ? n : 0;
    return 0;
}

/* Texts to embed that are too long lose their end. */
int params_parse_truncate(const struct field_args *a)
{
    bool wanted = true;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->max_prompt = wanted ? UINT32_MAX : 0;
    return 0;
}

/* A conversation that is too long loses its oldest messages, and one that is still too long its
 * middle. */
int params_parse_truncate_messages(const struct field_args *a)
{
    bool wanted = true;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->drops_messages = a->p->cuts_middle = wanted;
    return 0;
}

/* ---- messages ---- */

/* Take a tool call; its arguments are a JSON object, not a text. */
static int take_call(const struct field_args *a, const struct field_path *p, const cJSON *call)
{
    const cJSON *function = field_find(call, "function");
    const struct field_path in = field_path_in(p, "function", -1);
    struct tool_call out = {.id = field_text(call, "id"),
                            .input = field_find(function, "arguments")};

    if (!cJSON_IsObject(function))
        return field_refuse(p, "function", "an object");
    out.name = field_need_text(&in, function, "name");
    if (out.name == NULL)
        return ERR_INVAL;
    if (!cJSON_IsObject(out.input))
        return field_refuse(&in, "arguments", "an object");
    return params_add_call(a, &out);
}

static int take_calls(const struct field_args *a, const struct field_path *p, const cJSON *calls)
{
    int i = 0;

    if (calls != NULL && !cJSON_IsArray(calls))
        return field_refuse(p, "tool_calls", "a list");
    for (const cJSON *it = calls != NULL ? calls->child : NULL; it != NULL; it = it->next) {
        const struct field_path call = field_path_in(p, "tool_calls", i++);

        if (take_call(a, &call, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

/* Read a member that must be a string if it is present. */
static int take_member(const struct field_path *p, const cJSON *message, const char *name,
                       const char **out)
{
    const cJSON *v = field_find(message, name);

    *out = cJSON_GetStringValue(v);
    return v == NULL || *out != NULL ? 0 : field_refuse(p, name, "a string");
}

static const char *find_role(const struct field_path *p, const cJSON *message)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const char *role = field_need_text(p, message, "role");

    for (size_t i = 0; role != NULL && i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcasecmp(roles[i], role) == 0)
            return roles[i];
    if (role != NULL)
        field_refuse(p, "role", "system, user, assistant or tool");
    return NULL;
}

static int take_message(const struct field_args *a, const struct field_path *p,
                        const cJSON *message)
{
    const cJSON *images = field_find(message, "images");
    const char *role, *content;
    struct chat_message *m;

    if (!cJSON_IsObject(message))
        return field_refuse(p, "", "an object");
    role = find_role(p, message);
    if (role == NULL || take_member(p, message, "content", &content) < 0)
        return ERR_INVAL;
    if (images != NULL && !(cJSON_IsArray(images) && images->child == NULL))
        return field_refuse(p, "images", "empty: this model takes no images");
    if (params_add_message(a, role) < 0 || take_calls(a, p, field_find(message, "tool_calls")) < 0)
        return ERR_INVAL;
    m = conversation_last(&a->p->chat);
    if (take_member(p, message, "thinking", &m->reasoning) < 0 ||
        take_member(p, message, "tool_name", &m->tool_name) < 0 ||
        take_member(p, message, "tool_call_id", &m->tool_call_id) < 0)
        return ERR_INVAL;
    return params_add_text(a, content != NULL ? content : "");
}

int params_parse_ollama_messages(const struct field_args *a)
{
    a->p->has_messages = true;
    a->p->chat.numbers_calls = true; /* clients leave out ids, and some templates need them */
    if (!cJSON_IsArray(a->v))
        return params_refuse(a, "must be a list of messages");
    return params_take_each(a, take_message);
}

/* ---- the answer ---- */

/* true, false, or an effort. */
int params_parse_think(const struct field_args *a)
{
    static const char *const words[] = {"low", "medium", "high", "max"};

    if (cJSON_IsBool(a->v)) {
        a->p->thinking = cJSON_IsTrue(a->v) ? THINKING_ON : THINKING_OFF;
        return 0;
    }
    for (size_t i = 0; cJSON_IsString(a->v) && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], a->v->valuestring) == 0) {
            a->p->thinking = THINKING_ON;
            a->p->reasoning_effort = words[i];
            return 0;
        }
    return params_refuse(a, "must be true, false, low, medium, high or max");
}

int params_parse_format(const struct field_args *a)
{
    if (cJSON_IsObject(a->v))
        return params_constrain(a, a->name, CONSTRAINT_SCHEMA, a->v);
    if (cJSON_IsString(a->v) && a->v->valuestring[0] == '\0')
        return 0;
    if (cJSON_IsString(a->v) && strcmp(a->v->valuestring, "json") == 0)
        return params_constrain(a, a->name, CONSTRAINT_JSON, NULL);
    return params_refuse(a, "must be \"json\" or a JSON schema");
}

/* ---- options ---- */

int params_parse_options(const struct field_args *a)
{
    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    return params_take_fields(a->p, PARAMS_OLLAMA_OPTIONS, a->v, a->limits, a->e);
}

/* More than the model's context stands for all of it. */
int params_parse_num_ctx(const struct field_args *a)
{
    return field_uint(a->v, a->name, 0, INT32_MAX, &a->p->max_context, a->e);
}

int params_parse_shift(const struct field_args *a)
{
    bool wanted = false;

    if (field_bool(a->v, a->name, &wanted, a->e) < 0)
        return ERR_INVAL;
    a->p->ends_with_context = !wanted;
    if (wanted && !a->limits->shifts_context)
        return params_refuse(a, "must be false: answers end at the end of the context unless the "
                                "setting context_shift is on");
    return 0;
}
