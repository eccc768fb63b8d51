/* server/api/body_scan.h - what has to be known of a body before it is parsed, in one pass over its
 * bytes: the model it asks for, how long it may wait for that, how much memory its JSON takes, and
 * which pool parses it.
 *
 * The pass follows strings and brackets as JSON has them. What it says of a body that is no JSON is
 * of no use, and does no harm: parsing refuses it.
 *
 * Thread: any.
 * Memory: none; `model`, `name` and `keep_alive` point into the body.
 */
#ifndef SERVER_API_BODY_SCAN_H
#define SERVER_API_BODY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct body_scan {
    size_t n_bytes;
    uint64_t n_values, n_strings; /* at most so many; names are strings, and so is the text that a
                                   * number keeps */
    bool has_long_number;         /* so that it is parsed from a copy: json_number_blank_long() */
    const char *model;            /* the JSON text of the member of that name, or NULL */
    size_t n_model;
    const char *name;             /* the same of "name", as older clients of Ollama's call it */
    size_t n_name;
    const char *keep_alive;       /* the same of "keep_alive", which Ollama's clients send */
    size_t n_keep_alive;
    uint64_t deadline_ms, max_queue_ms; /* 0: not there, or no whole number of milliseconds */
    bool may_be_constrained;      /* it names a field of milliseconds: a schema, a grammar */
};

struct body_scan body_scan(const char *body, size_t n);

#endif
