/* core/base/name_copy.h - copies a name from outside into a fixed array: whole, or not at all.
 *
 * A cut name is the name of something else. So names by which things are found, owned or opened are
 * copied with this; snprintf() is for text that is only shown.
 *
 * Thread: any.
 * Memory: the caller's.
 * Errors: ERR_LIMIT: the name does not fit, and *out is "".
 */
#ifndef CORE_BASE_NAME_COPY_H
#define CORE_BASE_NAME_COPY_H

#include <stddef.h>
#include <string.h>

#include "core/base/err.h"

/* Copy text[0..n) and a NUL into out[0..size). */
static inline int name_copy_n(char *out, size_t size, const char *text, size_t n)
{
    out[0] = '\0';
    if (n >= size)
        return ERR_LIMIT;
    memcpy(out, text, n);
    out[n] = '\0';
    return 0;
}

static inline int name_copy(char *out, size_t size, const char *text)
{
    return name_copy_n(out, size, text, strnlen(text, size));
}

#endif
