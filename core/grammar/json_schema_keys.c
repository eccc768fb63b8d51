/* core/grammar/json_schema_keys.c - keys of members that `properties` does not name.
 *
 * Without patterns such a key is any text that is none of the names: a trie walk over the sorted
 * names writes, for each prefix, the characters that leave all of them. With patterns a key that
 * matches two of them needs a value of both schemas. So the keys are split by the set of patterns
 * that they match, each set an expression (expr.h) with a merged schema.
 */
#include "core/grammar/json_schema_keys.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/grammar/char_class.h"
#include "core/grammar/expr.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PATTERNS 6
#define OTHER_KEY_CHARS 64 /* characters of a key beyond `properties`, about */
#define MAX_KEY 128        /* bytes of a name that other keys must differ from */

struct schema_keys {
    struct expr_set *e;
    uint32_t allowed; /* keys that propertyNames allows; EXPR_ALL: all */
    uint32_t plain;   /* keys without characters that need escapes */
    uint32_t patterns[MAX_PATTERNS];
    const cJSON *schemas[MAX_PATTERNS];
    uint32_t n;
};

/* ---- keys that are none of some ---- */

struct other_keys {
    struct schema *s;
    const char **names; /* [n] sorted */
    uint32_t n;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void plain_chars(struct char_class *c)
{
    char_class_add(c, 0x20, CHAR_LAST);
    char_class_remove(c, '"', '"');
    char_class_remove(c, '\\', '\\');
}

static struct grammar_piece any_plain(struct schema *s)
{
    struct char_class c;

