/* core/grammar/json_schema_object.c - JSON objects of a schema.
 *
 * Members come in the order of `properties`. Where some are required, a member before the first
 * required one has its comma after it, a later one has its comma before it, so no list of commas
 * depends on what was left out. Where none is required, any member may be the first, and what can
 * follow each is a rule. With minProperties or maxProperties there is a rule for each member and
 * each number of members before it.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/expr.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/json_schema_keys.h"

#include <string.h>

#define MAX_PROPERTIES 1000
#define MAX_COUNTED 4000 /* members times counts */

struct member {
    const char *name;
    const cJSON *schema; /* NULL: any value */
    bool is_required;
};

struct object {
    struct member *members; /* [MAX_PROPERTIES] */
    uint32_t n, n_required;
    const cJSON *additional; /* schema of keys that no pattern matches; NULL: none are written */
    struct schema_keys *keys;
    const char **names; /* [MAX_PROPERTIES] names of all members, forbidden ones too */
    uint32_t n_names;
    bool has_others;   /* members beyond those names may be written */
    uint32_t other;    /* rule of a member beyond those names */
    uint32_t min, max; /* least and most members */
};

/* ---- reading ---- */

static struct member *find_member(struct schema *s, struct object *o, const char *name)
{
    schema_spend(s, 1 + o->n / 2);
    for (uint32_t i = 0; i < o->n; i++)
        if (strcmp(o->members[i].name, name) == 0)
            return &o->members[i];
    return NULL;
}

