/* server/top/view.h - a frame of `quire top`: what the server is doing, from two readings.
 *
 * From the top: the server, what is wrong, its requests, tokens a second, steps, latencies, the KV
 * cache with its owners, a line for each model where there are several, the requests. Lines that
 * have no room are left away from the bottom.
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
    const char *trouble; /* why there is no newer reading, or not all of it; "": it is whole */
    bool is_paused;
    bool has_keys; /* a last line says which there are */
    enum top_sort sort;
    uint32_t first; /* request of the list; the frame corrects it */
};

/* now: sorted anew. before: for rates; first: for latencies; both may be empty readings. */
void top_view_draw(struct top_view *v, struct top_reading *now, const struct top_reading *before,
                   const struct top_reading *first, struct top_screen *s);

#endif
