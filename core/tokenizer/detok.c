/* core/tokenizer/detok.c - decodes ids to text, piece by piece, never half a character.
 *
 * A character may be spread over several tokens, so bytes wait in a tail of at most four until they
 * are a whole character. Each byte is checked as it comes: bytes that can no longer become a
 * character give one U+FFFD at once, and the byte that broke the sequence may begin the next
 * character. A stream therefore never shows text that a later token would change.
 */
#include "core/tokenizer/tokenizer.h"

#include "core/base/buf.h"
#include "core/tokenizer/tokenizer_impl.h"

#include <unistr.h>

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define BROKEN (-1)
#define LAST_LEAD 0xF4 /* u8_mbtoucr() also takes F5 to F7 for the first byte of a character */

void detok_init(struct detok *d, const struct tokenizer *t, bool at_start)
{
    *d = (struct detok){.t = t, .strip_space = at_start && t->vocab.add_space_prefix};
}

/* Replace a tail that no further byte can complete by U+FFFD. */
static void give_up_tail(struct detok *d, struct buf *out)
{
    if (d->n_tail > 0)
        buf_add_str(out, REPLACEMENT);
    d->n_tail = 0;
}

/* Return the bytes of the character in the tail; BROKEN: no character begins so; another negative
 * number: the character is unfinished. */
static int tail_len(const struct detok *d)
{
    ucs4_t c;

    return d->tail[0] > LAST_LEAD ? BROKEN : u8_mbtoucr(&c, d->tail, d->n_tail);
}

static void add_byte(struct detok *d, uint8_t byte, struct buf *out)
{
    int len;

    d->tail[d->n_tail++] = byte;
    len = tail_len(d);
    if (len == BROKEN && d->n_tail > 1) { /* the new byte may begin a character */
        d->n_tail--;
        give_up_tail(d, out);
        d->tail[d->n_tail++] = byte;
        len = tail_len(d);
    }
    if (len == BROKEN) {
        give_up_tail(d, out);
    } else if (len > 0) {
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
