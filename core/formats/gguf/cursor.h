/* core/formats/gguf/cursor.h - reading a file's bytes in order, each step checked against its end.
 *
 * All numbers are little-endian and unaligned. The subject names the item that is being read, so
 * that a failure is one sentence, FILE: SUBJECT: WHAT WAS FOUND.
 *
 * Private to core/formats/gguf.
 * Thread: one owner.
 * Memory: none; what is taken points into the bytes.
 * Errors: ERR_FORMAT with a sentence in `err`; outputs are then untouched.
 */
#ifndef CORE_FORMATS_GGUF_CURSOR_H
#define CORE_FORMATS_GGUF_CURSOR_H

#include "core/formats/gguf/gguf.h"

struct cursor {
    const char *file; /* the file's name in error sentences */
    const uint8_t *base;
    uint64_t bytes;
    uint64_t at; /* offset of the next byte; never past `bytes` */
    char *err;
    size_t err_len;
    char subject[GGUF_MAX_NAME + 16]; /* "key 'general.name'" */
};

uint64_t cursor_left(const struct cursor *p);

/* Take the next n bytes; if fewer are left, the error sentence begins with `what`. */
int cursor_take(struct cursor *p, uint64_t n, const char *what, const uint8_t **bytes);
int cursor_take_u32(struct cursor *p, const char *what, uint32_t *v);
int cursor_take_u64(struct cursor *p, const char *what, uint64_t *v);
int cursor_take_str(struct cursor *p, const char *what, struct gguf_str *s);

/* Take a key or a tensor's name: 1 .. 127 printable ASCII characters, so that messages and logs may
 * show it unchanged. It becomes the subject, after `kind`: "key" or "tensor". */
int cursor_take_name(struct cursor *p, const char *kind, struct gguf_str *s);

/* Check that n items of at least `each` bytes are possible: n is at most `max`, and enough bytes
 * are left. */
int cursor_check_count(struct cursor *p, const char *what, uint64_t n, uint64_t max, uint64_t each);

/* Set the subject of the next sentences. */
void cursor_subject(struct cursor *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write the sentence; returns rc. */
int cursor_fail(struct cursor *p, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint32_t gguf_load_u32(const uint8_t *p);
uint64_t gguf_load_u64(const uint8_t *p);

#endif
