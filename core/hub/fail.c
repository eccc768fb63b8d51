/* core/hub/fail.c - error sentences; see hub_impl.h.
 *
 * Texts from the Hub go through hub_printable() before they are put into a sentence, so that a
 * server cannot write control characters to a terminal or a log.
 */
#include "core/hub/hub_impl.h"

#include <stdarg.h>
#include <stdio.h>

int hub_fail(int rc, char *err, size_t err_len, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err, err_len, format, args);
    va_end(args);
    return rc;
}

const char *hub_printable(char *dst, size_t size, const char *text)
{
    size_t n = 0;

    for (; text[n] != '\0' && n + 1 < size; n++)
        dst[n] = (char)(text[n] >= 0x20 && text[n] <= 0x7e ? text[n] : '?');
    dst[n] = '\0';
    return dst;
}
