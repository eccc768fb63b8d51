/* config/origins.c - see origins.h.
 *
 * The list stays text and is walked for each request with an Origin header. A browser sends the
 * origin in one canonical form, so a comparison of whole entries without regard to case suffices:
 * there is no pattern and no default port to add.
 */
#include "config/origins.h"

#include <string.h>
#include <strings.h>

/* True: the character may be in a host with its port, IPv6 addresses in brackets included. */
static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(".-:[]_", c) != NULL);
}

static bool is_origin(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && ((text[i] >= 'a' && text[i] <= 'z') || (i > 0 && strchr("+-.", text[i]))))
        i++;
    if (i == 0 || n > ORIGINS_MAX_BYTES || n < i + 4 || memcmp(text + i, "://", 3) != 0)
        return false;
    for (i += 3; i < n; i++)
        if (!is_host_char(text[i]))
            return false;
    return true;
}

bool origins_are_valid(const char *text)
{
    if (strcmp(text, "*") == 0)
        return true;
    for (;;) {
        const size_t n = strcspn(text, ",");

        if (!is_origin(text, n))
            return false;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

/* Browsers send scheme and host in lower case; the setting may have upper case. */
bool origins_have(const char *text, const char *origin)
{
    const size_t len = strlen(origin);

    if (strcmp(text, "*") == 0)
        return true;
    while (*text != '\0') {
        const size_t n = strcspn(text, ",");

        if (n == len && strncasecmp(text, origin, n) == 0)
            return true;
        text += n + (text[n] == ',');
    }
    return false;
}
