/* server/api/constraint/constraint_arguments.c - writes the arguments of a call one by one.
 *
 * The schema compiler composes the members (grammar_schema_members) and calls member_piece() for
 * each, which tries all argument patterns of the family; a value that several patterns can write is
 * a choice. The pieces allow only texts that the parser of answers (output_reader.c) reads back as
 * the same value: a string may not contain its end or look like another type. Equal string schemas
 * share a rule, because each is a large automaton.
 */
#include "server/api/constraint/constraint_arguments.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/json_schema.h"
#include "server/api/chat/call_value.h"
#include "server/api/chat/family.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- values ---- */

/* Returns the text that ends a raw value; for values with tags inside, the text that begins any
 * tag. */
static const char *argument_end(const struct call_pattern *p)
{
    if (p->at[pattern_hole(p)].kind == PATTERN_VALUE_TAGS)
        return p->at[0].text;
    for (uint32_t i = pattern_hole(p) + 1; i < p->n; i++)
        if (p->at[i].kind == PATTERN_TEXT && !p->at[i].is_optional)
            return p->at[i].text;
    return "";
}

static bool has_kind(const struct family *f, enum pattern_kind kind)
{
    for (uint32_t i = 0; i < f->n_arguments; i++)
        if (f->arguments[i].at[pattern_hole(&f->arguments[i])].kind == kind)
            return true;
    return false;
}

#define STRING_KEY_MAX 4096 /* longer keys are not shared */
#define STRING_KEY_DEPTH 4
#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof((names)[0]))

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool key_add(struct buf *key, const cJSON *schema, unsigned depth);

static bool key_add_list(struct buf *key, const cJSON *list, unsigned depth)
{
    const cJSON *it;

    cJSON_ArrayForEach(it, list)
    {
        if (!key_add(key, it, depth + 1))
            return false;
    }
    return true;
}

/* Appends the schema without its annotations. False: it has other keywords than those of
 * strings. */
static bool key_add(struct buf *key, const cJSON *schema, unsigned depth)
{
    static const char *const passed[] = {"title", "description", "default", "examples"};
    static const char *const known[] = {"type",   "enum",      "const",    "pattern",
                                        "format", "minLength", "maxLength"};
    static const char *const lists[] = {"anyOf", "oneOf"};
    const cJSON *it;

    if (!cJSON_IsObject(schema) || depth > STRING_KEY_DEPTH)
        return false;
    buf_add_char(key, '{');
    cJSON_ArrayForEach(it, schema)
    {
        if (IS_ONE_OF(it->string, passed))
            continue;
        json_add_cstring(key, it->string);
        if (IS_ONE_OF(it->string, known))
            json_add_value(key, it);
        else if (!IS_ONE_OF(it->string, lists) || !key_add_list(key, it, depth))
            return false;
    }
    buf_add_char(key, '}');
    return true;
}

/* Makes the key of a string, its schema and how it is written: strings with the same key allow the
 * same texts. NULL: the schema refers to another one, or is of another kind, or there is no
 * memory. */
static char *string_key(const cJSON *schema, const struct schema_text *how)
{
    struct buf key;
    size_t n;

    buf_init(&key, STRING_KEY_MAX);
    json_add_cstring(&key, how->end);
    json_add_cstring(&key, how->others != NULL ? how->others : "");
    if (!key_add(&key, schema, 0) || key.err < 0) {
        buf_release(&key);
        return NULL;
    }
    return buf_detach(&key, &n);
}

/* Writes the strings of the schema. If their automaton is too large, the error names the argument.
 * False: there are none, or the builder has failed. */
static bool own_text(const struct calls_tool *t, const cJSON *schema, const struct schema_text *how,
                     struct grammar_piece *out)
{
    const bool has_failed = grammar_builder_error(t->b) != 0;
    const bool any = grammar_schema_text(t->b, t->parameters, schema, how, out);
    char why[200];

    snprintf(why, sizeof(why), "%s", grammar_builder_sentence(t->b));
    if (has_failed || grammar_builder_error(t->b) != ERR_LIMIT ||
        strncmp(why, "its automaton", 13) != 0)
        return any;
    grammar_builder_retell(t->b,
                           "the argument '%.60s' of '%.60s', which this model writes without "
                           "quotes: %s; give it a shorter 'maxLength' or 'pattern', or none",
                           t->key->name != NULL ? t->key->name : "", t->name, why);
    return false;
}

