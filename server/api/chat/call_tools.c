/* server/api/chat/call_tools.c - a flat copy of the names and types of offered functions.
 *
 * Two passes over the schemas with the same visitors: the first counts keys and bytes, the second
 * fills one block of memory. A function's keys are consecutive and searched linearly. The copy
 * outlives the request's body, because the parser of the answer (output_reader.c) needs it.
 */
#include "server/api/chat/call_tools.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/chat/call_value.h"
#include "server/api/params/conversation.h"

#include <string.h>

enum key_kind { KEY_ARGUMENT = 0, KEY_MEMBER, KEY_ITEM };

struct known_key {
    const char *text;   /* NUL-terminated */
    enum key_kind kind; /* an argument, or within one a member, or the items of a list */
    unsigned types;
};

struct known_tool {
    const char *name;
    struct call_traits traits;
    unsigned others;        /* types of properties that the schema does not name */
    uint32_t first, n_keys; /* its keys in `keys` */
};

struct call_tools {
    size_t bytes;
    uint32_t n_tools, n_keys;
    struct known_tool *tools; /* [n_tools] */
    struct known_key *keys;   /* [n_keys] */
    char *texts;
};

/* ---- counting ---- */

struct tally {
    uint32_t n_keys;
    size_t n_texts;
};

static void tally_name(struct tally *t, const char *name)
{
    if (t->n_keys == CALL_TOOLS_MAX_KEYS)
        return;
    t->n_keys++;
    t->n_texts += strlen(name) + 1;
}

static void tally_key(void *ud, const cJSON *root, const cJSON *property)
{
    (void)root;
    tally_name(ud, property->string);
}

static void tally_inner(void *ud, const cJSON *root, const char *name, bool is_item,
                        const cJSON *schema)
{
    (void)root;
    (void)is_item;
    (void)schema;
    tally_name(ud, name);
}

/* ---- filling in ---- */

static const char *keep_text(struct call_tools *t, size_t *at, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *to = t->texts + *at;

    memcpy(to, text, n);
    *at += n;
    return to;
}

struct filling {
    struct call_tools *tools;
    size_t at; /* bytes used of `texts` */
};

static void fill_name(struct filling *f, const char *name, enum key_kind kind, unsigned types)
{
    struct call_tools *t = f->tools;

    if (t->n_keys == CALL_TOOLS_MAX_KEYS)
        return;
    t->keys[t->n_keys++] = (struct known_key){keep_text(t, &f->at, name), kind, types};
}

static void fill_key(void *ud, const cJSON *root, const cJSON *property)
{
    const struct filling *f = ud;

    if (f->tools->n_keys < CALL_TOOLS_MAX_KEYS)
        fill_name(ud, property->string, KEY_ARGUMENT, call_value_schema_types(root, property));
}

static void fill_inner(void *ud, const cJSON *root, const char *name, bool is_item,
                       const cJSON *schema)
{
    const struct filling *f = ud;

    if (f->tools->n_keys < CALL_TOOLS_MAX_KEYS)
        fill_name(ud, name, is_item ? KEY_ITEM : KEY_MEMBER, call_value_schema_types(root, schema));
}

static void fill_tool(struct filling *f, struct known_tool *known, const struct tool *tool)
{
    const uint32_t first = f->tools->n_keys;
    *known = (struct known_tool){.name = keep_text(f->tools, &f->at, tool->name),
                                 .traits = {tool->is_custom, tool->is_search, tool->n_space},
                                 .first = first};
    known->others = call_value_key_types(tool->parameters, NULL);
    call_value_each_property(tool->parameters, fill_key, f);
    call_value_each_inner(tool->parameters, fill_inner, f);
    known->n_keys = f->tools->n_keys - first;
}

int call_tools_create(struct call_tools **out, const struct conversation *chat)
{
    struct tally tally = {0};
    struct call_tools *t;
    struct filling f;
    size_t bytes;

    *out = NULL;
    if (chat->n_tools == 0)
        return 0;
    for (uint32_t i = 0; i < chat->n_tools; i++) {
        tally.n_texts += strlen(chat->tools[i].name) + 1;
        call_value_each_property(chat->tools[i].parameters, tally_key, &tally);
        call_value_each_inner(chat->tools[i].parameters, tally_inner, &tally);
    }
    bytes = sizeof(*t) + chat->n_tools * sizeof(*t->tools) + tally.n_keys * sizeof(*t->keys) +
            tally.n_texts;
    t = mem_calloc(1, bytes);
    if (t == NULL)
        return ERR_NOMEM;
    t->bytes = bytes;
    t->tools = (struct known_tool *)(t + 1);
    t->keys = (struct known_key *)(t->tools + chat->n_tools);
    t->texts = (char *)(t->keys + tally.n_keys);
    f = (struct filling){.tools = t};
    for (uint32_t i = 0; i < chat->n_tools; i++)
        fill_tool(&f, &t->tools[t->n_tools++], &chat->tools[i]);
    *out = t;
    return 0;
}

void call_tools_destroy(struct call_tools **tools)
{
    if (tools == NULL)
        return;
    mem_free(*tools);
    *tools = NULL;
}

size_t call_tools_bytes(const struct call_tools *tools)
{
    return tools != NULL ? tools->bytes : 0;
}

/* ---- questions ---- */

static bool name_is(const char *text, const char *name, size_t n)
{
    return strlen(text) == n && memcmp(text, name, n) == 0;
}

static const struct known_tool *find_tool(const struct call_tools *t, const char *name, size_t n)
{
    for (uint32_t i = 0; t != NULL && i < t->n_tools; i++)
        if (name_is(t->tools[i].name, name, n))
            return &t->tools[i];
    return NULL;
}

bool call_tools_have(const struct call_tools *tools, const char *name, size_t n)
{
    return tools == NULL || find_tool(tools, name, n) != NULL;
}

struct call_traits call_tools_traits(const struct call_tools *tools, const char *name)
{
    const struct known_tool *tool = find_tool(tools, name, strlen(name));

    return tool != NULL ? tool->traits : (struct call_traits){0};
}

/* Returns the types of all keys with the name; 0: there is none. */
static unsigned types_of(const struct call_tools *t, const struct known_tool *tool,
                         enum key_kind kind, const char *key, size_t n)
{
    unsigned types = 0;

    for (uint32_t i = tool->first; i < tool->first + tool->n_keys; i++)
        if (t->keys[i].kind == kind && name_is(t->keys[i].text, key, n))
            types |= t->keys[i].types;
    return types;
}

unsigned call_tools_types(const struct call_tools *tools, const char *name, const char *key,
                          size_t n)
{
    const struct known_tool *tool = find_tool(tools, name, strlen(name));
    const unsigned types = tool != NULL ? types_of(tools, tool, KEY_ARGUMENT, key, n) : 0;

    if (tool == NULL)
        return ARGUMENT_ANY;
    return types != 0 ? types : tool->others;
}

unsigned call_tools_inner_types(const struct call_tools *tools, const char *name, const char *key,
                                size_t n, bool is_item)
{
    const struct known_tool *tool = find_tool(tools, name, strlen(name));
    const enum key_kind kind = is_item ? KEY_ITEM : KEY_MEMBER;
    const unsigned types = tool != NULL ? types_of(tools, tool, kind, key, n) : 0;

    return types != 0 ? types : ARGUMENT_ANY;
}
