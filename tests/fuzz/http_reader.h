/* tests/fuzz/http_reader.h - a second reader of HTTP/1.1 requests, as plain as RFC 9112 allows.
 *
 * It has the whole text in its hands, and takes every form that the RFC has for a head and a body.
 * A malformed request ends what it reads. Of the fields it understands those that frame the body.
 *
 * Thread: one.
 * Memory: a request borrows the text; its body is the caller's buffer.
 */
#ifndef TESTS_FUZZ_HTTP_READER_H
#define TESTS_FUZZ_HTTP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/buf.h"

#define READ_FIELDS 100

struct read_text {
    const char *at;
    size_t n;
};

struct read_request {
    struct read_text method;
    struct read_field {
        struct read_text name, value;
    } fields[READ_FIELDS];
    size_t n_fields;
    bool is_chunked;
    uint64_t length;
};

static inline bool read_text_is(struct read_text t, const char *text)
{
    return t.n == strlen(text) && memcmp(t.at, text, t.n) == 0;
}

static inline bool read_text_has(struct read_text t, char c)
{
    return memchr(t.at, c, t.n) != NULL;
}

/* The next line, without its CRLF, which *at moves behind. False: it has no end, or a CR or LF
 * inside. */
static inline bool read_line(struct read_text *line, const char **at, const char *end)
{
    const char *from = *at, *to = from;

    while (to < end && *to != '\r' && *to != '\n')
        to++;
    if (end - to < 2 || memcmp(to, "\r\n", 2) != 0)
        return false;
    *line = (struct read_text){from, (size_t)(to - from)};
    *at = to + 2;
    return true;
}

/* A method, a target and a version, with one blank between each. */
static inline bool read_request_line(struct read_request *r, struct read_text line)
{
    const size_t n_version = strlen(" HTTP/1.1");
    const char *blank = memchr(line.at, ' ', line.n), *version;

    if (blank == NULL || line.n < n_version || read_text_has(line, '\0'))
        return false;
    version = line.at + line.n - n_version;
    if (memcmp(version, " HTTP/1.1", n_version) != 0 &&
        memcmp(version, " HTTP/1.0", n_version) != 0)
        return false;
    r->method = (struct read_text){line.at, (size_t)(blank - line.at)};
    return blank + 1 < version && memchr(blank + 1, ' ', (size_t)(version - blank - 1)) == NULL;
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool read_field(struct read_field *f, struct read_text line)
{
    const char *colon = memchr(line.at, ':', line.n), *from, *to = line.at + line.n;

    if (colon == NULL || colon == line.at || is_blank(colon[-1]) || is_blank(line.at[0]) ||
        read_text_has(line, '\0'))
        return false;
    for (from = colon + 1; from < to && is_blank(*from);)
        from++;
    while (to > from && is_blank(to[-1]))
        to--;
    f->name = (struct read_text){line.at, (size_t)(colon - line.at)};
    f->value = (struct read_text){from, (size_t)(to - from)};
    return true;
}

static inline bool is_named(const struct read_field *f, const char *name)
{
    return f->name.n == strlen(name) && strncasecmp(f->name.at, name, f->name.n) == 0;
}

/* The value of the field, if it stands; false: it stands twice. */
static inline bool read_value(const struct read_request *r, const char *name,
                              struct read_text *value)
{
    size_t n = 0;

    *value = (struct read_text){NULL, 0};
    for (size_t i = 0; i < r->n_fields; i++)
        if (is_named(&r->fields[i], name)) {
            *value = r->fields[i].value;
            n++;
        }
    return n <= 1;
}

/* Digits of the base, and nothing else; of a number below 2^62. */
static inline bool read_number(struct read_text t, int base, uint64_t *number)
{
    char digits[32] = "", *end = digits;

    if (t.n == 0 || t.n >= sizeof(digits) ||
        strspn(memcpy(digits, t.at, t.n), "0123456789abcdefABCDEF") != t.n)
        return false;
    *number = strtoull(digits, &end, base);
    return *end == '\0' && *number < (uint64_t)1 << 62;
}

static inline bool read_framing(struct read_request *r)
{
    struct read_text coding, length;

    if (!read_value(r, "Transfer-Encoding", &coding) || !read_value(r, "Content-Length", &length) ||
        (coding.at != NULL && length.at != NULL))
        return false;
    r->is_chunked = coding.at != NULL;
    if (r->is_chunked)
        return coding.n == 7 && strncasecmp(coding.at, "chunked", 7) == 0;
    return length.at == NULL || read_number(length, 10, &r->length);
}

/* A head, which *at moves behind. False: there is none that is complete. */
static inline bool read_head(struct read_request *r, const char **at, const char *end)
{
    struct read_text line;

    *r = (struct read_request){0};
    if (end - *at >= 2 && memcmp(*at, "\r\n", 2) == 0) /* one may stand before it */
        *at += 2;
    if (!read_line(&line, at, end) || !read_request_line(r, line))
        return false;
    while (read_line(&line, at, end)) {
        if (line.n == 0)
            return read_framing(r);
        if (r->n_fields == READ_FIELDS || !read_field(&r->fields[r->n_fields++], line))
            return false;
    }
    return false;
}

/* The reader takes n bytes of a body, or as many as the input still has: then false. */
static inline bool read_bytes(uint64_t n, const char **at, const char *end, struct buf *body)
{
    const size_t left = (size_t)(end - *at), taken = n < left ? (size_t)n : left;

    buf_add(body, *at, taken);
    *at += taken;
    return taken == n;
}

static inline bool read_trailers(const char **at, const char *end)
{
    struct read_field field;
    struct read_text line;

    while (read_line(&line, at, end)) {
        if (line.n == 0)
            return true;
        if (!read_field(&field, line))
            return false;
    }
    return false;
}

/* A chunk's size, and an extension behind it, in which libmicrohttpd takes any bytes. */
static inline bool read_chunk_size(struct read_text line, uint64_t *size)
{
    const char *at = line.at, *end = at + line.n;

    while (at < end && *at != ';' && !is_blank(*at))
        at++;
    if (!read_number((struct read_text){line.at, (size_t)(at - line.at)}, 16, size))
        return false;
    if (at == end)
        return true;
    while (at < end && is_blank(*at))
        at++;
    return at < end && *at == ';';
}

static inline bool read_chunks(const char **at, const char *end, struct buf *body)
{
    struct read_text line;
    uint64_t size = 0;

    while (read_line(&line, at, end) && read_chunk_size(line, &size)) {
        if (size == 0)
            return read_trailers(at, end);
        if (!read_bytes(size, at, end, body) || !read_line(&line, at, end) || line.n > 0)
            return false;
    }
    return false;
}

/* The body, or as much of it as is there. False: it is not complete. */
static inline bool read_body(const struct read_request *r, const char **at, const char *end,
                             struct buf *body)
{
    buf_clear(body);
    return r->is_chunked ? read_chunks(at, end, body) : read_bytes(r->length, at, end, body);
}

#endif
