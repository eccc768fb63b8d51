/* server/api/params/stop.h - stop strings over text that arrives in pieces.
 *
 * Text goes in as it is decoded and comes out when no stop string can begin in it any more: a
 * tail that may be the start of one is held back. Of several matches the one that is complete
 * first wins, so the result does not depend on how the text was cut into tokens.
 *
 * Thread: one owner.
 * Memory: `held` stays shorter than the longest stop string plus one piece of text.
 */
#ifndef SERVER_API_PARAMS_STOP_H
#define SERVER_API_PARAMS_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"

#define STOP_MAX 16        /* strings a request may name */
#define STOP_MAX_BYTES 512 /* of one string */

struct stop_list { /* zero is the empty list */
    size_t n;
    char *text[STOP_MAX]; /* owned, NUL-terminated, never empty */
};
void stop_list_release(struct stop_list *list);

struct stop {
    const struct stop_list *list; /* borrowed */
    struct buf held;
    bool keeps_found;  /* set by the caller: the found string goes out, too */
    const char *found; /* the string that was found, or NULL */
};

void stop_init(struct stop *s, const struct stop_list *list);
void stop_release(struct stop *s);

/* Take text[0..n) and append to `out` what can no longer be part of a stop string. With `is_armed`
 * false all of it goes out unsearched. Returns whether a stop string was found: then everything
 * before it is out, the rest is dropped, and the matching is over. */
bool stop_feed(struct stop *s, const char *text, size_t n, bool is_armed, struct buf *out);

/* No more text will come: append the text that was held back. */
void stop_flush(struct stop *s, struct buf *out);

#endif
