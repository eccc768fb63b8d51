/* server/top/units.h - formats numbers for few columns: 12.3k, 480 ms, 3h05.
 *
 * Thread: any.
 * Memory: the caller's text.
 */
#ifndef SERVER_TOP_UNITS_H
#define SERVER_TOP_UNITS_H

struct top_text {
    char text[24];
};

/* A number below zero is unknown: "-". */
struct top_text top_count(double n); /* at most 5 columns up to 999M */
struct top_text top_time(double seconds);

#endif
