/* core/base/fixed_text.h - text that is put together in an array of a fixed size.
 *
 *      struct fixed_text t;
 *
 *      fixed_text_init(&t, array, sizeof(array));
 *      fixed_text_add(&t, "%s/", folder);
 *      if (!fixed_text_add(&t, "%s", name))
 *          return ERR_LIMIT;
 *
 * A piece that does not fit is not added, nor is any piece after it, so that a cut name never means
 * something else; `is_full` is set then, and the last call's result holds for all earlier calls.
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
    bool is_full; /* a piece did not fit */
};

void fixed_text_init(struct fixed_text *t, char *array, size_t size);

/* False: this piece, or one before it, did not fit. */
bool fixed_text_add(struct fixed_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
