/* server/api/chat/output_pieces.c - the order in which an answer's texts, thoughts and calls were
 * written.
 *
 * Text and thought are collected in one buffer each; a piece is a range in one of them, or a call's
 * number, and the array is the order. Adjacent text of one part extends the last piece. The pieces
 * are of unsent output only: output_parser_clear() drops those that were sent.
 */
#include "server/api/chat/output_parser_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

static bool has_room(struct output_parser *s)
{
    const uint32_t n = s->max_pieces > 0 ? s->max_pieces * 2 : 8;
    struct output_piece *more;

    if (s->n_pieces < s->max_pieces)
        return true;
    more = mem_realloc(s->pieces, n * sizeof(*more));
    if (more == NULL) {
        s->err = ERR_NOMEM;
        return false;
    }
    s->pieces = more;
    s->max_pieces = n;
    return true;
}

struct output_piece *output_pieces_add(struct output_parser *s, enum output_part part,
                                       uint32_t call)
{
    struct output_piece *p;

    s->latest = part;
    if (!has_room(s))
        return NULL;
    p = &s->pieces[s->n_pieces++];
    *p = (struct output_piece){.part = part, .call = call};
    p->at = part == OUTPUT_THOUGHT ? s->thought.len : s->text.len;
    return p;
}

void output_parser_flatten(struct output_parser *s)
{
    const bool goes_on = s->n_sent < s->n_calls && s->calls[s->n_sent].was_announced;
    struct output_piece *p;
    uint32_t i = s->n_sent;

    s->n_pieces = 0;
    if (goes_on)
        (void)output_pieces_add(s, OUTPUT_CALL, i++);
    p = s->text.len > 0 ? output_pieces_add(s, OUTPUT_TEXT, 0) : NULL;
    if (p != NULL) {
        p->at = 0;
        p->n = s->text.len;
    }
    for (; i < s->n_calls; i++)
        (void)output_pieces_add(s, OUTPUT_CALL, i);
}

void output_pieces_put(struct output_parser *s, enum output_part part, const char *text, size_t n)
{
    struct output_piece *p = s->n_pieces > 0 ? &s->pieces[s->n_pieces - 1] : NULL;

    if (p == NULL || p->part != part)
        p = output_pieces_add(s, part, 0);
    if (p == NULL)
        return;
    if (buf_add(part == OUTPUT_THOUGHT ? &s->thought : &s->text, text, n) == 0)
        p->n += n;
}
