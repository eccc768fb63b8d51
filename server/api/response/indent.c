/* server/api/response/indent.c - holds the beginning of a line back until its indent is known.
 *
 * `held` is consumed line by line: inside a line everything passes at once, at a line's beginning
 * the blanks wait. The choice appends decoded text to `held` after its stop strings were searched
 * (choice.c), so a line is dropped before a client sees any of it.
 */
#include "server/api/response/indent.h"

#include "server/http/http_call.h"

#include <string.h>

void indent_init(struct indent *d, uint32_t least)
{
    *d = (struct indent){.least = least, .is_in_line = true};
    buf_init(&d->held, HTTP_MAX_REPLY / 4);
}

void indent_release(struct indent *d)
{
    buf_release(&d->held);
}

static void pass(struct indent *d, size_t n, struct buf *out)
{
    if (n == 0)
        return;
    buf_add(out, d->held.data, n);
    buf_consume(&d->held, n);
}

/* Passes the text up to the end of the line, or all there is. */
static void pass_line(struct indent *d, struct buf *out)
{
    const char *end = memchr(d->held.data, '\n', d->held.len);

    d->is_in_line = end == NULL;
    pass(d, end != NULL ? (size_t)(end - d->held.data) + 1 : d->held.len, out);
}

static size_t n_blanks(const struct indent *d)
{
    size_t n = 0;

    while (n < d->held.len && (d->held.data[n] == ' ' || d->held.data[n] == '\t'))
        n++;
    return n;
}

bool indent_pass(struct indent *d, bool is_over, struct buf *out)
{
    while (d->held.len > 0) {
        const size_t n = d->is_in_line ? 0 : n_blanks(d);

        if (!d->is_in_line && n < d->least && n < d->held.len) {
            buf_clear(&d->held);
            return true;
        }
        if (!d->is_in_line && n < d->least && !is_over)
            return false;
        pass_line(d, out);
    }
    return false;
}
