/* core/grammar/json_schema_object.c - JSON objects of a schema.
 *
 * Members come in the order of `properties`. Up to the first required one each may stand, with a
 * comma behind it; after that one each may stand with a comma before it. Where nothing is required
 * the first member may be any, and what can follow it is a rule for each.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/grammar/char_class.h"
#include "core/grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PROPERTIES 1000
#define OTHER_KEY_CHARS 64 /* that a key beyond `properties` has at most, about */
#define MAX_KEY 128 /* bytes, where keys have to be told apart from all others */

struct member {
    const char *name;
    const cJSON *schema; /* NULL: additionalProperties says */
    bool is_required;
};

struct object {
    struct member *members; /* [MAX_PROPERTIES] */
    uint32_t n, n_required;
    const cJSON *additional; /* NULL: none are written */
    uint32_t min, max;       /* of the additional ones */
};

/* ---- reading ---- */

static struct member *find(struct schema *s, struct object *o, const char *name)
{
    schema_spend(s, 1 + o->n / 2);
    for (uint32_t i = 0; i < o->n; i++)
        if (strcmp(o->members[i].name, name) == 0)
            return &o->members[i];
    return NULL;
}

static struct member *add_member(struct schema *s, const struct schema_node *at, struct object *o,
                                 const char *name, const cJSON *schema)
{
    if (o->n == MAX_PROPERTIES) {
        schema_refuse(s, at, "more than %d properties", MAX_PROPERTIES);
        return NULL;
    }
    o->members[o->n] = (struct member){.name = name, .schema = schema};
    return &o->members[o->n++];
}

static void read_properties(struct schema *s, const struct schema_node *at, struct object *o)
{
    const cJSON *properties = schema_get(at->schema, "properties"), *it;

    if (properties != NULL && !cJSON_IsObject(properties)) {
        schema_refuse(s, at, "'properties' must be an object");
        return;
    }
    cJSON_ArrayForEach(it, properties) {
        struct member *known = find(s, o, it->string);

        if (schema_has_failed(s))
            return;
        if (known != NULL)
            known->schema = it; /* of duplicate keys the last one holds */
        else
            add_member(s, at, o, it->string, it);
    }
}

static void read_required(struct schema *s, const struct schema_node *at, struct object *o)
{
    const cJSON *required = schema_get(at->schema, "required"), *it;

    if (required != NULL && !cJSON_IsArray(required))
        schema_refuse(s, at, "'required' must be a list of names");
    cJSON_ArrayForEach(it, required) {
        struct member *m;

        if (!cJSON_IsString(it))
            schema_refuse(s, at, "'required' must be a list of names");
        if (schema_has_failed(s))
            return;
        m = find(s, o, it->valuestring);
        if (m == NULL)
            m = add_member(s, at, o, it->valuestring,
                           schema_get(at->schema, "additionalProperties"));
        if (m == NULL)
            return;
        if (cJSON_IsFalse(m->schema))
            schema_refuse(s, at, "'%.60s' is required and not allowed", m->name);
        o->n_required += !m->is_required;
        m->is_required = true;
    }
}

/* Members whose schema is false are never written. */
static void drop_forbidden(struct object *o)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < o->n; i++)
        if (!cJSON_IsFalse(o->members[i].schema))
            o->members[n++] = o->members[i];
    o->n = n;
}

/* How many members there are may only be said where nothing has to be counted to keep to it, or
 * where all are of one kind. */
static void read_counts(struct schema *s, const struct schema_node *at, struct object *o)
{
    const uint32_t min = schema_count(s, at, "minProperties", 0);
    const uint32_t max = schema_count(s, at, "maxProperties", GRAMMAR_NO_LIMIT);

    o->min = 0;
    o->max = GRAMMAR_NO_LIMIT;
    if (o->n == 0 && o->additional != NULL) {
        o->min = min;
        o->max = max;
        if (min > 1) /* the same key might come twice */
            schema_refuse(s, at, "'minProperties' above 1 is not supported");
        if (min > max)
            schema_refuse(s, at, "minProperties is above maxProperties");
        return;
    }
    if (min > o->n_required)
        schema_refuse(s, at, "'minProperties' above the number of required ones is not supported");
    if (max < o->n || (max != GRAMMAR_NO_LIMIT && o->additional != NULL))
        schema_refuse(s, at, "'maxProperties' below the number of properties is not supported");
}

