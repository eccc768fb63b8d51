/* core/tokenizer/detok.c - ids to text, a piece at a time, never half a character. */
#include "core/tokenizer/tokenizer.h"

#include "core/base/buf.h"
#include "core/base/utf8.h"
#include "core/tokenizer/tokenizer_impl.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

void detok_init(struct detok *d, const struct tokenizer *t, bool at_start)
{
    *d = (struct detok){.t = t, .strip_space = at_start && t->vocab.add_space_prefix};
}

/* What stands in the tail can be continued by no byte that follows. */
static void give_up_tail(struct detok *d, struct buf *out)
{
    if (d->n_tail > 0)
        buf_add_str(out, REPLACEMENT);
    d->n_tail = 0;
}

static void add_byte(struct detok *d, uint8_t byte, struct buf *out)
{
    enum utf8_state state;

    d->tail[d->n_tail++] = byte;
    state = utf8_check(d->tail, d->n_tail);
    if (state == UTF8_BROKEN && d->n_tail > 1) { /* the byte may begin a character itself */
        d->n_tail--;
        give_up_tail(d, out);
        d->tail[d->n_tail++] = byte;
        state = utf8_check(d->tail, 1);
    }
    if (state == UTF8_BROKEN) {
        give_up_tail(d, out);
    } else if (state == UTF8_WHOLE) {
        buf_add(out, d->tail, d->n_tail);
        d->n_tail = 0;
    }
}

int detok_feed(struct detok *d, int32_t id, struct buf *out)
{
    const bool control = tokenizer_is_control(d->t, id);
    const char *piece;
    size_t n;

    if (control && !d->show_control)
        return out->err;
    piece = tokenizer_piece(d->t, id, &n);
    if (!control && n > 0 && d->strip_space) {
        d->strip_space = false;
        if (piece[0] == ' ') {
            piece++;
            n--;
        }
    }
    for (size_t i = 0; i < n; i++)
        add_byte(d, (uint8_t)piece[i], out);
    return out->err;
}

int detok_finish(struct detok *d, struct buf *out)
{
    give_up_tail(d, out);
    return out->err;
}
