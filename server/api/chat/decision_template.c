/* server/api/chat/decision_template.c - see decision_template.h.
 *
 * All values are made anew for each prompt, in a pool that is released with it.
 */
#include "server/api/chat/decision_template.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/jinja/template.h"
#include "server/api/chat/chat_values.h"
#include "server/api/chat/decision_text.h"
#include "server/http/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct decision_source {
    struct value_pool *pool;
    const struct decision_form *form;
    const struct decision_ask *ask;
};

/* ---- JSON values ---- */

/* The text without the marker. */
static struct value unmarked(const struct decision_source *s, const char *text)
{
    const char *marker = s->ask->marker, *at;
    const size_t n_marker = marker != NULL ? strlen(marker) : 0;
    size_t n = 0;
    char *copy;

    if (n_marker == 0 || strstr(text, marker) == NULL)
        return value_string(s->pool, text, strlen(text));
    copy = value_pool_text(s->pool, strlen(text) + 1);
    if (copy == NULL)
        return value_null();
    while ((at = strstr(text, marker)) != NULL) {
        memcpy(copy + n, text, (size_t)(at - text));
        n += (size_t)(at - text);
        copy[n++] = ' ';
        text = at + n_marker;
    }
    memcpy(copy + n, text, strlen(text));
    return value_borrow(copy, n + strlen(text));
}

static struct value json_of_ask(const struct decision_source *s, const cJSON *v);