/* Finds the rule of the strings with that key, or NULL. */
static const uint32_t *find_shared(const struct calls_shared *shared, const char *key)
{
    for (uint32_t i = 0; i < shared->n; i++)
        if (strcmp(shared->strings[i].key, key) == 0)
            return &shared->strings[i].rule;
    return NULL;
}

/* Makes the piece a rule that other strings with the key can call; takes the key. */
static struct grammar_piece share_text(const struct calls_tool *t, char *key,
                                       struct grammar_piece piece)
{
    const uint32_t rule = grammar_rule(t->b, "");

    grammar_define(t->b, rule, piece);
    t->shared->strings[t->shared->n].key = key;
    t->shared->strings[t->shared->n++].rule = rule;
    return grammar_call(t->b, rule);
}

/* Writes a string. Most arguments are strings of one kind with many nodes: these share a rule. */
static bool text_piece(const struct calls_tool *t, const cJSON *schema,
                       const struct schema_text *how, struct grammar_piece *out)
{
    char *key = string_key(schema, how);
    const uint32_t *rule = key != NULL ? find_shared(t->shared, key) : NULL;
    bool any = true;

    if (rule != NULL)
        *out = grammar_call(t->b, *rule);
    else
        any = own_text(t, schema, how, out);
    if (rule == NULL && any && key != NULL && t->shared->n < CALLS_MAX_SHARED)
        *out = share_text(t, key, *out);
    else
        mem_free(key);
    return any;
}

/* Writes a string between the family's quotes. False: no string is allowed. */
static bool quoted_piece(const struct calls_tool *t, const cJSON *schema, struct grammar_piece *out)
{
    const struct schema_text how = {.end = t->family->quotes[1]};
    struct grammar_piece text;

    if (!text_piece(t, schema, &how, &text))
        return false;
    *out = grammar_then(t->b, calls_text_piece(t, t->family->quotes[0]), text);
    *out = grammar_then(t->b, *out, calls_text_piece(t, t->family->quotes[1]));
    return true;
}

#define OTHERS_MAX 320 /* bytes of alternatives */
#define OTHERS_REGEX_MAX (OTHERS_MAX + 32)

/* Returns the text right before the pattern's value. */
static const char *text_before_value(const struct call_pattern *p)
{
    const uint32_t hole = pattern_hole(p);

    return hole > 0 && p->at[hole - 1].kind == PATTERN_TEXT ? p->at[hole - 1].text : "";
}

/* Appends "|" and a regular expression of the text. */
static void add_escaped(char out[static OTHERS_MAX], const char *text)
{
    size_t n = strlen(out);

    n += (size_t)snprintf(out + n, OTHERS_MAX - n, "|");
    for (; *text != '\0' && n + 3 < OTHERS_MAX; text++)
        n += (size_t)snprintf(out + n, OTHERS_MAX - n,
                              isalnum((unsigned char)*text) ? "%c" : "\\%c", *text);
}

/* Adds, for each pattern of the family whose text before the value begins with that of p, the rest
 * of that text. A value may not begin with it: the reader would take the argument for one of that
 * pattern. */
static void add_longer_patterns(const struct family *f, const struct call_pattern *p,
                                char out[static OTHERS_MAX])
{
    const char *mine = text_before_value(p);
    const size_t n = strlen(mine);

    for (uint32_t i = 0; i < f->n_arguments; i++) {
        const char *other = text_before_value(&f->arguments[i]);

        if (n == 0 || strncmp(other, mine, n) != 0 || other[n] == '\0')
            continue;
        add_escaped(out, other + n);
        snprintf(out + strlen(out), OTHERS_MAX - strlen(out), "[\\s\\S]*");
    }
}

/* Makes a regular expression of the raw texts that the reader does not take for a string: values of
 * these types (call_value_add_text()), and arguments of another pattern. NULL: there are none. */
static const char *other_values(const struct family *f, const struct call_pattern *p,
                                unsigned types, char out[static OTHERS_REGEX_MAX])
{
    static const struct {
        unsigned type;
        const char *regex;
    } others[] = {
        {ARGUMENT_NULL, "|null|None"},
        {ARGUMENT_BOOLEAN, "|true|True|false|False"},
        {ARGUMENT_INTEGER, "|-?(0|[1-9][0-9]*)(\\.0+)?"},
        {ARGUMENT_NUMBER, "|-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?"},
        {ARGUMENT_ARRAY, "|\\[[\\s\\S]*"},
        {ARGUMENT_OBJECT, "|\\{[\\s\\S]*"},
    };
    char any[OTHERS_MAX] = "";

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if ((types & others[i].type) != 0)
            snprintf(any + strlen(any), sizeof(any) - strlen(any), "%s", others[i].regex);
    add_longer_patterns(f, p, any);
    if (any[0] == '\0')
        return NULL;
    snprintf(out, OTHERS_REGEX_MAX, "[ \\t\\r\\n]*(%s)[ \\t\\r\\n]*", any + 1);
    return out;
}

