/* server/api/constraint/constraint_compile.c - turns a spec into a grammar, and the grammar into a
 * constraint.
 *
 * Each kind of spec is one piece of a single builder, so the request's budget covers parsing,
 * building and probing together. With triggers the grammar is lazy: untriggered text, and after it
 * nothing or the spec's piece (core/grammar/lazy.h). It runs on the thread that parses the
 * request's body, when the constraint is not in the cache.
 */
#include "server/api/constraint/constraint_compile.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder.h"
#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/lazy.h"
#include "core/grammar/regex.h"
#include "core/grammar/token_trie.h"
#include "server/api/constraint/constraint_calls.h"

#include <stdio.h>
#include <string.h>
#include <unistr.h>

/* ---- the shape of a spec ---- */

static int refuse_constraint(const struct constraint_spec *w, struct api_error *e, const char *what)
{
    return api_error_set(e, 400, w->field, NULL, "'%s' %s", w->field, what);
}

static int check_choices(const struct constraint_spec *w, struct api_error *e)
{
    const cJSON *it;
    uint32_t n = 0;

    cJSON_ArrayForEach(it, w->value)
    {
        if (!cJSON_IsString(it) || ++n > CONSTRAINT_MAX_CHOICES)
            return refuse_constraint(w, e, "must be a list of at most 10000 strings");
    }
    return n > 0 ? 0 : refuse_constraint(w, e, "must hold at least one string");
}

int constraint_check_spec(const struct constraint_spec *w, struct api_error *e)
{
    switch (w->kind) {
    case CONSTRAINT_GRAMMAR:
    case CONSTRAINT_REGEX:
        return cJSON_IsString(w->value) ? 0 : refuse_constraint(w, e, "must be a string");
    case CONSTRAINT_CHOICE:
        return cJSON_IsArray(w->value) ? check_choices(w, e)
                                       : refuse_constraint(w, e, "must be a list of strings");
    case CONSTRAINT_SCHEMA:
        if (cJSON_IsObject(w->value) || cJSON_IsBool(w->value) || cJSON_IsString(w->value))
            return 0;
        return refuse_constraint(w, e, "must be a JSON Schema");
    case CONSTRAINT_JSON:
    case CONSTRAINT_CALLS:
    case CONSTRAINT_NONE:
        break;
    }
    return 0;
}

/* ---- notations ---- */

static struct grammar_piece choice_piece(struct grammar_builder *b, const cJSON *list)
{
    struct text_ref *texts = mem_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*texts));
    struct grammar_piece p = {0};
    const cJSON *it;
    size_t n = 0;

    if (texts == NULL) {
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
        return p;
    }
    cJSON_ArrayForEach(it, list) texts[n++] =
        (struct text_ref){it->valuestring, strlen(it->valuestring)};
    p = grammar_choice(b, texts, n);
    mem_free(texts);
    return p;
}

/* Writes a schema, or the text of one. */
static struct grammar_piece schema_piece(struct grammar_builder *b, const cJSON *value)
{
    struct grammar_piece p = {0};
    const char *why = NULL;
    cJSON *parsed;
    int rc;

    if (!cJSON_IsString(value))
        return grammar_schema(b, value);
    rc = json_parse(value->valuestring, strlen(value->valuestring), &parsed, &why);
    if (rc < 0) {
        grammar_builder_fail(b, rc, "it is not a JSON Schema");
        return p;
    }
    p = grammar_schema(b, parsed);
    cJSON_Delete(parsed);
    return p;
}

static struct grammar_piece any_object_piece(struct grammar_builder *b)
{
    cJSON *schema = cJSON_Parse("{\"type\":\"object\"}");
    struct grammar_piece p = {0};

    if (schema == NULL)
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
    else
        p = grammar_schema(b, schema);
    cJSON_Delete(schema);
    return p;
}

static struct grammar_piece spec_piece(struct grammar_builder *b, const struct constraint_spec *w,
                                       const struct token_trie *trie)
{
    const char *text = cJSON_IsString(w->value) ? w->value->valuestring : "";

    switch (w->kind) {
    case CONSTRAINT_GRAMMAR:
        return grammar_gbnf(b, text, strlen(text));
    case CONSTRAINT_REGEX:
        return grammar_regex(b, text, strlen(text), 0);
    case CONSTRAINT_CHOICE:
        return choice_piece(b, w->value);
    case CONSTRAINT_SCHEMA:
        return schema_piece(b, w->value);
    case CONSTRAINT_CALLS:
        return constraint_calls_piece(b, w->value, trie);
    case CONSTRAINT_JSON:
    case CONSTRAINT_NONE:
        break;
    }
    return any_object_piece(b);
}

