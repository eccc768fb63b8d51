/* server/top/session.h - runs `quire top`: fetches pages, draws frames, handles keys.
 *
 * On a terminal it runs until q, Ctrl-C or a signal; when the server does not answer, the frame
 * shows that, and pages are requested again. With is_once it prints one frame, with rates of the
 * time between two readings.
 *
 * Thread: the main thread.
 * Memory: four readings, and a page of at most 64 MiB.
 * Errors: a sentence. ERR_UNSUPPORTED: built without libcurl, or without ncurses.
 */
#ifndef SERVER_TOP_SESSION_H
#define SERVER_TOP_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/top/view.h"

#define TOP_DEFAULT_URL "http://127.0.0.1:8080"

struct top_options {
    const char *url;   /* http://HOST[:PORT], https://HOST[:PORT], HOST[:PORT] (http), unix:/PATH */
    const char *key;   /* "": none; it is only sent to this server: no proxy is used, redirects are
                        * not followed, and certificates are verified */
    const char *model; /* model to show; "": all */
    int sort;          /* top_sort_of() */
    uint32_t interval_ms;
    bool is_once;
};

/* Run until the end. ERR_*: it could not begin, or, with is_once, pages were not answered. */
int top_session_run(const struct top_options *options, char *err, size_t err_len);

#endif
