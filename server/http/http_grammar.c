/* server/http/http_grammar.c - see http_grammar.h. */
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

bool http_is_version(const char *text)
{
    return strlen(text) == 8 && strncmp(text, "HTTP/", 5) == 0 && text[6] == '.' &&
           text[5] >= '0' && text[5] <= '9' && text[7] >= '0' && text[7] <= '9';
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

/* The member at *text, without blanks around; *text moves behind its comma. False at the end. */
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

bool http_list_has(const char *list, const char *member)
{
    const char *at;
    size_t n;

    while (next_member(&list, &at, &n))
        if (is_member(at, n, member))
            return true;
    return false;
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

/* ---- chunk extensions ---- */

enum extension {
    EXTENSION_BEGIN = 0, /* a name is wanted */
    EXTENSION_NAME,
    EXTENSION_EQUALS, /* a value is wanted */
    EXTENSION_TOKEN,
    EXTENSION_QUOTED,
    EXTENSION_ESCAPED,
    EXTENSION_CLOSED, /* behind a quoted value */
};

static bool is_quoted_char(char c)
{
    return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f);
}

static int quoted_step(int state, char c)
{
    if (!is_quoted_char(c))
        return -1;
    if (state == EXTENSION_ESCAPED)
        return EXTENSION_QUOTED;
    return c == '"' ? EXTENSION_CLOSED : c == '\\' ? EXTENSION_ESCAPED : EXTENSION_QUOTED;
}

int http_extension_step(int state, char c)
{
    if (state == EXTENSION_QUOTED || state == EXTENSION_ESCAPED)
        return quoted_step(state, c);
    if (c == ';')
        return http_extension_may_end(state) ? EXTENSION_BEGIN : -1;
    if (c == '=')
        return state == EXTENSION_NAME ? EXTENSION_EQUALS : -1;
    if (c == '"')
        return state == EXTENSION_EQUALS ? EXTENSION_QUOTED : -1;
    if (!http_is_token_char(c) || state == EXTENSION_CLOSED)
        return -1;
    return state == EXTENSION_BEGIN || state == EXTENSION_NAME ? EXTENSION_NAME : EXTENSION_TOKEN;
}

bool http_extension_may_end(int state)
{
    return state == EXTENSION_NAME || state == EXTENSION_TOKEN || state == EXTENSION_CLOSED;
}
