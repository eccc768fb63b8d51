/* server/api/params/conversation.c - see conversation.h. */
#include "server/api/params/conversation.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

void conversation_release(struct conversation *c)
{
    mem_free(c->messages);
    mem_free((void *)c->parts);
    mem_free(c->calls);
    mem_free(c->tools);
    *c = (struct conversation){0};
}

/* Room for one more of n items: capacities are powers of two, so n itself says when one is full. */
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
    c->messages[c->n_messages] = (struct chat_message){
        .role = role, .first_part = c->n_parts, .first_call = c->n_calls};
    return &c->messages[c->n_messages++];
}

struct chat_message *conversation_last(const struct conversation *c)
{
    return c->n_messages > 0 ? &c->messages[c->n_messages - 1] : NULL;
}

int conversation_add_text(struct conversation *c, const char *text)
{
    struct chat_message *m = conversation_last(c);
    void *grew = grown((void *)c->parts, c->n_parts, sizeof(*c->parts));

    if (grew == NULL)
        return ERR_NOMEM;
    c->parts = grew;
    c->parts[c->n_parts++] = text;
    m->has_content = true;
    m->n_parts++;
    return 0;
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

void conversation_drop(struct conversation *c, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n_messages; i++)
        if (i >= n || strcmp(c->messages[i].role, "system") == 0)
            c->messages[kept++] = c->messages[i];
    c->n_messages = kept;
}

const struct tool *conversation_tool(const struct conversation *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_tools; i++)
        if (strcmp(c->tools[i].name, name) == 0)
            return &c->tools[i];
    return NULL;
}

void conversation_join(const struct conversation *c, const struct chat_message *m, struct buf *out)
{
    for (uint32_t i = 0; i < m->n_parts; i++) {
        if (i > 0)
            buf_add_char(out, '\n');
        buf_add_str(out, c->parts[m->first_part + i]);
    }
}