/* Writes the strings of the schema as the pattern's hole has them. False: there are none. */
static bool string_piece(const struct calls_tool *t, const struct call_pattern *p,
                         const cJSON *schema, unsigned types, struct grammar_piece *out)
{
    const enum pattern_kind kind = p->at[pattern_hole(p)].kind;
    struct schema_text how = {.end = argument_end(p)};
    char others[OTHERS_REGEX_MAX];

    if ((types & ARGUMENT_STRING) == 0 || kind == PATTERN_VALUE_JSON)
        return false;
    if (kind == PATTERN_VALUE_QUOTED)
        return quoted_piece(t, schema, out);
    if (kind != PATTERN_VALUE_STRING)
        how.others = other_values(t->family, p, types | t->read_types, others);
    return text_piece(t, schema, &how, out);
}

/* Writes the values of the schema, of these types, as the pattern's hole has them. False: there are
 * none. */
static bool value_piece(const struct calls_tool *t, const struct call_pattern *p,
                        const cJSON *schema, unsigned types, struct grammar_piece *out)
{
    const enum pattern_kind kind = p->at[pattern_hole(p)].kind;
    const bool has_others = (types & ~(unsigned)ARGUMENT_STRING) != 0;
    struct grammar_piece others;
    bool has_strings;

    if (kind == PATTERN_VALUE_PYTHON ||
        (kind == PATTERN_VALUE_JSON && !has_kind(t->family, PATTERN_VALUE_STRING))) {
        *out =
            grammar_schema_within(t->b, t->parameters, schema, true, kind == PATTERN_VALUE_PYTHON);
        return true;
    }
    has_strings = string_piece(t, p, schema, types, out);
    if (kind == PATTERN_VALUE_STRING || !has_others)
        return has_strings;
    others = grammar_schema_within(t->b, t->parameters, schema, false, false);
    *out = has_strings ? grammar_or(t->b, *out, others) : others;
    return true;
}

/* Writes one argument pattern with the key and its value. False: it cannot have such a value. */
static bool pattern_argument(const struct calls_tool *t, const struct call_pattern *p,
                             const cJSON *schema, unsigned types, struct grammar_piece *out)
{
    const uint32_t hole = pattern_hole(p);
    struct grammar_piece value;
    const enum pattern_kind kind = p->at[hole].kind;

    if ((kind == PATTERN_VALUE_STRING && (types & ARGUMENT_STRING) == 0) ||
        (kind == PATTERN_VALUE_JSON && types == ARGUMENT_STRING &&
         has_kind(t->family, PATTERN_VALUE_STRING)))
        return false;
    if (!value_piece(t, p, schema, types, &value))
        return false;
    *out = grammar_then(t->b, calls_pattern_piece(t, p, 0, hole), value);
    *out = grammar_then(t->b, *out, calls_pattern_piece(t, p, hole + 1, p->n));
    return true;
}

/* ---- keys ---- */

/* Returns the first byte of the text after the key, which the key cannot have: it would end
 * there. */
static char end_of_key(const struct call_pattern *p, bool *is_bare)
{
    for (uint32_t i = 0; i + 1 < p->n; i++)
        if (p->at[i].kind == PATTERN_KEY && p->at[i + 1].kind == PATTERN_TEXT) {
            *is_bare = i == 0;
            return p->at[i + 1].text[0];
        }
    *is_bare = false;
    return '\0';
}

/* Makes a regular expression for keys that no property names: words if keys have no mark before
 * them, else characters that cannot end a key. */
static void free_keys(const struct family *f, char out[static 80])
{
    bool is_bare = false, is_word = false;
    char ends[3 * FAMILY_MAX_LINES + 1] = "";

    for (uint32_t i = 0; i < f->n_arguments; i++) {
        const char end = end_of_key(&f->arguments[i], &is_bare);

        is_word = is_word || is_bare;
        if (end != '\0')
            snprintf(ends + strlen(ends), sizeof(ends) - strlen(ends), "\\%c", end);
    }
    if (is_word)
        snprintf(out, 80, "[A-Za-z_][A-Za-z0-9_]{0,63}");
    else
        snprintf(out, 80, "(?!/)[^\\x00-\\x20\\x7f-\\xa0<>&\"\\[\\]{}|%s]{1,64}", ends);
}

