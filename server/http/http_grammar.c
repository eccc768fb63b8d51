/* server/http/http_grammar.c - see http_grammar.h.
 *
 * The functions read NUL-terminated texts that libmicrohttpd has kept, without allocation or copy.
 * The checks are stricter than the RFCs where implementations are known to differ: at most 19
 * digits for a length, no empty token, no coding after `chunked`.
 */
#include "server/http/http_grammar.h"

#include <string.h>
#include <strings.h>

bool http_is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool http_is_token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!http_is_token_char(text[i]))
            return false;
    return n > 0;
}

bool http_read_length(const char *text, uint64_t *length)
{
    const size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 19 || text[n] != '\0')
        return false;
    *length = 0;
    for (size_t i = 0; i < n; i++)
        *length = *length * 10 + (uint64_t)(text[i] - '0');
    return *length <= INT64_MAX;
}

/* Read the list member at *text, trimmed, and advance *text past its comma. False: the list has
 * ended. */
static bool next_member(const char **text, const char **member, size_t *n)
{
    const char *from = *text;
    size_t len;

    if (from == NULL)
        return false;
    len = strcspn(from, ",");
    *text = from[len] == ',' ? from + len + 1 : NULL;
    while (len > 0 && (*from == ' ' || *from == '\t'))
        from++, len--;
    while (len > 0 && (from[len - 1] == ' ' || from[len - 1] == '\t'))
        len--;
    *member = from;
    *n = len;
    return true;
}

static bool is_member(const char *member, size_t n, const char *name)
{
    return n == strlen(name) && strncasecmp(member, name, n) == 0;
}

bool http_has_foreign_coding(const char *list)
{
    bool has_foreign = false, was_chunked = false;
    const char *at;
    size_t n;

    while (next_member(&list, &at, &n)) {
        if (!http_is_token(at, n) || is_member(at, n, "identity") || was_chunked)
            return false;
        was_chunked = is_member(at, n, "chunked");
        has_foreign = has_foreign || !was_chunked;
    }
    return has_foreign && was_chunked;
}
