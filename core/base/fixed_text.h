/* core/base/fixed_text.h - text that is put together in an array of a fixed size.
 *
 *     struct fixed_text t;
 *
 *     fixed_text_init(&t, array, sizeof(array));
 *     fixed_text_add(&t, "%s/", folder);
 *     if (!fixed_text_add(&t, "%s", name))
 *         return ERR_LIMIT;
 *
 * A piece that has no room is not added, nor is any behind it, so that half a name never stands for
 * another one; the text says so (`is_full`), and the last call's answer is that of all before it.
 *
 * Thread: one owner.
 * Memory: the caller's array, of one byte at least; it always ends with a NUL.
 */
#ifndef CORE_BASE_FIXED_TEXT_H
#define CORE_BASE_FIXED_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct fixed_text {
    char *text;
    size_t size, len;
    bool is_full; /* something had no room */
};

void fixed_text_init(struct fixed_text *t, char *array, size_t size);

/* false: this piece, or one before it, had no room. */
bool fixed_text_add(struct fixed_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