/* True: the parser of answers can find the key's end. */
static bool can_be_read(const struct family *f, const char *key)
{
    static const char ends_bare[] = "<>{}[]()\"'`,;|\\";
    bool is_bare;

    if (key[0] == '\0' || pattern_is_blank(key[0]) || pattern_is_blank(key[strlen(key) - 1]))
        return false;
    if (key[0] == '/' && has_kind(f, PATTERN_VALUE_TAGS))
        return false;
    for (uint32_t i = 0; i < f->n_arguments; i++) {
        const char end = end_of_key(&f->arguments[i], &is_bare);

        if ((end != '\0' && strchr(key, end) != NULL) ||
            (is_bare && strpbrk(key, ends_bare) != NULL))
            return false;
    }
    return true;
}

/* ---- arguments ---- */

/* Writes an argument: a choice of the patterns that can have its value. */
static struct grammar_piece argument_piece(const struct calls_tool *t, const cJSON *schema)
{
    const unsigned types = call_value_schema_types(t->parameters, schema);
    struct grammar_piece p = {0}, q;
    bool any = false;

    for (uint32_t i = 0; i < t->family->n_arguments; i++) {
        if (!pattern_argument(t, &t->family->arguments[i], schema, types, &q))
            continue;
        p = any ? grammar_or(t->b, p, q) : q;
        any = true;
    }
    if (!any)
        grammar_builder_fail(
            t->b, ERR_UNSUPPORTED,
            "the schema of the argument '%.60s' allows no value that this model can write",
            t->key->name != NULL ? t->key->name : "");
    return p;
}

static struct grammar_piece member_piece(void *ud, const struct schema_key *key,
                                         const cJSON *schema)
{
    const struct calls_tool *t = ud;
    struct calls_tool one = *t;
    uint32_t rule;

    if (key->name != NULL && !can_be_read(t->family, key->name)) {
        grammar_builder_fail(t->b, ERR_UNSUPPORTED,
                             "the argument name '%.60s' has a character that ends argument names "
                             "here; rename the argument",
                             key->name);
        return (struct grammar_piece){0};
    }
    one.is_argument = true;
    one.key = key;
    one.read_types = call_value_key_types(t->parameters, key->name);
    rule = grammar_rule(t->b, "an argument");
    grammar_define(t->b, rule, argument_piece(&one, schema));
    return grammar_call(t->b, rule);
}

static struct grammar_piece comma_piece(void *ud)
{
    const struct calls_tool *t = ud;
    const struct call_pattern *comma = &t->family->comma;

    return comma->n > 0 ? calls_pattern_piece(t, comma, 0, comma->n) : grammar_empty(t->b);
}

/* Finds enum and const: objects that are listed as a whole cannot be written argument by
 * argument. */
const char *calls_arguments_unsupported(const cJSON *parameters)
{
    static const char *const keywords[] = {"enum", "const"};

    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
        if (cJSON_GetObjectItemCaseSensitive(parameters, keywords[i]) != NULL)
            return keywords[i];
    return NULL;
}

static void add_name(void *ud, const cJSON *root, const cJSON *property)
{
    (void)root;
    json_put(ud, NULL, cJSON_CreateString(property->string));
}

struct grammar_piece calls_arguments_piece(const struct calls_tool *t)
{
    char keys[80], why[200];
    struct calls_tool own = *t;
    cJSON *names = cJSON_CreateArray();
    const struct schema_members how = {
        .ud = &own, .member = member_piece, .comma = comma_piece, .keys = keys, .names = names};
    struct grammar_piece p = {0};

    if (grammar_builder_error(t->b) != 0) {
        cJSON_Delete(names);
        return p;
    }
    json_watch();
    free_keys(t->family, keys);
    call_value_each_property(t->parameters, add_name, names);
    if (names == NULL || json_is_incomplete())
        grammar_builder_fail(t->b, ERR_NOMEM, "out of memory");
    else
        p = grammar_schema_members(t->b, t->parameters, &how);
    cJSON_Delete(names);
    if (grammar_builder_error(t->b) == ERR_UNSUPPORTED ||
        grammar_builder_error(t->b) == ERR_INVAL) {
        snprintf(why, sizeof(why), "%s", grammar_builder_sentence(t->b));
        grammar_builder_retell(t->b,
                               "the parameters of '%.60s', which this model writes argument "
                               "by argument: %s",
                               t->name, why);
    }
    return p;
}
