/* server/http/http_target.c - see http_target.h.
 *
 * The target is split and decoded in place, so that path, query and host point into the caller's
 * text and nothing is allocated. Every byte is checked before anything is decoded; a decoded path
 * cannot contain NUL, since %00 is refused.
 */
#include "server/http/http_target.h"

#include "core/base/err.h"
#include "core/base/hex.h"
#include "server/http/http_grammar.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- hosts ---- */

/* True: a character of a host name or IPv4 address. Of RFC 3986's reg-name, only the characters
 * that real names have. */
static bool is_target_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

size_t http_host_name_length(const char *host)
{
    size_t n = 0;

    if (host[0] != '[')
        return strcspn(host, ":");
    while (host[n] != '\0' && host[n] != ']')
        n++;
    return n + (host[n] == ']');
}

static bool is_address_6(const char *text, size_t n)
{
    bool has_colon = false;

    if (n < 4 || text[n - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < n; i++) {
        if (hex_digit(text[i]) < 0 && text[i] != ':' && text[i] != '.')
            return false;
        has_colon = has_colon || text[i] == ':';
    }
    return has_colon;
}

static bool is_port(const char *text)
{
    const size_t n = strspn(text, "0123456789");

    return n <= 5 && text[n] == '\0' && strtoul(n > 0 ? text : "0", NULL, 10) <= UINT16_MAX;
}

bool http_host_is_valid(const char *text)
{
    const size_t n = http_host_name_length(text);

    if (n == 0 || n > 255 || (text[n] != '\0' && (text[n] != ':' || !is_port(text + n + 1))))
        return false;
    if (text[0] == '[')
        return is_address_6(text, n);
    for (size_t i = 0; i < n; i++)
        if (!is_target_name_char(text[i]))
            return false;
    return true;
}

/* ---- targets ---- */

/* True: printable ASCII. Characters that RFC 3986 forbids and no client sends are refused; a few
 * that browsers send unencoded in queries are accepted. */
static bool is_target_char(char c)
{
    return c > 0x20 && c < 0x7f && strchr("#\"<>\\", c) == NULL;
}

static bool has_only_target_chars(const char *text)
{
    for (; *text != '\0'; text++) {
        if (!is_target_char(*text))
            return false;
        if (*text != '%')
            continue;
        if (hex_digit(text[1]) < 0 || hex_digit(text[2]) < 0 ||
            (text[1] == '0' && text[2] == '0'))
            return false;
    }
    return true;
}

void http_percent_decode(char *text, bool is_query)
{
    char *out = text;

    for (; *text != '\0'; text++) {
        if (*text == '%') {
            *out++ = (char)(hex_digit(text[1]) * 16 + hex_digit(text[2]));
            text += 2;
        } else {
            *out++ = is_query && *text == '+' ? ' ' : *text;
        }
    }
    *out = '\0';
}

static void split_query(struct http_target *out, char *text)
{
    char *mark = strchr(text, '?');

    if (mark != NULL) {
        *mark = '\0';
        out->query = mark + 1;
    }
    http_percent_decode(text, false);
    out->path = text[0] != '\0' ? text : "/";
}

/* Parse an absolute target. The host is moved a byte to the left, over the second slash, so that a
 * NUL can end it without overwriting the path's slash. */
static int parse_absolute(struct http_target *out, char *text)
{
    const size_t n_scheme = strncasecmp(text, "http://", 7) == 0    ? 7
                            : strncasecmp(text, "https://", 8) == 0 ? 8
                                                                    : 0;
    char *host = text + n_scheme - 1;
    size_t n;

    if (n_scheme == 0)
        return ERR_INVAL;
    n = strcspn(host + 1, "/?");
    memmove(host, host + 1, n);
    host[n] = '\0';
    if (!http_host_is_valid(host))
        return ERR_INVAL;
    out->host = host;
    split_query(out, host + n + 1);
    return 0;
}

int http_target_parse(struct http_target *out, char *text, const char *method)
{
    *out = (struct http_target){0};
    if (strcmp(text, "*") == 0 && strcmp(method, "OPTIONS") == 0) {
        out->path = text;
        return 0;
    }
    if (!has_only_target_chars(text))
        return ERR_INVAL;
    if (text[0] != '/')
        return parse_absolute(out, text);
    split_query(out, text);
    return 0;
}
