/* server/api/params/params_blocks.c - the blocks in the content of Anthropic's messages.
 *
 * blocks[] says where a block of each type may stand and which function takes it. Blocks become the
 * parts, calls and reasoning of messages; each tool_result becomes a message of the role tool. A
 * document or a search result becomes one text, between marks that say its kind, title and source
 * (server/README.md shows them). Blocks that are not text are refused.
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

#define MAX_CHANGES 1024
#define MAX_COMPOSED ((size_t)64 << 20) /* bytes: a prompt has no more */
#define TEXT_BLOCKS "a string or a list of text blocks"

/* ---- composed texts ---- */

static bool is_type(const cJSON *block, const char *type)
{
    const char *given = field_text(block, "type");

    return given != NULL && strcmp(given, type) == 0;
}

/* Append a line with the text between the marks of an element. */
static void add_element(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "<%s>", name);
    buf_add_str(out, text);
    buf_printf(out, "</%s>\n", name);
}

/* Append a string or text blocks as lines. */
static int add_lines(const struct field_path *p, const char *member, const cJSON *v,
                     struct buf *out)
{
    if (cJSON_IsString(v)) {
        buf_add_str(out, v->valuestring);
        buf_add_char(out, '\n');
        return 0;
    }
    if (!cJSON_IsArray(v))
        return field_refuse(p, member, TEXT_BLOCKS);
    for (const cJSON *it = v->child; it != NULL; it = it->next) {
        const char *text = field_text(it, "text");

        if (!is_type(it, "text") || text == NULL)
            return field_refuse(p, member, TEXT_BLOCKS);
        buf_add_str(out, text);
        buf_add_char(out, '\n');
    }
    return 0;
}

static int refuse_citations(const struct field_path *p, const cJSON *block)
{
    if (!cJSON_IsTrue(field_find(field_find(block, "citations"), "enabled")))
        return 0;
    return field_refuse(p, "citations", "off: citations are not supported");
}

/* Append the document's text: its source is a text, or content with texts. */
static int add_source(const struct field_path *p, const cJSON *source, struct buf *out)
{
    const struct field_path in = field_path_in(p, "source", -1);

    if (is_type(source, "text"))
        return add_lines(&in, "data", field_find(source, "data"), out);
    if (is_type(source, "content"))
        return add_lines(&in, "content", field_find(source, "content"), out);
    return field_refuse(
        &in, "type",
        "text or content: this model reads no other documents. Send the document as text");
}

static int compose_document(const struct field_path *p, const cJSON *block, struct buf *out)
{
    const char *title = field_text(block, "title"), *context = field_text(block, "context");

    buf_add_str(out, "<document>\n");
    if (title != NULL)
        add_element(out, "title", title);
    if (context != NULL)
        add_element(out, "context", context);
    buf_add_str(out, "<content>\n");
    if (add_source(p, field_find(block, "source"), out) < 0)
        return ERR_INVAL;
    buf_add_str(out, "</content>\n</document>");
    return 0;
}

static int compose_search_result(const struct field_path *p, const cJSON *block, struct buf *out)
{
    const char *title = field_need_text(p, block, "title");
    const char *source = title != NULL ? field_need_text(p, block, "source") : NULL;

    if (source == NULL)
        return ERR_INVAL;
    buf_add_str(out, "<search_result>\n");
    add_element(out, "title", title);
    add_element(out, "source", source);
    buf_add_str(out, "<content>\n");
    if (add_lines(p, "content", field_find(block, "content"), out) < 0)
        return ERR_INVAL;
    buf_add_str(out, "</content>\n</search_result>");
    return 0;
}

/* Compose a text of the block, and append it to the last message. */
static int take_composed(const struct field_args *a, const struct field_path *p, const cJSON *block,
                         int (*compose)(const struct field_path *p, const cJSON *block,
                                        struct buf *out))
{
    struct buf text;

    if (refuse_citations(p, block) < 0)
        return ERR_INVAL;
    buf_init(&text, MAX_COMPOSED);
    if (compose(p, block, &text) < 0) {
        buf_release(&text);
        return ERR_INVAL;
    }
    if (conversation_add_composed(&a->p->chat, &text) < 0)
        return api_error_no_memory(a->e);
    return 0;
}

static int take_document(const struct field_args *a, const struct field_path *p, const cJSON *block)
{
    return take_composed(a, p, block, compose_document);
}

static int take_search_result(const struct field_args *a, const struct field_path *p,
                              const cJSON *block)
{
    return take_composed(a, p, block, compose_search_result);
}

/* ---- tools come and go ---- */

