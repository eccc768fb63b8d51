/* server/engine_io/journal_file.h - writes the journal's lines to its file.
 *
 * Lines that the engine has appended are taken on each wake and written by the loop's thread pool,
 * one write at a time, so neither thread waits for the disk. A write that fails is repeated by the
 * next pump after a second. The log reports when writes begin to fail and when they work again; if
 * the journal's ring was full meanwhile, the journal has the number of missing lines.
 *
 * Thread: the loop's.
 * Memory: one buffer of JOURNAL_FILE_CHUNK bytes.
 */
#ifndef SERVER_ENGINE_IO_JOURNAL_FILE_H
#define SERVER_ENGINE_IO_JOURNAL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define JOURNAL_FILE_CHUNK ((size_t)64 << 10)

struct journal;
struct journal_file;

/* Open `path` for appending; it is created if it does not exist, and locked, because two writers
 * would make it unreadable. On failure `err` has a sentence. */
int journal_file_open(struct journal_file **out, const char *path, struct journal *j, char *err,
                      size_t err_len);
void journal_file_close(struct journal_file **f); /* only when it is idle */

/* Begin a write if there are lines and no write is running. */
void journal_file_pump(struct journal_file *f, uv_loop_t *loop);
/* Return the clock_us() at which the running write began; 0: none runs. NULL is allowed here and
 * below. */
uint64_t journal_file_begin_us(const struct journal_file *f);
bool journal_file_is_idle(const struct journal_file *f);

#endif
