/* server/api/keep_alive.h - Ollama's `keep_alive`: how long a model stays after a request.
 *
 * A number of seconds, or a duration as "5m"; a negative one means forever.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_KEEP_ALIVE_H
#define SERVER_API_KEEP_ALIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the member's JSON text. False: it is null, or not a duration. *us UINT64_MAX: forever. */
bool keep_alive_read(const char *text, size_t n, uint64_t *us);

#endif
