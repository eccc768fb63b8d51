/* server/api/response/reasoning.c - moves thoughts into the content, or drops them.
 *
 * The parser appends thoughts and content to separate buffers. This runs after each feed, so the
 * new part of the content is the bytes from offset n on: they are cut off, the thought is written
 * between "<think>" marks, and they are appended again. The pieces are then rebuilt as one text.
 */
#include "server/api/response/reasoning.h"

#include "core/base/mem.h"
#include "server/api/response/choice.h"
#include "server/http/http_call.h"

/* Writes the mark of a thought, unless one is open or the prompt has opened it. */
static void open_thought(struct choice *c)
{
    if (!c->has_open_thought && !(c->prompt->thinks && c->output.text.len == 0 && !c->has_opened))
        buf_add_str(&c->output.text, "<think>");
    c->has_open_thought = true;
}

static void place(struct choice *c, size_t n, bool is_over)
{
    struct buf *text = &c->output.text, *thought = &c->output.thought, tail;

    buf_init(&tail, HTTP_MAX_REPLY / 4);
    buf_add(&tail, text->data + n, text->len - n);
    text->len = n;
    if (thought->len > 0)
        open_thought(c);
    buf_add(text, thought->data, thought->len);
    if (tail.len > 0 || is_over || !output_parser_is_thinking(&c->output)) {
        buf_add_str(text, "</think>");
        c->has_open_thought = false;
    }
    buf_add(text, tail.data, tail.len);
    if (tail.err < 0)
        text->err = tail.err;
    buf_clear(thought);
    buf_release(&tail);
    output_parser_flatten(&c->output);
}

void reasoning_place(struct choice *c, size_t n, bool is_over)
{
    if (c->rules->reasoning == REASONING_HIDDEN)
        buf_clear(&c->output.thought);
    if (c->rules->reasoning == REASONING_INLINE &&
        (c->output.thought.len > 0 || c->has_open_thought))
        place(c, n, is_over);
}