    if (s->plain < 0) {
        char_class_clear(&c);
        plain_chars(&c);
        s->plain = (int32_t)grammar_rule(s->b, "a character of a key");
        grammar_define(s->b, (uint32_t)s->plain, grammar_chars(s->b, c.at, c.n));
    }
    return grammar_repeat_rule(s->b, (uint32_t)s->plain, 0, OTHER_KEY_CHARS);
}

/* Writes a character that none of names[from .. to - 1] has at byte `at`. */
static struct grammar_piece other_char(const struct other_keys *k, uint32_t from, uint32_t to,
                                       size_t at)
{
    struct char_class others;

    schema_spend(k->s, 50);
    char_class_clear(&others);
    plain_chars(&others);
    for (uint32_t i = from, last = CHAR_LAST + 1; i < to && !schema_has_failed(k->s); i++) {
        size_t len;
        const uint32_t c = unicode_at(k->names[i] + at, strlen(k->names[i] + at) + 1, &len);

        schema_spend(k->s, c == last ? 4 : 100 + 10 * (uint64_t)others.n);
        if (c != last) /* names are sorted, so equal characters are neighbours */
            char_class_remove(&others, c, c);
        last = c;
    }
    return grammar_chars(k->s->b, others.at, others.n);
}

/* Writes the continuations of the first `at` bytes of names[from .. to - 1], which they share, that
 * make none of these names. Recursion is as deep as a name is long. */
static struct grammar_piece other_ends(const struct other_keys *k, uint32_t from, uint32_t to,
                                       size_t at)
{
    struct schema *s = k->s;
    const bool is_name = k->names[from][at] == '\0';
    struct grammar_piece p, q;

    p = other_char(k, from + is_name, to, at);
    p = grammar_then(s->b, p, any_plain(s));
    if (!is_name)
        p = grammar_repeat(s->b, p, 0, 1);
    for (uint32_t i = from + is_name, end; i < to && !schema_has_failed(s); i = end) {
        size_t len;

        unicode_at(k->names[i] + at, strlen(k->names[i] + at) + 1, &len);
        for (end = i + 1; end < to && memcmp(k->names[end] + at, k->names[i] + at, len) == 0; end++)
            ;
        q = grammar_bytes(s->b, k->names[i] + at, len);
        q = grammar_then(s->b, q, other_ends(k, i, end, at + len));
        p = grammar_or(s->b, p, q);
    }
    return p;
}

/* Keys that are made here have no escapes, so they differ from any name that needs some. */
static bool needs_escapes(const char *name)
{
    for (; *name != '\0'; name++)
        if ((uint8_t)*name < 0x20 || *name == '"' || *name == '\\')
            return true;
    return false;
}

static void avoid(struct other_keys *k, const struct schema_node *at, const char *name)
{
    if (needs_escapes(name))
        return;
    if (strlen(name) > MAX_KEY)
        schema_refuse(
            k->s, at,
            "'additionalProperties' is not supported with a property name as long as '%.40s'",
            name);
    else
        k->names[k->n++] = name;
}

static struct grammar_piece other_key(struct schema *s, const struct schema_node *at,
                                      const char *const *names, uint32_t n)
{
    struct other_keys k = {.s = s};
    struct grammar_piece p = grammar_text(s->b, "\"");

    k.names = mem_calloc(n + 1, sizeof(*k.names));
    if (k.names == NULL) {
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
        return p;
    }
    for (uint32_t i = 0; i < n && !schema_has_failed(s); i++)
        avoid(&k, at, names[i]);
    qsort(k.names, k.n, sizeof(*k.names), compare_names);
    if (!schema_has_failed(s))
        p = grammar_then(s->b, p, k.n > 0 ? other_ends(&k, 0, k.n, 0) : any_plain(s));
    mem_free(k.names);
    return grammar_then(s->b, p, grammar_text(s->b, "\""));
}

/* ---- reading patterns ---- */

/* Returns the keys that the schema in propertyNames allows. */
static uint32_t allowed_keys(struct schema *s, const struct schema_node *at, struct expr_set *e)
{
    static const char *const known[] = {"type",   "pattern", "minLength", "maxLength",
                                        "format", "enum",    "const",     NULL};
    struct schema_node in = *at;
    const cJSON *it;

    if (cJSON_IsBool(at->schema))
        return cJSON_IsTrue(at->schema) ? EXPR_ALL : EXPR_NONE;
    in.schema = schema_merge(s, at);
    cJSON_ArrayForEach(it, in.schema)
    {
        int i = 0;

        while (known[i] != NULL && strcmp(known[i], it->string) != 0)
            i++;
        if (known[i] == NULL && !schema_is_annotation(it->string))
            schema_refuse(s, at, "'%.40s' is not supported in 'propertyNames'", it->string);
    }
    if (in.schema == NULL || schema_has_failed(s))
        return EXPR_NONE;
    if (!(schema_types(s, &in) & SCHEMA_STRING))
        return EXPR_NONE;
    if (schema_get(in.schema, "enum") != NULL || schema_get(in.schema, "const") != NULL)
        return schema_listed_strings(s, &in, e);
    return schema_string_expr(s, &in, e);
}

static void read_patterns(struct schema *s, const struct schema_node *at, struct schema_keys *k,
                          const cJSON *patterns)
{
    const cJSON *it;

    if (!cJSON_IsObject(patterns)) {
        schema_refuse(s, at, "'patternProperties' must be an object");
        return;
    }
    cJSON_ArrayForEach(it, patterns)
    {
        if (k->n == MAX_PATTERNS)
            schema_refuse(s, at, "'patternProperties' has more than %d patterns", MAX_PATTERNS);
        if (schema_has_failed(s))
            return;
        k->schemas[k->n] = it;
        k->patterns[k->n++] =
            grammar_regex_expr(k->e, s->b, it->string, strlen(it->string), REGEX_SEARCH);
        schema_point(s, at, "patternProperties");
    }
}

/* Returns the keys of members that are not written as JSON. */
static uint32_t own_keys(struct schema *s, struct expr_set *e)
{
    const char *keys = s->members->keys;
    const cJSON *it;

    cJSON_ArrayForEach(it, s->members->names)
    {
        expr_text(e, it->valuestring); /* registers its characters before the set is sealed */
        schema_spend(s, 1);
    }
    return grammar_regex_expr(e, s->b, keys, strlen(keys), 0);
}

struct schema_keys *schema_keys_create(struct schema *s, const struct schema_node *at)
{
    const cJSON *patterns = schema_get(at->schema, "patternProperties");
    const cJSON *allowed = schema_get(at->schema, "propertyNames");
    const struct schema_node in = schema_in(at, allowed, "propertyNames", NULL);
    struct schema_keys *k;
    struct char_class plain;

