/* server/api/chat/call_tags.c - converts a value made of tags to JSON, by recursive descent.
 *
 * A value is first checked to consist of matching tags only, and then written in a second pass, so
 * that text that merely contains "<" stays a string. Each level searches the text inside it again,
 * which is why MAX_DEPTH is small; output_arguments.c calls this once for a finished value.
 */
#include "server/api/chat/call_tags.h"

#include "server/api/chat/call_pattern.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/call_value.h"

#include <string.h>

#define MAX_DEPTH 16 /* nesting of tags: each level searches the text inside it */

struct piece { /* a part of the text */
    const char *text;
    size_t n;
};

struct reading {
    const struct call_tags *tags;
    struct buf *out;
    unsigned depth;
};

static const char item_name[] = "item";

static bool begins_with(struct piece p, const struct pattern_item *item)
{
    return p.n >= item->n && memcmp(p.text, item->text, item->n) == 0;
}

static struct piece behind(struct piece p, size_t n)
{
    return (struct piece){p.text + n, p.n - n};
}

static struct piece without_blanks(struct piece p)
{
    while (p.n > 0 && pattern_is_blank(p.text[0]))
        p = behind(p, 1);
    while (p.n > 0 && pattern_is_blank(p.text[p.n - 1]))
        p.n--;
    return p;
}

/* Takes the name of a tag from *p. False: it has no end. */
static bool take_name(const struct reading *r, struct piece *p, struct piece *name)
{
    const struct pattern_item *end = &r->tags->pattern->at[2];
    const char *at = memmem(p->text, p->n, end->text, end->n);

    if (at == NULL || at == p->text)
        return false;
    *name = (struct piece){p->text, (size_t)(at - p->text)};
    *p = behind(*p, name->n + end->n);
    return true;
}

/* Takes the text up to the end of the open tag from *p. False: it has no end. */
static bool take_inside(const struct reading *r, struct piece *p, struct piece *inside)
{
    const struct pattern_item *open = &r->tags->pattern->at[0], *close = &r->tags->pattern->at[4];
    struct piece rest = *p, name;
    unsigned depth = 1;

    while (depth > 0) {
        const char *at = memmem(rest.text, rest.n, open->text, open->n);

        if (at == NULL)
            return false;
        rest = behind(rest, (size_t)(at - rest.text));
        *inside = (struct piece){p->text, (size_t)(at - p->text)};
        depth += begins_with(rest, close) ? -1u : 1u;
        rest = behind(rest, begins_with(rest, close) ? close->n : open->n);
    }
    *p = rest;
    return take_name(r, p, &name);
}

/* Takes the next tag from *p, with the text inside it. False: no tag stands there. */
static bool take_tag(const struct reading *r, struct piece *p, struct piece *name,
                     struct piece *inside)
{
    const struct pattern_item *open = &r->tags->pattern->at[0], *close = &r->tags->pattern->at[4];

    *p = without_blanks(*p);
    if (!begins_with(*p, open) || begins_with(*p, close))
        return false;
    *p = behind(*p, open->n);
    return take_name(r, p, name) && take_inside(r, p, inside);
}

/* True: the text consists of tags only. *are_items: all of them are items. */
static bool is_made_of_tags(const struct reading *r, struct piece p, bool *are_items)
{
    struct piece name, inside;
    bool any = false;

    *are_items = true;
    while (take_tag(r, &p, &name, &inside)) {
        any = true;
        *are_items = *are_items && name.n == sizeof(item_name) - 1 &&
                     memcmp(name.text, item_name, name.n) == 0;
    }
    return any && p.n == 0;
}

static void add_value(struct reading *r, struct piece key, struct piece p, unsigned types);

static unsigned inner_types(const struct reading *r, struct piece key, bool is_item)
{
    return call_tools_inner_types(r->tags->tools, r->tags->function, key.text, key.n, is_item);
}

static void add_tags(struct reading *r, struct piece key, struct piece p, bool is_list)
{
    struct piece name, inside;
    bool is_first = true;

    buf_add_char(r->out, is_list ? '[' : '{');
    for (; take_tag(r, &p, &name, &inside); is_first = false) {
        if (!is_first)
            buf_add_str(r->out, ", ");
        if (!is_list) {
            call_value_add_string(r->out, name.text, name.n);
            buf_add_str(r->out, ": ");
        }
        if (is_list)
            add_value(r, key, inside, inner_types(r, key, true));
        else
            add_value(r, name, inside, inner_types(r, name, false));
    }
    buf_add_char(r->out, is_list ? ']' : '}');
}

/* Appends the value of an empty text: the empty value of its types. */
static void add_nothing(struct buf *out, unsigned types)
{
    if ((types & ARGUMENT_STRING) != 0)
        buf_add_str(out, "\"\"");
    else if ((types & (ARGUMENT_NULL | ARGUMENT_OBJECT)) == ARGUMENT_OBJECT)
        buf_add_str(out, "{}");
    else
        buf_add_str(out,
                    (types & ARGUMENT_ARRAY) != 0 && (types & ARGUMENT_NULL) == 0 ? "[]" : "null");
}

static void add_value(struct reading *r, struct piece key, struct piece p, unsigned types)
{
    const struct piece inner = without_blanks(p);
    const bool may_nest = (types & (ARGUMENT_OBJECT | ARGUMENT_ARRAY)) != 0;
    bool are_items = false, is_list;

    if (may_nest && r->depth < MAX_DEPTH && is_made_of_tags(r, inner, &are_items)) {
        is_list = (types & ARGUMENT_OBJECT) == 0 || (are_items && (types & ARGUMENT_ARRAY) != 0);
        r->depth++;
        add_tags(r, key, inner, is_list);
        r->depth--;
    } else if (inner.n == 0) {
        add_nothing(r->out, types);
    } else {
        call_value_add_text(r->out, p.text, p.n, types);
    }
}

void call_tags_add(struct buf *out, const struct call_tags *tags, const char *key, size_t n_key,
                   const char *text, size_t n, unsigned types)
{
    struct reading r = {.tags = tags, .out = out};

    add_value(&r, (struct piece){key, n_key}, (struct piece){text, n}, types);
}
