/* core/base/buf.h - growable bytes with a mandatory maximum.
 *
 * `data` is always NUL-terminated once anything was added, so that text can be handed to C
 * functions. The first failed append makes the buffer sticky-failed: later appends do nothing
 * and keep returning the same error, so a writer may check once at the end (buf.err).
 *
 * Thread: none of its own; one owner at a time.
 * Memory: grows by doubling up to `max` bytes; buf_release() frees.
 * Errors: ERR_LIMIT past `max`, ERR_NOMEM; the contents stay as they were.
 */
#ifndef CORE_BASE_BUF_H
#define CORE_BASE_BUF_H

#include <stddef.h>

struct buf {
    char *data; /* NULL while empty and never used */
    size_t len;
    size_t cap;
    size_t max; /* most bytes `len` may reach */
    int err;    /* 0, or the first error */
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* len = 0, err = 0, memory kept */

/* Replace the contents by bytes that outlive the buffer. They are copied only when more is added or
 * buf_detach() hands them on, and need no NUL after them; `cap` is 0 until then. */
void buf_borrow(struct buf *b, const void *bytes, size_t n);

int buf_reserve(struct buf *b, size_t more);
int buf_add(struct buf *b, const void *bytes, size_t n);
int buf_add_str(struct buf *b, const char *s);
int buf_add_char(struct buf *b, char c);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drop the first n bytes (n <= len), moving the rest down. */
void buf_consume(struct buf *b, size_t n);

/* Return the bytes to the caller (free with mem_free); the buffer is empty afterwards. NULL: there
 * are no bytes, or no memory to copy borrowed ones, which stay. */
char *buf_detach(struct buf *b, size_t *len);

#endif
