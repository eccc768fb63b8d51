/* core/formats/gguf/cursor.c - see cursor.h.
 *
 * Every read goes through cursor_take(), which compares with the bytes left before it moves, so no
 * other function of the parser does bounds arithmetic. Numbers are assembled byte by byte: that
 * works unaligned and on any byte order. A sentence is made of file, subject and what was found.
 */
#include "core/formats/gguf/cursor.h"

#include "core/base/err.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t gguf_load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t gguf_load_u64(const uint8_t *p)
{
    return gguf_load_u32(p) | (uint64_t)gguf_load_u32(p + 4) << 32;
}

int cursor_fail(struct cursor *p, int rc, const char *format, ...)
{
    va_list args;
    int n = snprintf(p->err, p->err_len, "%s: %s: ", p->file, p->subject);

    va_start(args, format);
    if (n >= 0 && (size_t)n < p->err_len)
        vsnprintf(p->err + n, p->err_len - (size_t)n, format, args);
    va_end(args);
    return rc;
}

void cursor_subject(struct cursor *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->subject, sizeof(p->subject), format, args);
    va_end(args);
}

uint64_t cursor_left(const struct cursor *p)
{
    return p->bytes - p->at;
}

int cursor_take(struct cursor *p, uint64_t n, const char *what, const uint8_t **bytes)
{
    if (n > cursor_left(p))
        return cursor_fail(p, ERR_FORMAT,
                           "%s needs %" PRIu64 " bytes, but the file ends after %" PRIu64 " more",
                           what, n, cursor_left(p));
    *bytes = p->base + p->at;
    p->at += n;
    return 0;
}

int cursor_take_u32(struct cursor *p, const char *what, uint32_t *v)
{
    const uint8_t *b = NULL;
    const int rc = cursor_take(p, 4, what, &b);

    if (rc == 0)
        *v = gguf_load_u32(b);
    return rc;
}

int cursor_take_u64(struct cursor *p, const char *what, uint64_t *v)
{
    const uint8_t *b = NULL;
    const int rc = cursor_take(p, 8, what, &b);

    if (rc == 0)
        *v = gguf_load_u64(b);
    return rc;
}

int cursor_take_str(struct cursor *p, const char *what, struct gguf_str *s)
{
    const uint8_t *b = NULL;
    uint64_t len = 0;
    int rc = cursor_take_u64(p, "a string's length", &len);

    if (rc == 0)
        rc = cursor_take(p, len, what, &b);
    if (rc < 0)
        return rc;
    s->data = (const char *)b;
    s->len = (size_t)len;
    return 0;
}

int cursor_take_name(struct cursor *p, const char *kind, struct gguf_str *s)
{
    const int rc = cursor_take_str(p, "the name", s);

    if (rc < 0)
        return rc;
    if (s->len == 0 || s->len >= GGUF_MAX_NAME)
        return cursor_fail(p, ERR_FORMAT, "the name has %zu bytes, but 1 to %d are allowed", s->len,
                           GGUF_MAX_NAME - 1);
    for (size_t i = 0; i < s->len; i++)
        if ((uint8_t)s->data[i] < 0x20 || (uint8_t)s->data[i] > 0x7e)
            return cursor_fail(p, ERR_FORMAT,
                               "the name contains byte 0x%02x, which is not printable ASCII",
                               (uint8_t)s->data[i]);
    cursor_subject(p, "%s '%.*s'", kind, (int)s->len, s->data);
    return 0;
}

int cursor_check_count(struct cursor *p, const char *what, uint64_t n, uint64_t max, uint64_t each)
{
    if (n > max)
        return cursor_fail(p, ERR_FORMAT, "claims %" PRIu64 " %s, more than the limit of %" PRIu64,
                           n, what, max);
    if (n > cursor_left(p) / each)
        return cursor_fail(p, ERR_FORMAT,
                           "claims %" PRIu64 " %s, which cannot fit into the %" PRIu64
                           " bytes left",
                           n, what, cursor_left(p));
    return 0;
}