static void read_object(struct schema *s, const struct schema_node *at, struct object *o)
{
    const cJSON *additional = schema_get(at->schema, "additionalProperties");
    const bool has_properties = schema_get(at->schema, "properties") != NULL;

    if (additional != NULL && !cJSON_IsObject(additional) && !cJSON_IsBool(additional))
        schema_refuse(s, at, "'additionalProperties' must be a schema");
    read_properties(s, at, o);
    read_required(s, at, o);
    if (additional != NULL ? !cJSON_IsFalse(additional) : !has_properties)
        o->additional =
            additional != NULL ? additional : schema_keep(s, at, cJSON_CreateTrue());
    read_counts(s, at, o);
}

/* ---- members ---- */

static struct grammar_piece key(struct schema *s, const char *name)
{
    struct buf text;
    struct grammar_piece p;

    buf_init(&text, 8 * strlen(name) + 16);
    json_add_cstring(&text, name);
    if (text.err < 0)
        grammar_builder_fail(s->b, text.err, "out of memory");
    p = grammar_bytes(s->b, text.data, text.err < 0 ? 0 : text.len);
    buf_release(&text);
    return p;
}

static struct grammar_piece write_member(struct schema *s, const struct schema_node *at,
                                         const struct member *m)
{
    const struct schema_node in = schema_in(at, m->schema, "properties", m->name);
    struct grammar_piece p = key(s, m->name);

    p = grammar_then(s->b, p, schema_colon(s));
    if (m->schema == NULL)
        return grammar_then(s->b, p, grammar_call(s->b, schema_value_rule(s)));
    return grammar_then(s->b, p, schema_write(s, &in));
}

/* ---- additional members ---- */

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
    struct char_class c = {.n = 0};

    if (s->plain < 0) {
        plain_chars(&c);
        s->plain = (int32_t)grammar_rule(s->b, "a character of a key");
        grammar_define(s->b, (uint32_t)s->plain, grammar_chars(s->b, c.at, c.n));
    }
    return grammar_repeat_rule(s->b, (uint32_t)s->plain, 0, OTHER_KEY_CHARS);
}

/* What may follow the first `at` bytes of names[from .. to - 1], which they share, so that in the
 * end none of them stands there. Recursion is as deep as a name is long. */
static struct grammar_piece other_ends(const struct other_keys *k, uint32_t from, uint32_t to,
                                       size_t at)
{
    struct schema *s = k->s;
    const bool is_name = k->names[from][at] == '\0';
    struct char_class others = {.n = 0};
    struct grammar_piece p, q;

    plain_chars(&others);
    for (uint32_t i = from + is_name, last = CHAR_LAST + 1; i < to && !schema_has_failed(s); i++) {
        size_t len;
        const uint32_t c = unicode_at(k->names[i] + at, strlen(k->names[i] + at) + 1, &len);

        schema_spend(s, c == last ? 4 : 100 + 10 * (uint64_t)others.n);
        if (c != last) /* they are sorted */
            char_class_remove(&others, c, c);
        last = c;
    }
    p = grammar_chars(s->b, others.at, others.n);
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

/* The keys made here have no escapes, so a name that needs some is told apart by itself. */
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
    if (strlen(name) > MAX_KEY || k->n == MAX_PROPERTIES)
        schema_refuse(k->s, at, "additionalProperties beside the property '%.40s' is not supported",
                      name);
    else
        k->names[k->n++] = name;
}

static struct grammar_piece other_key(struct schema *s, const struct schema_node *at,
                                      const struct object *o)
{
    struct other_keys k = {.s = s};
    struct grammar_piece p = grammar_text(s->b, "\"");

    k.names = mem_calloc(MAX_PROPERTIES, sizeof(*k.names));
    if (k.names == NULL) {
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
        return p;
    }
    for (uint32_t i = 0; i < o->n; i++) /* those that are forbidden, too */
        avoid(&k, at, o->members[i].name);
    qsort(k.names, k.n, sizeof(*k.names), compare_names);
    if (!schema_has_failed(s))
        p = grammar_then(s->b, p, k.n > 0 ? other_ends(&k, 0, k.n, 0) : any_plain(s));
    mem_free(k.names);
    return grammar_then(s->b, p, grammar_text(s->b, "\""));
}

/* The rule of a member beyond `properties`. */
static uint32_t additional_rule(struct schema *s, const struct schema_node *at,
                                const struct object *o)
{
    const struct schema_node in = schema_in(at, o->additional, "additionalProperties", NULL);
    const uint32_t rule = grammar_rule(s->b, "an additional member");
    struct grammar_piece p = other_key(s, at, o);

    p = grammar_then(s->b, p, schema_colon(s));
    grammar_define(s->b, rule, grammar_then(s->b, p, schema_write(s, &in)));
    return rule;
}

