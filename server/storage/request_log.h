/* server/storage/request_log.h - the file of requests_db: an append-only log.
 *
 * Appended records outlive the process as soon as request_log_append() returns, and the machine
 * once request_log_sync() has. Records of requests that are gone stay until a new file without them
 * is written and renamed over the old one: when the file is opened, and when more than half of it
 * belongs to such requests. A damaged file loses the damaged records: the log says where, and which
 * requests are lost.
 *
 * One process holds the file at a time; the lock ends with the process, however it ends.
 *
 * Thread: one at a time.
 * Memory: while it is opened or written anew, the file's contents, twice.
 */
#ifndef SERVER_STORAGE_REQUEST_LOG_H
#define SERVER_STORAGE_REQUEST_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "server/storage/saved_requests.h"

struct request_log;

/* Open the file. ERR_BUSY: another process has it. Other negative ERR_*, with a sentence: it cannot
 * be used. *saved gets the file's requests, without those that are gone; *n_lost requests could not
 * be read. */
int request_log_open(struct request_log **out, const char *path,
                     struct saved_requests *saved /* filled */, uint64_t *n_lost, char *err,
                     size_t err_len);
void request_log_close(struct request_log **l);

/* Append whole records. ERR_IO: errno has the reason, and the file has not changed. */
int request_log_append(struct request_log *l, const char *records, size_t n);
int request_log_sync(struct request_log *l);
/* Replace the file by one without the requests that are gone. ERR_IO, ERR_NOMEM: the file has not
 * changed. */
int request_log_compact(struct request_log *l);

uint64_t request_log_bytes(const struct request_log *l);

#endif