/* ---- triggers ---- */

struct trigger_list {
    struct grammar_trigger at[CONSTRAINT_MAX_TRIGGERS];
    char names[CONSTRAINT_MAX_TRIGGERS][TOKEN_TRIE_MAX_BYTES + 1]; /* names of tokens */
    uint32_t n;
};

/* Adds a token as a trigger word: its text, or the name of a control token. */
static void take_token(struct trigger_list *list, struct grammar_builder *b,
                       const struct token_trie *trie, int32_t id)
{
    char *name = list->names[list->n];
    const size_t n = trie->len[id];

    if (trie->text[id] == NULL || u8_check((const uint8_t *)trie->text[id], n) != NULL ||
        memchr(trie->text[id], '\0', n) != NULL) {
        grammar_builder_fail(b, ERR_UNSUPPORTED, "the token %d of a trigger has no text", (int)id);
        return;
    }
    memcpy(name, trie->text[id], n);
    list->at[list->n++] = (struct grammar_trigger){TRIGGER_WORD, name, n};
}

static void take_triggers(struct trigger_list *list, struct grammar_builder *b,
                          const struct token_trie *trie, const cJSON *triggers)
{
    static const enum grammar_trigger_kind kinds[] = {TRIGGER_WORD, TRIGGER_WORD, TRIGGER_PATTERN,
                                                      TRIGGER_WHOLE_PATTERN};
    const cJSON *it;

    cJSON_ArrayForEach(it, triggers)
    {
        const int type = cJSON_GetObjectItemCaseSensitive(it, "type")->valueint;
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(it, "value");

        if (type == CONSTRAINT_TRIGGER_TOKEN)
            take_token(list, b, trie, cJSON_GetObjectItemCaseSensitive(it, "token")->valueint);
        else
            list->at[list->n++] = (struct grammar_trigger){kinds[type], value->valuestring,
                                                           strlen(value->valuestring)};
    }
}

static struct grammar_piece untriggered_piece(struct grammar_builder *b,
                                              const struct token_trie *trie, const cJSON *triggers)
{
    struct trigger_list *list = mem_calloc(1, sizeof(*list));
    struct grammar_piece p = {0};

    if (list == NULL) {
        grammar_builder_fail(b, ERR_NOMEM, "out of memory");
        return p;
    }
    take_triggers(list, b, trie, triggers);
    if (grammar_builder_error(b) == 0)
        p = grammar_untriggered(b, list->at, list->n);
    mem_free(list);
    return p;
}

/* ---- the whole ---- */

static struct grammar_piece whole_piece(struct grammar_builder *b, const struct constraint_spec *w,
                                        const struct token_trie *trie)
{
    struct grammar_piece before;

    if (w->triggers == NULL)
        return spec_piece(b, w, trie);
    before = untriggered_piece(b, trie, w->triggers);
    return grammar_then(b, before, grammar_or(b, grammar_empty(b), spec_piece(b, w, trie)));
}

static int make_grammar(struct grammar **out, const struct constraint_spec *w,
                        const struct token_trie *trie, struct budget *budget, char *err,
                        size_t err_len)
{
    struct grammar_builder *b;
    uint32_t root;
    int rc = grammar_builder_create(&b, budget);

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    if (rc < 0)
        return rc;
    root = grammar_rule(b, "the grammar");
    grammar_define(b, root, whole_piece(b, w, trie));
    rc = grammar_builder_finish(b, out, err, err_len);
    grammar_builder_destroy(&b);
    return rc;
}

int constraint_compile(struct constraint **out, const struct constraint_spec *w,
                       const struct token_trie *trie, struct budget *budget, char *err,
                       size_t err_len)
{
    struct grammar *g;
    int rc = make_grammar(&g, w, trie, budget, err, err_len);

    *out = NULL;
    if (rc == 0)
        rc = constraint_create(out, g, trie, budget, err, err_len);
    if (rc < 0)
        grammar_destroy(&g);
    return rc;
}
