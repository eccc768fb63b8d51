/* server/requests/request_log.h - the file of requests_db: a log that is only appended to.
 *
 * What was appended outlives the process as soon as request_log_append() returns, and the machine
 * once request_log_sync() has. Records of requests that are gone stay until the file is written
 * anew, which takes its place at once, by its name: when it is opened, and when more is gone than
 * is not. A damaged file loses what was damaged: the log says where, and which requests are lost.
 *
 * One process has it at a time; it is free as soon as that ends, however it does.
 *
 * Thread: one at a time.
 * Memory: while it is opened or written anew, what the file has, twice.
 */
#ifndef SERVER_REQUESTS_REQUEST_LOG_H
#define SERVER_REQUESTS_REQUEST_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "server/requests/saved_requests.h"

struct request_log;

/* ERR_BUSY: another process has it. Other negative ERR_*, with a sentence: it cannot be used. What
 * it has is in *saved, without those that are gone; n_lost of those that were there are lost. */
int request_log_open(struct request_log **out, const char *path,
                     struct saved_requests *saved /* filled */, uint64_t *n_lost, char *err,
                     size_t err_len);
void request_log_close(struct request_log **l);

/* Whole records. ERR_IO: errno says why, and the file is as it was. */
int request_log_append(struct request_log *l, const char *records, size_t n);
int request_log_sync(struct request_log *l);
/* Write it anew, without what is gone. ERR_IO, ERR_NOMEM: it is as it was. */
int request_log_compact(struct request_log *l);

uint64_t request_log_bytes(const struct request_log *l);

#endif
