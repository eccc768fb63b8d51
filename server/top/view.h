/* server/top/view.h - draws a frame of `quire top` from a reading.
 *
 * From the top: the server, failures, requests, tokens a second, steps, latencies, the KV cache
 * with its owners, a line for each model if there are several, the list of requests. Lines at the
 * bottom that have no room are left out.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_TOP_VIEW_H
#define SERVER_TOP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct top_reading;
struct top_screen;

struct top_view {
    const char *url;
    const char *trouble; /* reason for which there is no newer reading, or only a part of one; "":
                          * none */
    bool is_paused;
    bool has_keys;  /* a last line lists the keys */
    int sort;       /* order of the list, a result of top_sort_of() */
    uint32_t first; /* first request shown; drawing a frame corrects it */
};

struct top_text {
    char text[24];
};

#define TOP_N_SORTS 6
/* "state" (the server's order: running first, then as in the queue), "age", "rate", "prompt",
 * "generated", "blocks": the largest first; TOP_N_SORTS: no such name. */
int top_sort_of(const char *name);
void top_requests_sort(struct top_reading *r, int sort);

/* Write a number or a time in few columns: 12.3k, 480 ms, 3h05. Negative: unknown, "-". */
struct top_text top_count(double n); /* at most 5 columns up to 999M */
struct top_text top_time(double seconds);

void top_view_draw(struct top_view *v, struct top_reading *r, struct top_screen *s);

#endif
