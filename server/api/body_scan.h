/* server/api/body_scan.h - finds in one pass over a body's bytes what the server needs before it
 * parses it: the model's name, the longest wait for the model, the memory of its JSON, and the pool
 * that parses it.
 *
 * The pass follows strings and brackets as JSON has them. Its result for a body that is not JSON is
 * meaningless, but harmless: the parser refuses the body.
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
    bool has_long_number;         /* a number is so long that the body is parsed from a copy:
                                   * json_number_blank_long() */
    const char *model;            /* the JSON text of the member "model", or NULL */
    size_t n_model;
    const char *name;             /* the JSON text of "name", of older clients of Ollama's */
    size_t n_name;
    const char *keep_alive;       /* the JSON text of "keep_alive", of Ollama's clients */
    size_t n_keep_alive;
    uint64_t deadline_ms, max_queue_ms; /* 0: absent, or not an integer */
    bool may_be_constrained;      /* the body names a field whose compiling takes milliseconds: a
                                   * schema, a grammar */
};

struct body_scan body_scan(const char *body, size_t n);

#endif