static struct member *add_object_member(struct schema *s, const struct schema_node *at,
                                        struct object *o, const char *name, const cJSON *schema)
{
    if (o->n == MAX_PROPERTIES) {
        schema_refuse(s, at, "the schema has more than %d properties", MAX_PROPERTIES);
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
    cJSON_ArrayForEach(it, properties)
    {
        struct member *known = find_member(s, o, it->string);

        if (schema_has_failed(s))
            return;
        if (known != NULL)
            known->schema = it; /* the last of duplicate keys counts */
        else
            add_object_member(s, at, o, it->string, it);
    }
}

static void read_required(struct schema *s, const struct schema_node *at, struct object *o)
{
    const cJSON *required = schema_get(at->schema, "required"), *it;

    if (required != NULL && !cJSON_IsArray(required))
        schema_refuse(s, at, "'required' must be a list of names");
    cJSON_ArrayForEach(it, required)
    {
        struct member *m;

        if (!cJSON_IsString(it))
            schema_refuse(s, at, "'required' must be a list of names");
        if (schema_has_failed(s))
            return;
        m = find_member(s, o, it->valuestring);
        if (m == NULL)
            m = add_object_member(s, at, o, it->valuestring, NULL);
        if (m == NULL)
            return;
        o->n_required += !m->is_required;
        m->is_required = true;
    }
}

/* Applies patterns and additionalProperties to the members that have names. */
static void settle_members(struct schema *s, const struct schema_node *at, struct object *o)
{
    const cJSON *additional = schema_get(at->schema, "additionalProperties");

    for (uint32_t i = 0; i < o->n && !schema_has_failed(s); i++)
        schema_keys_name(s, o->keys, o->members[i].name);
    for (uint32_t i = 0; i < o->n && !schema_has_failed(s); i++) {
        struct member *m = &o->members[i];

        m->schema = schema_keys_settle(s, at, o->keys, m->name, m->schema, additional);
        if (m->is_required && cJSON_IsFalse(m->schema))
            schema_refuse(s, at, "'%.60s' is required, but its schema allows no value", m->name);
        o->names[o->n_names++] = m->name;
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

static void read_counts(struct schema *s, const struct schema_node *at, struct object *o)
{
    o->min = schema_count(s, at, "minProperties", 0);
    o->max = schema_count(s, at, "maxProperties", GRAMMAR_NO_LIMIT);
    if (o->min > o->max)
        schema_refuse(s, at, "minProperties is above maxProperties");
    if (o->max < o->n_required)
        schema_refuse(s, at, "'maxProperties' is below the number of required properties");
    if (o->min > o->n + o->has_others) /* a key beyond the names might come twice */
        schema_refuse(s, at, "'minProperties' above the number of properties is not supported");
}

static void read_object(struct schema *s, const struct schema_node *at, struct object *o)
{
    const cJSON *additional = schema_get(at->schema, "additionalProperties");
    const bool has_named = schema_get(at->schema, "properties") != NULL ||
                           schema_get(at->schema, "patternProperties") != NULL;

    if (additional != NULL && !cJSON_IsObject(additional) && !cJSON_IsBool(additional))
        schema_refuse(s, at, "'additionalProperties' must be a schema");
    o->keys = schema_keys_create(s, at);
    read_properties(s, at, o);
    read_required(s, at, o);
    settle_members(s, at, o);
    if (additional != NULL ? !cJSON_IsFalse(additional) : !has_named)
        o->additional = additional != NULL ? additional : schema_keep(s, at, cJSON_CreateTrue());
    if (!schema_has_failed(s))
        o->has_others =
            schema_keys_others(s, at, o->keys, o->names, o->n_names, o->additional, &o->other);
    drop_forbidden(o);
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

/* Writes a member through the caller's callback instead of as JSON. */
static void write_own(struct schema *s, const struct schema_node *at, const struct member *m,
                      struct grammar_piece *out)
{
    const struct schema_key named = {.name = m->name};
    const cJSON *schema = m->schema;

    if (schema == NULL)
        schema = schema_keep(s, at, cJSON_CreateTrue());
    if (!schema_has_failed(s))
        *out = s->members->member(s->members->ud, &named, schema);
}

static struct grammar_piece write_member(struct schema *s, const struct schema_node *at,
                                         const struct member *m)
{
    const struct schema_node in = schema_in(at, m->schema, "properties", m->name);
    struct grammar_piece p = {0};

    if (s->members != NULL) {
        write_own(s, at, m, &p);
        return p;
    }
    p = key(s, m->name);
    p = grammar_then(s->b, p, schema_colon(s));
    if (m->schema == NULL)
        return grammar_then(s->b, p, grammar_call(s->b, schema_value_rule(s)));
    return grammar_then(s->b, p, schema_write(s, &in));
}

/* ---- additional members ---- */

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

/* Writes an object whose members are all additional; min is at most 1. */
static struct grammar_piece additional_alone(struct schema *s, const struct object *o)
{
    struct grammar_piece p;

    if (o->max == 0)
        return grammar_empty(s->b);
    p = grammar_call(s->b, o->other);
    if (o->max > 1)
        p = grammar_then(s->b, p, more_additional(s, o->other, 0, less_one(o->max)));
    return o->min == 0 ? grammar_repeat(s->b, p, 0, 1) : p;
}

/* ---- putting members together ---- */

/* Writes the members if some are required, with commas as described above. */
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

/* Writes the members if none is required. `rest` is the rule of the members that can follow the
 * current one; each member is a rule as well. */
static struct grammar_piece all_optional(struct schema *s, const struct schema_node *at,
                                         const struct object *o)
{
    uint32_t rest = grammar_rule(s->b, "further members"), before;
    struct grammar_piece p = grammar_empty(s->b), q;

    grammar_define(s->b, rest,
                   o->has_others ? more_additional(s, o->other, 0, GRAMMAR_NO_LIMIT)
                                 : grammar_empty(s->b));
    if (o->has_others) {
        q = grammar_call(s->b, o->other);
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

/* ---- counting ---- */

struct counted {
    struct schema *s;
    const struct object *o;
    uint32_t cap;      /* larger counts are treated as this one */
    uint32_t *members; /* [n] rules */
    uint32_t *rests;   /* [(n + 1) * (cap + 1)] rule + 1 of what follows, 0: no object does */
};

static uint32_t *rest_at(const struct counted *c, uint32_t member, uint32_t count)
{
    return &c->rests[member * (c->cap + 1) + (count < c->cap ? count : c->cap)];
}

/* Writes what can follow all named members after `count` members; false: no object does. */
static bool count_others(const struct counted *c, uint32_t count, struct grammar_piece *out)
{
    const struct object *o = c->o;
    const uint32_t lacks = o->min > count ? o->min - count : 0;
    const uint32_t room = o->max == GRAMMAR_NO_LIMIT ? o->max : o->max - count;
    struct grammar_builder *b = c->s->b;

    if (lacks > 1 || (lacks == 1 && (!o->has_others || room == 0)))
        return false;
    if (!o->has_others || room == 0) {
        *out = grammar_empty(b);
    } else if (count > 0) {
        *out = more_additional(c->s, o->other, lacks, room);
    } else {
        *out = grammar_call(b, o->other);
        if (room > 1)
            *out = grammar_then(b, *out, more_additional(c->s, o->other, 0, less_one(room)));
        if (lacks == 0)
            *out = grammar_repeat(b, *out, 0, 1);
    }
    return true;
}

/* Writes what can follow member i - 1 after `count` members: member i or not; false: no object
 * does. */
static bool count_member(const struct counted *c, uint32_t i, uint32_t count,
                         struct grammar_piece *out)
{
    const uint32_t *with = rest_at(c, i + 1, count + 1), *without = rest_at(c, i + 1, count);
    struct grammar_builder *b = c->s->b;
    bool any = false;

    if (count<c->o->max && * with> 0) {
        *out = count > 0 ? schema_comma(c->s) : grammar_empty(b);
        *out = grammar_then(b, *out, grammar_call(b, c->members[i]));
        *out = grammar_then(b, *out, grammar_call(b, *with - 1));
        any = true;
    }
    if (!c->o->members[i].is_required && *without > 0) {
        const struct grammar_piece p = grammar_call(b, *without - 1);

        *out = any ? grammar_or(b, *out, p) : p;
        any = true;
    }
    return any;
}

static void fill_rests(const struct counted *c)
{
    for (uint32_t i = c->o->n + 1; i-- > 0;)
        for (uint32_t count = 0; count <= c->cap && count <= i && !schema_has_failed(c->s);
             count++) {
            struct grammar_piece p = {0};
            uint32_t rule;

            if (i == c->o->n ? !count_others(c, count, &p) : !count_member(c, i, count, &p))
                continue;
            rule = grammar_rule(c->s->b, "further members");
            grammar_define(c->s->b, rule, p);
            *rest_at(c, i, count) = rule + 1;
        }
}

/* Writes members with counts: a rule for what can follow each member, for each number of members
 * before it. */
static struct grammar_piece counted(struct schema *s, const struct schema_node *at,
                                    const struct object *o)
{
    struct counted c = {.s = s, .o = o, .cap = o->max != GRAMMAR_NO_LIMIT ? o->max : o->min};
    struct grammar_piece p = {0};

    c.cap = c.cap > o->n ? o->n : c.cap;
    if ((uint64_t)(o->n + 1) * (c.cap + 1) > MAX_COUNTED)
        return schema_refuse(
            s, at, "'minProperties' or 'maxProperties' with so many properties is not supported");
    c.members = mem_calloc(o->n, sizeof(*c.members));
    c.rests = mem_calloc((o->n + 1) * (c.cap + 1), sizeof(*c.rests));
    if (c.members == NULL || c.rests == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < o->n && !schema_has_failed(s); i++) {
        c.members[i] = grammar_rule(s->b, "a member");
        grammar_define(s->b, c.members[i], write_member(s, at, &o->members[i]));
    }
    if (!schema_has_failed(s))
        fill_rests(&c);
    if (!schema_has_failed(s) && c.rests[0] == 0)
        schema_refuse(s, at,
                      "no object can have the number of members that 'minProperties' requires");
    if (!schema_has_failed(s))
        p = grammar_call(s->b, c.rests[0] - 1);
    mem_free(c.members);
    mem_free(c.rests);
    return p;
}

static struct grammar_piece write_members(struct schema *s, const struct schema_node *at,
                                          const struct object *o)
{
    struct grammar_piece p;

    if (o->n == 0)
        return o->has_others ? additional_alone(s, o) : grammar_empty(s->b);
    if (o->min > o->n_required || o->max < o->n || (o->max != GRAMMAR_NO_LIMIT && o->has_others))
        return counted(s, at, o);
    if (o->n_required == 0)
        return all_optional(s, at, o);
    p = around_required(s, at, o);
    if (o->has_others)
        p = grammar_then(s->b, p, more_additional(s, o->other, 0, GRAMMAR_NO_LIMIT));
    return p;
}

struct grammar_piece schema_object(struct schema *s, const struct schema_node *at)
{
    struct object o = {.members = mem_calloc(MAX_PROPERTIES, sizeof(*o.members)),
                       .names = mem_calloc(MAX_PROPERTIES, sizeof(*o.names))};
    struct grammar_piece p = {0}, inside;

    if (o.members == NULL || o.names == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    else
        read_object(s, at, &o);
    if (!schema_has_failed(s)) {
        p = s->members != NULL ? grammar_empty(s->b) : grammar_text(s->b, "{");
        inside = write_members(s, at, &o);
        p = grammar_then(s->b, p, inside);
        if (s->members == NULL)
            p = grammar_then(s->b, p, grammar_text(s->b, "}"));
    }
    schema_keys_destroy(&o.keys);
    mem_free(o.members);
    mem_free(o.names);
    return p;
}

/* ---- members that stand one by one ---- */

static const cJSON *only_objects(struct schema *s)
{
    const struct schema_node at = {.schema = s->root, .pointer = "#"};
    cJSON *also = schema_keep(s, &at, cJSON_CreateObject());

    if (also != NULL && cJSON_AddStringToObject(also, "type", "object") == NULL)
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
    return also != NULL ? schema_merge_two(s, &at, s->root, also) : NULL;
}

struct grammar_piece grammar_schema_members(struct grammar_builder *b, const cJSON *root,
                                            const struct schema_members *how)
{
    struct grammar_piece p = {0};
    struct schema s;

    if (schema_begin(&s, b, root) == 0) {
        const cJSON *schema = only_objects(&s);

        s.members = how;
        if (schema != NULL && schema_is_impossible(schema))
            grammar_builder_fail(b, ERR_UNSUPPORTED, "no object is valid");
        else if (schema != NULL)
            p = schema_rules(&s, schema);
    }
    schema_end(&s);
    return p;
}

struct grammar_piece grammar_schema_key(struct grammar_builder *b, const struct schema_key *key)
{
    return key->name != NULL ? grammar_text(b, key->name) : expr_piece(key->set, key->keys, false);
}
