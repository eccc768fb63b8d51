/* server/top/view.h - draws a frame of `quire top` from two readings.
 *
 * From the top: the server, failures, requests, tokens a second, steps, latencies, the KV cache
 * with its owners, a line for each model if there are several, the list of requests. Lines at the
 * bottom that have no room are left out.
 *
 * Thread: one owner.
 * Memory: none of its own.
 */
#ifndef SERVER_TOP_VIEW_H
#define SERVER_TOP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "server/top/request_table.h"

struct top_reading;
struct top_screen;

struct top_view {
    const char *url;
    const char *trouble; /* why there is no newer reading, or only a part of it; "": all is well */
    bool is_paused;
    bool has_keys; /* a last line lists the keys */
    enum top_sort sort;
    uint32_t first; /* first request shown; the frame corrects it */
};

/* `now` is sorted. before: for rates; first: for latencies; both may be empty readings. */
void top_view_draw(struct top_view *v, struct top_reading *now, const struct top_reading *before,
                   const struct top_reading *first, struct top_screen *s);

#endif
