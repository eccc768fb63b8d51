/* core/grammar/json_schema_known.c - finds schemas by their address, and compares values.
 *
 * By a hash table of addresses, a schema that several others refer to is written and merged only
 * once. The functions here spend steps of the budget, because a schema decides how often they are
 * called.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/err.h"
#include "core/json/json_number.h"

#include <string.h>

void schema_spend(struct schema *s, uint64_t n)
{
    grammar_builder_spend(s->b, n);
}

cJSON *schema_keep(struct schema *s, const struct schema_node *at, cJSON *made)
{
    if (made == NULL) {
        grammar_builder_fail(s->b, ERR_NOMEM, "out of memory");
        return NULL;
    }
    if (s->n_merged == SCHEMA_MAX_MERGED) {
        cJSON_Delete(made);
        schema_refuse(s, at, "'allOf' and '$ref' combine too many schemas");
        return NULL;
    }
    s->merged[s->n_merged++] = made;
    return made;
}

uint64_t schema_size(const cJSON *v)
{
    uint64_t n = 0;

    for (const cJSON *it = v != NULL ? v->child : NULL; it != NULL; it = it->next)
        n++;
    return n;
}

struct schema_known *schema_known(struct schema *s, const cJSON *schema)
{
    const uint64_t hash = (uint64_t)(uintptr_t)schema * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 40) % SCHEMA_KNOWN_SLOTS;

    while (s->known[at].schema != NULL && s->known[at].schema != schema)
        at = (at + 1) % SCHEMA_KNOWN_SLOTS;
    s->known[at].schema = schema;
    return &s->known[at];
}

/* ---- equal values ---- */

static bool equal_lists(struct schema *s, const cJSON *a, const cJSON *b)
{
    a = a->child;
    b = b->child;
    for (; a != NULL && b != NULL; a = a->next, b = b->next) {
        schema_spend(s, 1);
        if (schema_has_failed(s) || !schema_equal(s, a, b))
            return false;
    }
    return a == NULL && b == NULL;
}

/* True: each member of `a` is also in `b`. was_compared: all members of `b` were found in `a`, so
 * only a name that comes twice has a value that was not compared. (cJSON compares every value from
 * both sides, which takes time exponential in the depth.) */
static bool has_members(struct schema *s, const cJSON *a, const cJSON *b, bool was_compared)
{
    const uint64_t n = schema_size(a) + schema_size(b);

    for (const cJSON *it = a->child; it != NULL; it = it->next) {
        const cJSON *other;

        schema_spend(s, 1 + n);
        if (schema_has_failed(s))
            return false;
        other = schema_get(b, it->string);
        if (other == NULL)
            return false;
        if (was_compared && schema_get(a, it->string) == it)
            continue;
        if (!schema_equal(s, it, other))
            return false;
    }
    return true;
}

static bool equal_numbers(struct schema *s, const cJSON *a, const cJSON *b)
{
    const char *literal = json_number_literal(a);

    if (a->valuedouble != b->valuedouble)
        return false;
    schema_spend(s, literal != NULL ? 10 + strlen(literal) / 4 : 1);
    return json_number_compare(a, b) == 0;
}

bool schema_equal(struct schema *s, const cJSON *a, const cJSON *b)
{
    const int type = a->type & 0xFF;

    if (type != (b->type & 0xFF))
        return false;
    if (type == cJSON_Number)
        return equal_numbers(s, a, b);
    if (type == cJSON_String)
        return strcmp(a->valuestring, b->valuestring) == 0;
    if (type == cJSON_Array)
        return equal_lists(s, a, b);
    if (type == cJSON_Object)
        return has_members(s, a, b, false) && has_members(s, b, a, true);
    return true;
}
