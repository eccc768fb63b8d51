/* server/render.h - the bytes of a completion's answer: one JSON object, or frames of an SSE
 * stream.
 *
 * Every frame repeats the same head (id, created, model); what follows differs. An error in a
 * buffer of a choice becomes an error of the output, so that no answer is sent in part.
 *
 * Thread: any.
 * Memory: appended to `out`; rendering a choice empties what it carried.
 */
#ifndef SERVER_RENDER_H
#define SERVER_RENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/choice.h"
#include "server/error.h"

struct render_usage {
    uint64_t prompt, completion, cached; /* tokens */
};

/* {"id":"cmpl-…",…,"choices":[ with a new id and the time of now. Initialises *head; 0 or ERR_*. */
int render_head(struct buf *head, const char *model);

/* The whole answer. */
void render_whole(struct buf *out, const struct buf *head, struct choice *choices, uint32_t n,
                  const struct render_usage *usage);

/* A frame with what the choice has gathered; with `has_usage` it carries "usage":null. */
void render_frame(struct buf *out, const struct buf *head, struct choice *choice, bool has_usage);

/* The end of a stream: the usage frame, unless NULL, and [DONE]. */
void render_done(struct buf *out, const struct buf *head, const struct render_usage *usage);

/* The end of a stream that failed. */
void render_failure(struct buf *out, const struct api_error *e);

#endif