static struct grammar_piece more_additional(struct schema *s, uint32_t rule, uint32_t min,
                                            uint32_t max)
{
    struct grammar_piece p = schema_comma(s);

    p = grammar_then(s->b, p, grammar_call(s->b, rule));
    return grammar_repeat(s->b, p, min, max);
}

static uint32_t less_one(uint32_t n)
{
    return n == GRAMMAR_NO_LIMIT ? n : n - 1;
}

/* All members are additional. */
static struct grammar_piece additional_alone(struct schema *s, const struct object *o,
                                             uint32_t rule)
{
    struct grammar_piece p;

    if (o->max == 0)
        return grammar_empty(s->b);
    p = grammar_call(s->b, rule);
    if (o->max > 1)
        p = grammar_then(s->b, p, more_additional(s, rule, 0, less_one(o->max)));
    return o->min == 0 ? grammar_repeat(s->b, p, 0, 1) : p;
}

/* ---- putting members together ---- */

/* Some member is required: see above. */
static struct grammar_piece around_required(struct schema *s, const struct schema_node *at,
                                            const struct object *o)
{
    struct grammar_piece p = grammar_empty(s->b), q;
    bool found = false;

    for (uint32_t i = 0; i < o->n && !schema_has_failed(s); i++) {
        const struct member *m = &o->members[i];

        if (!found && m->is_required) {
            q = write_member(s, at, m);
        } else if (!found) {
            q = write_member(s, at, m);
            q = grammar_then(s->b, q, schema_comma(s));
            q = grammar_repeat(s->b, q, 0, 1);
        } else {
            q = schema_comma(s);
            q = grammar_then(s->b, q, write_member(s, at, m));
            q = m->is_required ? q : grammar_repeat(s->b, q, 0, 1);
        }
        found = found || m->is_required;
        p = grammar_then(s->b, p, q);
    }
    return p;
}

/* None is: rests[i] is what can follow member i, a rule; members are rules as well. */
static struct grammar_piece all_optional(struct schema *s, const struct schema_node *at,
                                         const struct object *o, uint32_t additional)
{
    uint32_t rest = grammar_rule(s->b, "further members"), before;
    struct grammar_piece p = grammar_empty(s->b), q;

    grammar_define(s->b, rest, o->additional != NULL
                                   ? more_additional(s, additional, 0, GRAMMAR_NO_LIMIT)
                                   : grammar_empty(s->b));
    if (o->additional != NULL) {
        q = grammar_call(s->b, additional);
        q = grammar_then(s->b, q, grammar_call(s->b, rest));
        p = grammar_or(s->b, p, q);
    }
    for (uint32_t i = o->n; i-- > 0 && !schema_has_failed(s);) {
        const uint32_t member = grammar_rule(s->b, "a member");

        grammar_define(s->b, member, write_member(s, at, &o->members[i]));
        q = grammar_call(s->b, member);
        q = grammar_then(s->b, q, grammar_call(s->b, rest));
        p = grammar_or(s->b, p, q);
        before = rest;
        rest = grammar_rule(s->b, "further members");
        q = schema_comma(s);
        q = grammar_then(s->b, q, grammar_call(s->b, member));
        q = grammar_repeat(s->b, q, 0, 1);
        grammar_define(s->b, rest, grammar_then(s->b, q, grammar_call(s->b, before)));
    }
    return p;
}

static struct grammar_piece write_members(struct schema *s, const struct schema_node *at,
                                          struct object *o)
{
    uint32_t additional = 0;
    struct grammar_piece p;

    if (o->additional != NULL)
        additional = additional_rule(s, at, o);
    drop_forbidden(o);
    if (o->n == 0)
        return o->additional != NULL ? additional_alone(s, o, additional) : grammar_empty(s->b);
    if (o->n_required == 0)
        return all_optional(s, at, o, additional);
    p = around_required(s, at, o);
    if (o->additional != NULL)
        p = grammar_then(s->b, p, more_additional(s, additional, 0, GRAMMAR_NO_LIMIT));
    return p;
}

struct grammar_piece schema_object(struct schema *s, const struct schema_node *at)
{
    struct object o = {.members = mem_calloc(MAX_PROPERTIES, sizeof(*o.members))};
    struct grammar_piece p = {0}, inside;

    if (o.members == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    else
        read_object(s, at, &o);
    if (!schema_has_failed(s)) {
        p = grammar_text(s->b, "{");
        inside = write_members(s, at, &o);
        p = grammar_then(s->b, p, inside);
        p = grammar_then(s->b, p, grammar_text(s->b, "}"));
    }
    mem_free(o.members);
    return p;
}