static int add_change(const struct field_args *a, const char *name, bool removes)
{
    const struct tool_change change = {.name = name, .removes = removes};

    if (a->p->chat.n_changes == MAX_CHANGES)
        return params_refuse(a, "must refer to tools at most %d times", MAX_CHANGES);
    return conversation_add_change(&a->p->chat, &change) == 0 ? 0 : api_error_no_memory(a->e);
}

/* A reference in the result of a tool search: show the tool to the model, and name it in the
 * result. */
static int take_tool_reference(const struct field_args *a, const struct field_path *p,
                               const cJSON *block)
{
    const char *name = field_need_text(p, block, "tool_name");

    if (name == NULL || add_change(a, name, false) < 0)
        return ERR_INVAL;
    return params_add_text(a, name);
}

static int take_tool_change(const struct field_args *a, const struct field_path *p,
                            const cJSON *block)
{
    const struct field_path in = field_path_in(p, "tool", -1);
    const bool removes = is_type(block, "tool_removal");
    const cJSON *tool = field_find(block, "tool");
    const char *name;

    if (!removes && is_type(tool, "tool_definition"))
        return params_take_custom_tool(a, &in, field_find(tool, "definition"));
    if (!is_type(tool, "tool_reference"))
        return field_refuse(&in, "type", "tool_reference: tools of MCP servers are not supported");
    name = field_need_text(&in, tool, "name");
    return name != NULL ? add_change(a, name, removes) : ERR_INVAL;
}

/* ---- blocks ---- */

static int take_block_text(const struct field_args *a, const struct field_path *p,
                           const cJSON *block)
{
    const char *text = field_need_text(p, block, "text");

    return text != NULL ? params_add_text(a, text) : ERR_INVAL;
}

static int take_tool_use(const struct field_args *a, const struct field_path *p, const cJSON *block)
{
    struct tool_call call = {.id = field_need_text(p, block, "id"),
                             .input = field_find(block, "input")};

    if (call.id == NULL)
        return ERR_INVAL;
    call.name = field_need_text(p, block, "name");
    if (call.name == NULL)
        return ERR_INVAL;
    if (!cJSON_IsObject(call.input))
        return field_refuse(p, "input", "an object");
    return params_add_call(a, &call);
}

static const cJSON *next_thinking(const cJSON *block)
{
    const char *type;

    while ((block = block->next) != NULL) {
        type = field_text(block, "type");
        if (type != NULL && strcmp(type, "thinking") == 0 && field_text(block, "thinking") != NULL)
            break;
    }
    return block;
}

/* Join the thoughts between a message's calls with empty lines: a message has one reasoning. NULL:
 * no memory. */
static const char *join_thoughts(struct conversation *c, const cJSON *block, const char *text)
{
    struct buf all;

    if (next_thinking(block) == NULL)
        return text;
    buf_init(&all, MAX_COMPOSED);
    buf_add_str(&all, text);
    while ((block = next_thinking(block)) != NULL) {
        buf_add_str(&all, "\n\n");
        buf_add_str(&all, field_text(block, "thinking"));
    }
    return conversation_own(c, &all);
}

static int take_thinking(const struct field_args *a, const struct field_path *p, const cJSON *block)
{
    struct chat_message *m = conversation_last(&a->p->chat);
    const char *text = field_need_text(p, block, "thinking");

    if (text == NULL)
        return ERR_INVAL;
    if (m->reasoning == NULL) /* else the first block has taken this one, too */
        m->reasoning = join_thoughts(&a->p->chat, block, text);
    return m->reasoning != NULL ? 0 : api_error_no_memory(a->e);
}

/* Ignore a block: its content is opaque, or says where another model took over. */
static int pass_over(const struct field_args *a, const struct field_path *p, const cJSON *block)
{
    (void)a, (void)p, (void)block;
    return 0;
}

static int take_tool_result(const struct field_args *a, const struct field_path *p,
                            const cJSON *block);

enum place { IN_USER = 1, IN_ASSISTANT = 2, IN_SYSTEM = 4, IN_RESULT = 8 };

static const struct block {
    const char *type;
    unsigned places;
    int (*take)(const struct field_args *a, const struct field_path *p, const cJSON *block);
} blocks[] = {
    {"text", IN_USER | IN_ASSISTANT | IN_SYSTEM | IN_RESULT, take_block_text},
    {"document", IN_USER | IN_RESULT, take_document},
    {"search_result", IN_USER | IN_RESULT, take_search_result},
    {"tool_result", IN_USER, take_tool_result},
    {"tool_use", IN_ASSISTANT, take_tool_use},
    {"thinking", IN_ASSISTANT, take_thinking},
    {"redacted_thinking", IN_ASSISTANT, pass_over},
    {"fallback", IN_ASSISTANT, pass_over},
    {"tool_reference", IN_RESULT, take_tool_reference},
    {"tool_addition", IN_SYSTEM, take_tool_change},
    {"tool_removal", IN_SYSTEM, take_tool_change},
};

