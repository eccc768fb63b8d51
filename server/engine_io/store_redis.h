/* server/engine_io/store_redis.h - functions that a place in Redis needs before there is a backend.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_ENGINE_IO_STORE_REDIS_H
#define SERVER_ENGINE_IO_STORE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

struct store_place;

/* Whether hiredis is built in. */
bool store_redis_is_built(void);
/* Get the text that all servers share: `offered` becomes it, if there is none yet. ERR_IO with a
 * sentence in `why`. */
int store_redis_secret(const struct store_place *place, const char *offered, char *secret,
                       size_t size, char *why, size_t why_len);

#endif
