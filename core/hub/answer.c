/* core/hub/answer.c - reads the head of an answer, line by line; see transfer.h.
 *
 * libcurl calls hub_answer_take_line() for every header line of every answer of a chain of
 * redirects. A new status line clears the values that belong to one answer, while commit, hash and
 * size, which only the Hub's own first answer has, are kept. Values are cut to numbers and texts
 * with limits, since any server may have sent them.
 */
#include "core/hub/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_WAIT_S 86400

struct value {
    const char *text;
    size_t n;
};

static bool is_named(const char *line, size_t n, const char *name, struct value *v)
{
    const size_t len = strlen(name);

    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return false;
    *v = (struct value){line + len + 1, n - len - 1};
    while (v->n > 0 && strchr(" \t\r\n", v->text[v->n - 1]) != NULL)
        v->n--;
    while (v->n > 0 && strchr(" \t", v->text[0]) != NULL) {
        v->text++;
        v->n--;
    }
    return true;
}

/* Copy a value; one that does not fit becomes empty, since half a URL or hash means something
 * else. */
static void copy_value(char *dst, size_t size, struct value v)
{
    if (v.n >= size || memchr(v.text, '\0', v.n) != NULL)
        v.n = 0;
    memcpy(dst, v.text, v.n);
    dst[v.n] = '\0';
}

static uint64_t header_number(struct value v, uint64_t otherwise)
{
    char text[24], *end;
    uint64_t n;

    copy_value(text, sizeof(text), v);
    n = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' ? n : otherwise;
}

static void take_etag(struct hub_answer *a, struct value v)
{
    if (v.n > 2 && strncmp(v.text, "W/", 2) == 0)
        v = (struct value){v.text + 2, v.n - 2};
    if (v.n > 1 && v.text[0] == '"' && v.text[v.n - 1] == '"')
        v = (struct value){v.text + 1, v.n - 2};
    copy_value(a->etag, sizeof(a->etag), v);
}

/* Take <https://...>; rel="next", which may be one of several links with commas between. */
static void take_link(struct hub_answer *a, struct value v)
{
    const char *at = v.text, *end = v.text + v.n;

    while (at < end) {
        const char *open = memchr(at, '<', (size_t)(end - at));
        const char *close = open != NULL ? memchr(open, '>', (size_t)(end - open)) : NULL;
        const char *stop;

        if (close == NULL)
            return;
        stop = memchr(close, '<', (size_t)(end - close));
        stop = stop != NULL ? stop : end;
        if (memmem(close, (size_t)(stop - close), "rel=\"next\"", 10) != NULL ||
            memmem(close, (size_t)(stop - close), "rel=next", 8) != NULL)
            copy_value(a->next, sizeof(a->next),
                       (struct value){open + 1, (size_t)(close - open - 1)});
        at = stop;
    }
}

/* Take "api";r=0;t=55: no request is left, and there are new ones after 55 seconds. */
static void take_rate_limit(struct hub_answer *a, struct value v)
{
    char text[200];
    const char *left, *wait;

    copy_value(text, sizeof(text), v);
    left = strstr(text, ";r=0;");
    wait = left != NULL ? strstr(left, ";t=") : NULL;
    if (wait != NULL && a->retry_after == 0)
        a->retry_after = strtoull(wait + 3, NULL, 10) + 1;
    a->retry_after = a->retry_after < MAX_WAIT_S ? a->retry_after : MAX_WAIT_S;
}

static void take_range(struct hub_answer *a, struct value v)
{
    char text[80];

    copy_value(text, sizeof(text), v);
    a->range_start = strncasecmp(text, "bytes ", 6) == 0 && text[6] >= '0' && text[6] <= '9'
                         ? strtoull(text + 6, NULL, 10)
                         : UINT64_MAX;
}

/* Begin another answer. In a chain of redirects the last head counts, except for values that only
 * the Hub itself sends. */
static void take_status(struct hub_answer *a)
{
    a->location[0] = a->next[0] = a->error_code[0] = a->error_text[0] = '\0';
    a->range_start = UINT64_MAX;
    a->retry_after = 0;
}

void hub_answer_take_line(struct hub_answer *a, const char *line, size_t n)
{
    struct value v;

    if (n > 5 && strncasecmp(line, "HTTP/", 5) == 0)
        take_status(a);
    else if (is_named(line, n, "X-Repo-Commit", &v))
        copy_value(a->commit, sizeof(a->commit), v);
    else if (is_named(line, n, "X-Linked-Etag", &v) ||
             (a->etag[0] == '\0' && is_named(line, n, "ETag", &v)))
        take_etag(a, v);
    else if (is_named(line, n, "X-Linked-Size", &v) ||
             (a->size == UINT64_MAX && is_named(line, n, "Content-Length", &v)))
        a->size = header_number(v, UINT64_MAX);
    else if (is_named(line, n, "Location", &v))
        copy_value(a->location, sizeof(a->location), v);
    else if (is_named(line, n, "Link", &v))
        take_link(a, v);
    else if (is_named(line, n, "Content-Range", &v))
        take_range(a, v);
    else if (is_named(line, n, "Retry-After", &v))
        a->retry_after = header_number(v, 0) < MAX_WAIT_S ? header_number(v, 0) : MAX_WAIT_S;
    else if (is_named(line, n, "RateLimit", &v))
        take_rate_limit(a, v);
    else if (is_named(line, n, "X-Error-Code", &v))
        copy_value(a->error_code, sizeof(a->error_code), v);
    else if (is_named(line, n, "X-Error-Message", &v))
        copy_value(a->error_text, sizeof(a->error_text), v);
}
