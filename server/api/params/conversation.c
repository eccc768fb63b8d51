/* server/api/params/conversation.c - see conversation.h.
 *
 * Six growing arrays. Capacities are not stored: an array doubles when its count reaches a power of
 * two, so the count alone says when it is full (grown()). Messages refer to their parts and calls
 * by index, which stays valid while these arrays move. Texts are borrowed from the body; only
 * composed texts are copied, and composed JSON values hang in one array, so release needs no other
 * list.
 */
#include "server/api/params/conversation.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

void conversation_release(struct conversation *c)
{
    mem_free(c->messages);
    mem_free((void *)c->parts);
    for (uint32_t i = 0; i < c->n_owned; i++)
        mem_free(c->owned[i]);
    mem_free(c->owned);
    mem_free(c->calls);
    mem_free(c->tools);
    mem_free(c->changes);
    cJSON_Delete(c->made);
    *c = (struct conversation){0};
}

/* Make room for one more item after n. Capacities are powers of two, so n alone says when the array
 * is full. */
static void *grown(void *items, uint32_t n, size_t size)
{
    if (n > 0 && (n & (n - 1)) != 0)
        return items;
    return mem_realloc(items, (n > 0 ? 2 * (size_t)n : 1) * size);
}

struct chat_message *conversation_add_message(struct conversation *c, const char *role)
{
    void *grew = grown(c->messages, c->n_messages, sizeof(*c->messages));

    if (grew == NULL)
        return NULL;
    c->messages = grew;
    c->messages[c->n_messages] =
        (struct chat_message){.role = role, .first_part = c->n_parts, .first_call = c->n_calls};
    return &c->messages[c->n_messages++];
}

struct chat_message *conversation_last(const struct conversation *c)
{
    return c->n_messages > 0 ? &c->messages[c->n_messages - 1] : NULL;
}

int conversation_add_part(struct conversation *c, const char *text)
{
    void *grew = grown((void *)c->parts, c->n_parts, sizeof(*c->parts));

    if (grew == NULL)
        return ERR_NOMEM;
    c->parts = grew;
    c->parts[c->n_parts++] = text;
    return 0;
}

int conversation_add_text(struct conversation *c, const char *text)
{
    struct chat_message *m = conversation_last(c);

    if (conversation_add_part(c, text) < 0)
        return ERR_NOMEM;
    m->has_content = true;
    m->n_parts++;
    return 0;
}

const char *conversation_own(struct conversation *c, struct buf *text)
{
    void *grew = grown(c->owned, c->n_owned, sizeof(*c->owned));
    size_t n;

    if (grew != NULL)
        c->owned = grew;
    if (grew == NULL || buf_add_char(text, '\0') < 0) {
        buf_release(text);
        return NULL;
    }
    return c->owned[c->n_owned++] = buf_detach(text, &n);
}

int conversation_add_composed(struct conversation *c, struct buf *text)
{
    const char *own = conversation_own(c, text);

    return own != NULL ? conversation_add_text(c, own) : ERR_NOMEM;
}

int conversation_add_call(struct conversation *c, const struct tool_call *call)
{
    void *grew = grown(c->calls, c->n_calls, sizeof(*c->calls));

    if (grew == NULL)
        return ERR_NOMEM;
    c->calls = grew;
    c->calls[c->n_calls++] = *call;
    conversation_last(c)->n_calls++;
    return 0;
}

int conversation_add_tool(struct conversation *c, const struct tool *tool)
{
    void *grew = grown(c->tools, c->n_tools, sizeof(*c->tools));

    if (grew == NULL)
        return ERR_NOMEM;
    c->tools = grew;
    c->tools[c->n_tools++] = *tool;
    return 0;
}

const cJSON *conversation_keep(struct conversation *c, cJSON *value)
{
    if (c->made == NULL)
        c->made = cJSON_CreateArray();
    return json_put(c->made, NULL, value);
}

void conversation_drop_passed(struct conversation *c)
{
    uint32_t last = 0, kept = 0;

    for (uint32_t i = 0; i < c->n_messages; i++)
        if (strcmp(c->messages[i].role, "user") == 0 || strcmp(c->messages[i].role, "tool") == 0)
            last = i;
    for (uint32_t i = 0; i < c->n_messages; i++)
        if (i >= last || !c->messages[i].is_passing)
            c->messages[kept++] = c->messages[i];
    c->n_messages = kept;
}

struct tool *conversation_tool(const struct conversation *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_tools; i++)
        if (strcmp(c->tools[i].name, name) == 0)
            return &c->tools[i];
    return NULL;
}

void conversation_merge_tools(struct conversation *c)
{
    uint32_t n = c->n_tools;

    c->n_tools = 0; /* the tools that are known so far */
    for (uint32_t i = 0; i < n; i++) {
        const struct tool tool = c->tools[i];
        struct tool *same = tool.is_late ? conversation_tool(c, tool.name) : NULL;

        if (same != NULL)
            *same = tool;
        else
            c->tools[c->n_tools++] = tool;
    }
}

int conversation_add_change(struct conversation *c, const struct tool_change *change)
{
    void *grew = grown(c->changes, c->n_changes, sizeof(*c->changes));

    if (grew == NULL)
        return ERR_NOMEM;
    c->changes = grew;
    c->changes[c->n_changes++] = *change;
    return 0;
}

void conversation_drop_hidden(struct conversation *c)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n_tools; i++)
        if (!c->tools[i].is_hidden)
            c->tools[kept++] = c->tools[i];
    c->n_tools = kept;
}

const char *conversation_apply_changes(struct conversation *c)
{
    for (uint32_t i = 0; i < c->n_changes; i++) {
        struct tool *tool = conversation_tool(c, c->changes[i].name);

        if (tool == NULL)
            return c->changes[i].name;
        tool->is_hidden = c->changes[i].removes;
    }
    conversation_drop_hidden(c);
    return NULL;
}

void conversation_add_breakpoint(struct conversation *c, uint32_t ttl_s)
{
    if (c->n_breakpoints == CONVERSATION_MAX_BREAKPOINTS)
        memmove(c->breakpoints, c->breakpoints + 1, --c->n_breakpoints * sizeof(*c->breakpoints));
    c->breakpoints[c->n_breakpoints++] = (struct cache_breakpoint){c->n_parts, SIZE_MAX, ttl_s};
}

void conversation_move_breakpoints(struct conversation *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < c->n_breakpoints; i++)
        if (c->breakpoints[i].n_parts == from)
            c->breakpoints[i].n_parts = to;
}

void conversation_join_breakpoints(struct conversation *c, const struct chat_message *m)
{
    size_t n = 0;

    for (uint32_t part = m->first_part; part < m->first_part + m->n_parts; part++) {
        n += (part > m->first_part) + strlen(c->parts[part]);
        for (uint32_t i = 0; i < c->n_breakpoints; i++)
            if (c->breakpoints[i].n_parts == part + 1 && c->breakpoints[i].n_bytes == SIZE_MAX)
                c->breakpoints[i] =
                    (struct cache_breakpoint){m->first_part + 1, n, c->breakpoints[i].ttl_s};
    }
}

void conversation_join(const struct conversation *c, const struct chat_message *m, struct buf *out)
{
    for (uint32_t i = 0; i < m->n_parts; i++) {
        if (i > 0)
            buf_add_char(out, '\n');
        buf_add_str(out, c->parts[m->first_part + i]);
    }
}
