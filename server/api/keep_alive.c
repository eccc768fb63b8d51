/* server/api/keep_alive.c - see keep_alive.h.
 *
 * The text is that of the body (body_scan.h), because the model has to be chosen before the body is
 * parsed. Without its quotes it has the syntax of durations in the settings, so duration_parse()
 * reads it.
 */
#include "server/api/keep_alive.h"

#include "config/duration.h"

#include <string.h>

#define MAX_TEXT 32

_Static_assert(DURATION_NEVER == UINT64_MAX, "the same span for ever");

bool keep_alive_read(const char *text, size_t n, uint64_t *us)
{
    char copy[MAX_TEXT];

    if (n >= 2 && text[0] == '"' && text[n - 1] == '"') {
        text++;
        n -= 2;
    }
    if (n == 0 || n >= sizeof(copy))
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return duration_parse(copy, us) == 0;
}