static int compare_members(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static struct value sorted_object(const struct decision_source *s, const cJSON *v)
{
    const struct value out = value_dict(s->pool);
    const size_t n = (size_t)cJSON_GetArraySize(v);
    const cJSON **members = value_pool_alloc(s->pool, (n + 1) * sizeof(*members));
    size_t k = 0;

    if (members == NULL)
        return value_null();
    for (const cJSON *it = v->child; it != NULL; it = it->next)
        members[k++] = it;
    qsort(members, n, sizeof(*members), compare_members);
    for (size_t i = 0; i < n; i++)
        value_dict_set(s->pool, out, members[i]->string, json_of_ask(s, members[i]));
    return out;
}

/* Convert a JSON value as the form asks for; recursion is bounded by JSON_MAX_DEPTH. */
static struct value json_of_ask(const struct decision_source *s, const cJSON *v)
{
    struct value out;

    if (cJSON_IsString(v))
        return unmarked(s, v->valuestring);
    if (cJSON_IsArray(v)) {
        out = value_list(s->pool);
        for (const cJSON *it = v->child; it != NULL; it = it->next)
            value_list_add(s->pool, out, json_of_ask(s, it));
        return out;
    }
    if (cJSON_IsObject(v) && s->form->sorts_keys)
        return sorted_object(s, v);
    if (cJSON_IsObject(v)) {
        out = value_dict(s->pool);
        for (const cJSON *it = v->child; it != NULL; it = it->next)
            value_dict_set(s->pool, out, it->string, json_of_ask(s, it));
        return out;
    }
    return chat_json_value(s->pool, v);
}

/* A value of the body: JSON, or plain text if the form wants that. */
static struct value given_value(const struct decision_source *s, const cJSON *v)
{
    struct value out;
    struct buf text;

    if (!s->form->is_text || v == NULL || cJSON_IsNull(v))
        return json_of_ask(s, v);
    buf_init(&text, CHAT_MAX_PROMPT);
    decision_text_add(&text, v);
    if (text.err < 0 && s->pool->err == 0)
        s->pool->err = text.err;
    out = value_string(s->pool, text.len > 0 ? text.data : "", text.len);
    buf_release(&text);
    return out;
}

/* A text of the parsed questions; NULL: null. */
static struct value given_text(const struct decision_source *s, const char *text)
{
    cJSON v = {.type = cJSON_String, .valuestring = (char *)text};

    return text != NULL ? given_value(s, &v) : value_null();
}

/* ---- the variables ---- */

uint32_t decision_form_option(const struct decision_form *form, const struct decision_question *q,
                              uint32_t order, uint32_t place)
{
    const bool is_turned = q->kind == DECISION_YES_NO && form->is_no_first;

    return decision_option_at(q, order, is_turned ? q->n_options - 1 - place : place);
}

static struct value key_of(const struct decision_source *s, const struct decision_question *q,
                           uint32_t i)
{
    char number[16];

    if (q->kind == DECISION_YES_NO)
        return value_text(i == 0 ? "true" : "false");
    if (q->kind == DECISION_CHOICE)
        return given_text(s, s->ask->params->decisions.options[q->first_option + i].name);
    snprintf(number, sizeof(number), "%u", i);
    return value_string(s->pool, number, strlen(number));
}

/* A level of OpenAI's API has a label and perhaps a description: both together describe it. */
static struct value level_of(const struct decision_source *s, const struct decision_option *o)
{
    struct value out;
    struct buf text;

    if (o->detail == NULL)
        return given_text(s, o->name);
    buf_init(&text, CHAT_MAX_PROMPT);
    buf_printf(&text, "%s: %s", o->name, o->detail);
    if (text.err < 0 && s->pool->err == 0)
        s->pool->err = text.err;
    out = given_text(s, text.err == 0 ? text.data : "");
    buf_release(&text);
    return out;
}

static struct value description_of(const struct decision_source *s,
                                   const struct decision_question *q,
                                   const struct decision_option *o)
{
    if (o->raw != NULL)
        return given_value(s, o->raw);
    return q->kind == DECISION_SCORE ? level_of(s, o) : given_text(s, o->detail);
}

static struct value options_of(const struct decision_source *s, const struct decision_question *q,
                               uint32_t order)
{
    const struct value out = value_list(s->pool);

    for (uint32_t place = 0; place < q->n_options; place++) {
        const uint32_t i = decision_form_option(s->form, q, order, place);
        const struct decision_option *o = &s->ask->params->decisions.options[q->first_option + i];
        const struct value option = value_dict(s->pool);

        value_dict_set(s->pool, option, "description", description_of(s, q, o));
        value_dict_set(s->pool, option, "key", key_of(s, q, i));
        if (s->ask->labels != NULL)
            value_dict_set(s->pool, option, "label", value_text(s->ask->labels[place]));
        value_list_add(s->pool, out, option);
    }
    return out;
}

/* Return the text of the question. Instructions for all questions of the call, which TypeSafe's API
 * may have, stand before the question's own. */
static struct value instructions_of(const struct decision_source *s,
                                    const struct decision_question *q)
{
    const struct params *p = s->ask->params;
    const bool has_common = p->form == PARAMS_SYSTEMONE && p->chat.n_messages > 0 &&
                            strcmp(p->chat.messages[0].role, "system") == 0;
    struct value out;
    struct buf text;

    if (!has_common)
        return q->raw != NULL ? given_value(s, q->raw) : given_text(s, q->text);
    buf_init(&text, CHAT_MAX_PROMPT);
    conversation_join(&p->chat, &p->chat.messages[0], &text);
    buf_printf(&text, "\n\n%s", q->text);
    if (text.err < 0 && s->pool->err == 0)
        s->pool->err = text.err;
    out = given_text(s, text.err == 0 ? text.data : "");
    buf_release(&text);
    return out;
}

static struct value id_of(const struct decision_source *s, const struct decision_question *q)
{
    char number[16];

    if (q->name != NULL)
        return given_text(s, q->name);
    snprintf(number, sizeof(number), "%u", (uint32_t)(q - s->ask->params->decisions.questions));
    return value_string(s->pool, number, strlen(number));
}

static void set_question(const struct decision_source *s, struct value out,
                         const struct decision_question *q, uint32_t order)
{
    static const char *const types[] = {"noul", "choice", "score"};

    value_dict_set(s->pool, out, "id", id_of(s, q));
    value_dict_set(s->pool, out, "type", value_text(types[q->kind]));
    value_dict_set(s->pool, out, "instructions", instructions_of(s, q));
    value_dict_set(s->pool, out, "options", options_of(s, q, order));
}

/* All questions of the call; the options of the asked one stand in the order that is asked for. */
static struct value questions_of(const struct decision_source *s)
{
    const struct decision_set *set = &s->ask->params->decisions;
    const struct value out = value_list(s->pool);

    for (uint32_t i = 0; i < set->n_questions; i++) {
        const struct decision_question *q = &set->questions[i];
        const struct value question = value_dict(s->pool);

        set_question(s, question, q, q == s->ask->question ? s->ask->order : 0);
        value_list_add(s->pool, out, question);
    }
    return out;
}

static struct value globals_of(const struct decision_source *s)
{
    const struct value out = value_dict(s->pool);

    set_question(s, out, s->ask->question, s->ask->order);
    value_dict_set(s->pool, out, "state", given_value(s, s->ask->params->decisions.state));
    value_dict_set(s->pool, out, "images", value_list(s->pool));
    if (s->form->lists_questions)
        value_dict_set(s->pool, out, "questions", questions_of(s));
    return out;
}

/* ---- rendering ---- */

int decision_template_render(const struct template *t, const struct decision_form *form,
                             const struct decision_ask *ask, struct budget *budget, struct buf *out,
                             struct spans *own, struct api_error *e)
{
    const struct template_options options = {
        .budget = budget, .now = ask->params->chat.now, .own = own};
    struct value_pool pool;
    const struct decision_source s = {&pool, form, ask};
    struct value globals;
    char why[256] = "";
    int rc;

    value_pool_init(&pool, VALUE_POOL_MAX);
    globals = globals_of(&s);
    rc = pool.err;
    if (rc == 0)
        rc = template_render(t, &pool, &globals, &options, out, why, sizeof(why));
    value_pool_release(&pool);
    if (rc == ERR_NOMEM)
        return api_error_no_memory(e);
    if (rc < 0)
        return api_error_set(e, 400, "questions", NULL,
                             "the model's template for decisions raised an error: %.200s",
                             why[0] != '\0' ? why : "the questions are too large");
    return 0;
}