static const char *expected(enum place place)
{
    switch (place) {
    case IN_USER:
        return "text, document, search_result or tool_result: this model takes nothing else";
    case IN_ASSISTANT:
        return "text, thinking or tool_use";
    case IN_SYSTEM:
        return "text, tool_addition or tool_removal";
    case IN_RESULT:
        break;
    }
    return "text, document, search_result or tool_reference: this model takes nothing else";
}

/* Take a block, and the breakpoint behind it, which thoughts cannot have. */
static int take_block(const struct field_args *a, const struct field_path *p, const struct block *b,
                      const cJSON *block)
{
    if (b->take == take_thinking || b->take == pass_over)
        return params_refuse_breakpoint(a, p, block) < 0 ? ERR_INVAL : b->take(a, p, block);
    return b->take(a, p, block) < 0 ? ERR_INVAL : params_take_breakpoint(a, p, block);
}

static const struct block *find_block(const struct field_path *p, enum place place,
                                      const cJSON *block)
{
    const struct block *b = blocks, *end = blocks + sizeof(blocks) / sizeof(blocks[0]);
    const char *type = field_need_text(p, block, "type");

    if (type == NULL)
        return NULL;
    while (b < end && ((b->places & place) == 0 || strcmp(b->type, type) != 0))
        b++;
    if (b < end)
        return b;
    field_refuse(p, "type", expected(place));
    return NULL;
}

/* Append a string or blocks to the last message. */
static int take_content(const struct field_args *a, const struct field_path *p, const char *member,
                        enum place place, const cJSON *v)
{
    int i = 0;

    if (cJSON_IsString(v))
        return params_add_text(a, v->valuestring);
    if (!cJSON_IsArray(v))
        return field_refuse(p, member, "a string or a list of blocks");
    conversation_last(&a->p->chat)->has_content = true;
    for (const cJSON *it = v->child; it != NULL; it = it->next) {
        const struct field_path in =
            member[0] != '\0' ? field_path_in(p, member, i) : field_path(p->text, i, a->e);
        const struct block *b = find_block(&in, place, it);

        i++;
        if (b == NULL || take_block(a, &in, b, it) < 0)
            return ERR_INVAL;
    }
    return 0;
}

static int take_tool_result(const struct field_args *a, const struct field_path *p,
                            const cJSON *block)
{
    const cJSON *content = field_find(block, "content");
    const char *id = field_need_text(p, block, "tool_use_id");

    if (id == NULL || params_add_message(a, "tool") < 0)
        return ERR_INVAL;
    conversation_last(&a->p->chat)->tool_call_id = id;
    if (cJSON_IsTrue(field_find(block, "is_error")) && params_add_text(a, "Error:") < 0)
        return ERR_INVAL;
    return content != NULL ? take_content(a, p, "content", IN_RESULT, content)
                           : params_add_text(a, "");
}

/* Claude Code sends a line about billing with a number of its conversation. It tells a model
 * nothing, and conversations could share no prefix after it. */
static bool is_billing_line(const char *text)
{
    static const char begin[] = "x-anthropic-billing-header:";

    return strncmp(text, begin, sizeof(begin) - 1) == 0;
}

int params_take_system(const struct field_args *a, const struct field_path *p, const char *member,
                       const cJSON *v)
{
    struct chat_message *m;
    uint32_t kept;

    if (take_content(a, p, member, IN_SYSTEM, v) < 0)
        return ERR_INVAL;
    m = conversation_last(&a->p->chat);
    kept = m->first_part;
    for (uint32_t i = m->first_part; i < m->first_part + m->n_parts; i++) {
        if (!is_billing_line(a->p->chat.parts[i]))
            a->p->chat.parts[kept++] = a->p->chat.parts[i];
        conversation_move_breakpoints(&a->p->chat, i + 1, kept);
    }
    m->n_parts = kept - m->first_part;
    return 0;
}

int params_take_block(const struct field_args *a, const struct field_path *p, const char *role,
                      const cJSON *block, bool *is_open)
{
    const enum place place = strcmp(role, "user") == 0 ? IN_USER : IN_ASSISTANT;
    const struct block *b = find_block(p, place, block);

    if (b == NULL)
        return ERR_INVAL;
    if (b->take == pass_over)
        return take_block(a, p, b, block);
    if (b->take == take_tool_result) {
        *is_open = false;
        return take_block(a, p, b, block);
    }
    if (!*is_open && params_add_message(a, role) < 0)
        return ERR_INVAL;
    *is_open = true;
    return take_block(a, p, b, block);
}
