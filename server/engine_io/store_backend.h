/* server/engine_io/store_backend.h - one interface to the places where the block store keeps
 * records: a folder, or a server with Redis' protocol.
 *
 * A backend is used by one thread: the store's reader and its writer open one each.
 *
 * Thread: one at a time; every call may wait for a disk or a network.
 * Memory: the backend.
 * Errors: ERR_NOENT: no such record; ERR_BUSY: the store has failed shortly before and was not
 * asked; ERR_IO: any other failure, with the reason in backend->why.
 */
#ifndef SERVER_ENGINE_IO_STORE_BACKEND_H
#define SERVER_ENGINE_IO_STORE_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_record.h"

struct store_backend;
struct store_place;

typedef char store_name[KV_RECORD_NAME + 1];

struct store_backend_ops {
    /* Count the existing records from the first one up to the first gap. */
    int (*count)(struct store_backend *b, const store_name *names, uint32_t n);
    /* Read a record into buf[0 .. size-1]; returns its size, or size + 1 if it is larger. */
    int64_t (*get)(struct store_backend *b, const char *name, uint8_t *buf, size_t size);
    int (*put)(struct store_backend *b, const char *name, const uint8_t *bytes, size_t n);
    int (*remove)(struct store_backend *b, const char *name);
    /* Called from time to time: check that the store answers, and enforce its budget. Returns the
     * number of records that it removed. */
    int (*tidy)(struct store_backend *b, uint64_t *bytes);
    void (*close)(struct store_backend *b);
};

struct store_backend {
    const struct store_backend_ops *ops;
    char why[160]; /* reason of the latest ERR_IO, for the log */
};

/* ERR_NOMEM, ERR_UNSUPPORTED (built without hiredis). max_bytes: the budget of a folder. */
int store_folder_open(struct store_backend **out, const struct store_place *place,
                      uint64_t max_bytes);
int store_redis_open(struct store_backend **out, const struct store_place *place);

#endif
