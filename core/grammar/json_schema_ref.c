/* core/grammar/json_schema_ref.c - JSON pointers: the place of a node, and the target of $ref.
 *
 * schema_in() extends a node's pointer as the compiler descends, so each error can name its place;
 * a pointer that gets too long is cut. schema_target() follows a $ref step by step from the root of
 * the same document and spends steps for each list that it searches. Other documents are not
 * fetched.
 */
#include "core/grammar/json_schema_impl.h"

#include "core/base/hex.h"

#include <string.h>

/* ---- nodes ---- */

/* Appends a name to a JSON pointer, with ~ and / escaped. */
static void add_pointer_step(char *pointer, const char *name)
{
    size_t n = strlen(pointer);

    if (n + 1 < SCHEMA_MAX_POINTER)
        pointer[n++] = '/';
    for (; *name != '\0' && n + 2 < SCHEMA_MAX_POINTER; name++) {
        if (*name == '~' || *name == '/') {
            pointer[n++] = '~';
            pointer[n++] = *name == '~' ? '0' : '1';
        } else {
            pointer[n++] = *name;
        }
    }
    pointer[n < SCHEMA_MAX_POINTER ? n : SCHEMA_MAX_POINTER - 1] = '\0';
}

struct schema_node schema_in(const struct schema_node *at, const cJSON *schema,
                              const char *keyword, const char *name)
{
    struct schema_node in = {.schema = schema, .depth = at->depth + 1};

    memcpy(in.pointer, at->pointer, sizeof(in.pointer));
    add_pointer_step(in.pointer, keyword);
    if (name != NULL)
        add_pointer_step(in.pointer, name);
    return in;
}

/* ---- $ref ---- */

/* Reads one step of a JSON pointer in a URI fragment; returns the position after it. */
static const char *read_step(const char *at, char *name, size_t size)
{
    size_t n = 0;

    for (; *at != '\0' && *at != '/' && n + 1 < size; at++) {
        if (*at == '~' && (at[1] == '0' || at[1] == '1')) {
            name[n++] = *++at == '0' ? '~' : '/';
        } else if (*at == '%' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
            name[n++] = (char)(hex_digit(at[1]) << 4 | hex_digit(at[2]));
            at += 2;
        } else {
            name[n++] = *at;
        }
    }
    name[n] = '\0';
    return at;
}

static const cJSON *step_into(const cJSON *v, const char *name)
{
    uint32_t index = 0;

    if (!cJSON_IsArray(v))
        return schema_get(v, name);
    if (*name == '\0')
        return NULL;
    for (; *name >= '0' && *name <= '9' && index < 1000000; name++)
        index = index * 10 + (uint32_t)(*name - '0');
    return *name == '\0' ? cJSON_GetArrayItem(v, (int)index) : NULL;
}

const cJSON *schema_target(struct schema *s, const struct schema_node *at)
{
    const cJSON *ref = schema_get(at->schema, "$ref"), *v = s->root;
    const char *p = cJSON_IsString(ref) ? ref->valuestring : "";
    char name[256];

    if (p[0] != '#' || (p[1] != '\0' && p[1] != '/')) {
        schema_refuse(s, at, "$ref must be \"#\" or begin with \"#/\", got '%.60s'", p);
        return NULL;
    }
    for (p++; *p == '/' && v != NULL;) {
        p = read_step(p + 1, name, sizeof(name));
        schema_spend(s, 10 + schema_size(v));
        v = schema_has_failed(s) ? NULL : step_into(v, name);
    }
    if (v == NULL || *p != '\0') {
        schema_refuse(s, at, "$ref '%.80s' points to nothing in the schema", ref->valuestring);
        return NULL;
    }
    return v;
}
