/* server/top/request_table.h - draws the list of requests: chooses the columns that have room, and
 * sorts.
 *
 * Thread: one owner.
 * Memory: none of its own; sorting moves the requests of the reading.
 */
#ifndef SERVER_TOP_REQUEST_TABLE_H
#define SERVER_TOP_REQUEST_TABLE_H

#include <stdint.h>

struct top_reading;
struct top_screen;

/* A new order needs a value here, and its name for --sort and its comparison in request_table.c. */
enum top_sort {
    TOP_SORT_STATE = 0, /* the server's order: running first, then in the order of the queue */
    TOP_SORT_AGE,
    TOP_SORT_RATE,
    TOP_SORT_PROMPT,
    TOP_SORT_GENERATED,
    TOP_SORT_BLOCKS,
    TOP_N_SORTS,
};

/* "state", "age", ...; TOP_N_SORTS: no such name. */
const char *top_sort_name(enum top_sort sort);
enum top_sort top_sort_of(const char *name);

/* Sort, the largest first. */
void top_requests_sort(struct top_reading *r, enum top_sort sort);

/* Draw a heading and as many lines as fit above the last `n_below` ones, from request *first on,
 * which is moved back when the list has become shorter. */
void top_requests_draw(const struct top_reading *r, uint32_t *first, uint32_t n_below,
                       struct top_screen *s);

#endif
