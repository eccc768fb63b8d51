/* server/api/response/indent.h - ends a text before the first line that is indented too little.
 *
 * The first line is not checked. The blanks at the beginning of other lines are held back until
 * there are enough of them, or another character comes.
 *
 * Thread: one owner.
 * Memory: `held` has the text that was not passed on.
 */
#ifndef SERVER_API_RESPONSE_INDENT_H
#define SERVER_API_RESPONSE_INDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

struct indent {
    struct buf held;
    uint32_t least;  /* blanks that a line must begin with */
    bool is_in_line; /* the line's beginning was checked, or is the text's */
};

void indent_init(struct indent *d, uint32_t least);
void indent_release(struct indent *d);

/* Moves the text that was appended to d->held to `out` as far as it is decided; all of it with
 * `is_over`. True: the next line has too few blanks, and was dropped. */
bool indent_pass(struct indent *d, bool is_over, struct buf *out);

#endif
