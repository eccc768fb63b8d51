/* server/api/body_scan.h - finds in one pass over a body's bytes all that must be known before it
 * is parsed: the model it asks for, how long it may wait for that, how much memory its JSON takes,
 * and which pool parses it.
 *
 * The pass follows strings and brackets as JSON has them. Its result for a body that is not JSON is
 * of no use, and does no harm: parsing refuses the body.
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
    uint64_t n_values, n_strings; /* upper bounds; a name counts as a string, and so does the text
                                   * that a number keeps */
    bool has_long_number;         /* then it is parsed from a copy: json_number_blank_long() */
    const char *model;            /* the JSON text of the member "model", or NULL */
    size_t n_model;
    const char *name;             /* the JSON text of "name", of older clients of Ollama's */
    size_t n_name;
    const char *keep_alive;       /* the JSON text of "keep_alive", of Ollama's clients */
    size_t n_keep_alive;
    uint64_t deadline_ms, max_queue_ms; /* 0: absent, or not a whole number of milliseconds */
    bool may_be_constrained;      /* it names a field that takes milliseconds: a schema, a
                                   * grammar */
};

struct body_scan body_scan(const char *body, size_t n);

#endif
