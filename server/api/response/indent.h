/* server/api/response/indent.h - a text that ends before the first line that is indented too
 * little.
 *
 * The first line is not looked at. Of the others the blanks at the beginning are held back until
 * they are enough, or something else comes.
 *
 * Thread: one owner.
 * Memory: `held` has what has not been passed on.
 */
#ifndef SERVER_API_RESPONSE_INDENT_H
#define SERVER_API_RESPONSE_INDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

struct indent {
    struct buf held;
    uint32_t least;  /* blanks */
    bool is_in_line; /* the line's beginning was looked at, or is the text's */
};

void indent_init(struct indent *d, uint32_t least);
void indent_release(struct indent *d);

/* What was appended to d->held goes to `out` as far as that is certain; all of it with `is_over`.
 * True: the next line has too few blanks, and was dropped. */
bool indent_pass(struct indent *d, bool is_over, struct buf *out);

#endif