    if (patterns == NULL && allowed == NULL && s->members == NULL)
        return NULL;
    k = mem_calloc(1, sizeof(*k));
    if (k == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    if (k == NULL || regex_alphabet(&k->e, s->b, REGEX_JSON) < 0)
        return k;
    if (s->members != NULL) {
        k->plain = own_keys(s, k->e);
    } else {
        char_class_clear(&plain);
        plain_chars(&plain);
        char_class_sort(&plain);
        k->plain = expr_repeat(k->e, expr_class(k->e, &plain), 0, GRAMMAR_NO_LIMIT);
    }
    k->allowed = allowed != NULL ? allowed_keys(s, &in, k->e) : EXPR_ALL;
    if (patterns != NULL)
        read_patterns(s, at, k, patterns);
    return k;
}

void schema_keys_destroy(struct schema_keys **keys)
{
    if (*keys != NULL)
        expr_destroy(&(*keys)->e);
    mem_free(*keys);
    *keys = NULL;
}

void schema_keys_name(struct schema *s, struct schema_keys *k, const char *name)
{
    if (k != NULL)
        expr_text(k->e, name); /* registers its characters before the set is sealed */
    schema_spend(s, 1);
}

/* ---- schemas of matched keys ---- */

/* Returns {"allOf": [...]} of the patterns' schemas in `set` and `own`, or the only one; NULL:
 * there are none. */
static const cJSON *all_of(struct schema *s, const struct schema_node *at,
                           const struct schema_keys *k, uint32_t set, const cJSON *own)
{
    const cJSON *only = own;
    cJSON *made, *list;
    uint32_t n = own != NULL;

    for (uint32_t i = 0; i < k->n; i++)
        if (set >> i & 1) {
            if (cJSON_IsFalse(k->schemas[i]))
                return k->schemas[i];
            only = k->schemas[i];
            n++;
        }
    if (n <= 1)
        return only;
    made = schema_keep(s, at, cJSON_CreateObject());
    list = made != NULL ? cJSON_AddArrayToObject(made, "allOf") : NULL;
    if (made != NULL && list == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i <= k->n && list != NULL; i++) {
        const cJSON *of = i == k->n ? own : set >> i & 1 ? k->schemas[i] : NULL;

        if (of != NULL && json_put_reference(list, NULL, of) == NULL)
            grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    }
    return made;
}

/* True: the allOf contradicts itself, so no member with that schema is written. */
static bool contradicts_itself(struct schema *s, const struct schema_node *at, const cJSON *schema)
{
    const struct schema_node in = schema_in(at, schema, "patternProperties", NULL);
    const cJSON *merged;

    if (!cJSON_IsObject(schema) || schema_get(schema, "allOf") == NULL)
        return false;
    merged = schema_merge(s, &in);
    return merged != NULL && schema_is_impossible(merged);
}

const cJSON *schema_keys_settle(struct schema *s, const struct schema_node *at,
                                struct schema_keys *k, const char *name, const cJSON *own,
                                const cJSON *otherwise)
{
    uint32_t set = 0;

    if (k == NULL)
        return own != NULL ? own : otherwise;
    if (!expr_matches(k->e, k->allowed, name))
        return schema_keep(s, at, cJSON_CreateFalse());
    for (uint32_t i = 0; i < k->n; i++)
        if (expr_matches(k->e, k->patterns[i], name))
            set |= 1u << i;
    if (cJSON_IsFalse(own))
        return own;
    if (set == 0)
        return own != NULL ? own : otherwise;
    own = all_of(s, at, k, set, own);
    return contradicts_itself(s, at, own) ? schema_keep(s, at, cJSON_CreateFalse()) : own;
}

/* ---- members ---- */

/* Returns the keys that match the patterns in `set` and no others. */
static uint32_t keys_of(const struct schema_keys *k, uint32_t set, uint32_t names)
{
    uint32_t out = expr_and(k->e, k->plain, expr_and(k->e, k->allowed, expr_not(k->e, names)));

    for (uint32_t i = 0; i < k->n; i++)
        out = expr_and(k->e, out, set >> i & 1 ? k->patterns[i] : expr_not(k->e, k->patterns[i]));
    return out;
}

static void add_members(struct schema *s, const struct schema_node *at, uint32_t keys,
                        struct schema_keys *k, bool *any, struct grammar_piece *out)
{
    const struct schema_key free = {.set = k->e, .keys = keys};
    struct grammar_piece p;

