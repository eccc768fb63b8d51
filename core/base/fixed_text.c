/* core/base/fixed_text.c - see fixed_text.h.
 *
 * Each piece is formatted straight into the rest of the array. If it was cut, its first byte is set
 * back to NUL and is_full is set, which refuses all later pieces, so the array never holds a part
 * of a piece.
 */
#include "core/base/fixed_text.h"

#include <stdarg.h>
#include <stdio.h>

void fixed_text_init(struct fixed_text *t, char *array, size_t size)
{
    *t = (struct fixed_text){.text = array, .size = size};
    array[0] = '\0';
}

bool fixed_text_add(struct fixed_text *t, const char *format, ...)
{
    const size_t room = t->size - t->len;
    va_list args;
    int n;

    if (t->is_full)
        return false;
    va_start(args, format);
    n = vsnprintf(t->text + t->len, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) {
        t->text[t->len] = '\0';
        t->is_full = true;
        return false;
    }
    t->len += (size_t)n;
    return true;
}
