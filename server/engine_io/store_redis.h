/* server/engine_io/store_redis.h - functions for a store in Redis that are needed before its
 * backend is open.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_ENGINE_IO_STORE_REDIS_H
#define SERVER_ENGINE_IO_STORE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

struct store_place;

/* True: this build has hiredis. */
bool store_redis_is_built(void);
/* Get the secret that all servers share; `offered` becomes the secret if there is none yet. ERR_IO
 * with a sentence in `why`. */
int store_redis_secret(const struct store_place *place, const char *offered, char *secret,
                       size_t size, char *why, size_t why_len);

#endif