    if (s->members != NULL) {
        p = s->members->member(s->members->ud, &free, at->schema);
        *out = *any ? grammar_or(s->b, *out, p) : p;
        *any = true;
        return;
    }
    p = grammar_text(s->b, "\"");
    p = grammar_then(s->b, p, expr_piece(k->e, keys, false));
    p = grammar_then(s->b, p, grammar_text(s->b, "\""));
    p = grammar_then(s->b, p, schema_colon(s));
    p = grammar_then(s->b, p, schema_write(s, at));
    *out = *any ? grammar_or(s->b, *out, p) : p;
    *any = true;
}

/* Returns the names that keys beyond `properties` must not be. */
static uint32_t names_elsewhere(struct schema *s, struct expr_set *e)
{
    uint32_t out = EXPR_NONE;
    const cJSON *it;

    cJSON_ArrayForEach(it, s->members->names)
    {
        if (schema_has_failed(s))
            break;
        out = expr_or(e, out, expr_text(e, it->valuestring));
    }
    return out;
}

static bool matched_members(struct schema *s, const struct schema_node *at, struct schema_keys *k,
                            const char *const *names, uint32_t n, const cJSON *additional,
                            struct grammar_piece *out)
{
    uint32_t named = EXPR_NONE;
    bool any = false;

    for (uint32_t i = 0; i < n && !schema_has_failed(s); i++)
        if (!needs_escapes(names[i]))
            named = expr_or(k->e, named, expr_text(k->e, names[i]));
    if (s->members != NULL)
        named = expr_or(k->e, named, names_elsewhere(s, k->e));
    for (uint32_t set = 0; set < 1u << k->n && !schema_has_failed(s); set++) {
        const cJSON *schema = all_of(s, at, k, set, set == 0 ? additional : NULL);
        const uint32_t keys = keys_of(k, set, named);
        const struct schema_node in =
            schema_in(at, schema, set == 0 ? "additionalProperties" : "patternProperties", NULL);

        if (schema != NULL && !cJSON_IsFalse(schema) && !expr_is_none(k->e, keys) &&
            !contradicts_itself(s, at, schema))
            add_members(s, &in, keys, k, &any, out);
    }
    schema_point(s, at, k->n > 0 ? "patternProperties" : "propertyNames");
    return any;
}

bool schema_keys_others(struct schema *s, const struct schema_node *at, struct schema_keys *k,
                        const char *const *names, uint32_t n, const cJSON *additional,
                        uint32_t *rule)
{
    struct grammar_piece p = {0};

    if (k == NULL && additional == NULL)
        return false;
    if (k != NULL) {
        if (schema_has_failed(s) || !matched_members(s, at, k, names, n, additional, &p))
            return false;
        *rule = grammar_rule(s->b, "an additional member");
        grammar_define(s->b, *rule, p);
    } else {
        const struct schema_node in = schema_in(at, additional, "additionalProperties", NULL);

        *rule = grammar_rule(s->b, "an additional member");
        p = other_key(s, at, names, n);
        p = grammar_then(s->b, p, schema_colon(s));
        grammar_define(s->b, *rule, grammar_then(s->b, p, schema_write(s, &in)));
    }
    return true;
}
