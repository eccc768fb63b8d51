/* core/base/spans.h - parts of a text, as ranges of bytes in ascending order that do not touch.
 *
 * They tell which bytes of a prompt its template wrote, while the text itself is plain bytes. Like
 * a buffer, a list that could not grow stays as it was and keeps the error (spans.err).
 *
 * Thread: none of its own; one owner at a time.
 * Memory: grows by doubling up to SPANS_MAX; spans_release() frees.
 * Errors: ERR_LIMIT past SPANS_MAX, ERR_NOMEM.
 */
#ifndef CORE_BASE_SPANS_H
#define CORE_BASE_SPANS_H

#include <stdbool.h>
#include <stddef.h>

#define SPANS_MAX ((size_t)1 << 21) /* 32 MiB; a message of a chat has some ten */

struct span {
    size_t from, to; /* bytes from .. to - 1; from < to */
};

struct spans { /* all zero: no spans */
    struct span *at;
    size_t n, cap;
    int err;
};

void spans_release(struct spans *s);
/* Add a span, which may begin where the last one ends but not before; an empty one adds nothing. */
int spans_add(struct spans *s, size_t from, size_t to);
/* Remove all bytes from `end` on. */
void spans_cut(struct spans *s, size_t end);
/* Return the index of the first span that ends after `pos`; n if there is none. */
size_t spans_find(const struct spans *s, size_t pos);
/* True: all bytes of [from, to) are in one span. */
bool spans_cover(const struct spans *s, size_t from, size_t to);

#endif
