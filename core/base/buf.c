/* core/base/buf.c - see buf.h.
 *
 * Every append goes through buf_reserve(), the only place that compares with `max`, grows the
 * memory and sets err. Borrowed bytes are marked by cap == 0 with data set; the first append copies
 * them, so a reader that only looks at a large body never copies it.
 */
#include "core/base/buf.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

static bool is_borrowed(const struct buf *b)
{
    return b->cap == 0 && b->data != NULL;
}

void buf_release(struct buf *b)
{
    if (!is_borrowed(b))
        mem_free(b->data);
    *b = (struct buf){.max = b->max};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->err = 0;
    if (is_borrowed(b))
        b->data = NULL;
    else if (b->data != NULL)
        b->data[0] = '\0';
}

void buf_borrow(struct buf *b, const void *bytes, size_t n)
{
    buf_release(b);
    b->data = (char *)bytes; /* never written: see buf_reserve() */
    b->len = n;
    b->err = n > b->max ? ERR_LIMIT : 0;
}

int buf_reserve(struct buf *b, size_t more)
{
    size_t cap = b->cap > 0 ? b->cap : 64;
    char *data;

    if (b->err < 0)
        return b->err;
    if (more > b->max || b->len > b->max - more)
        return b->err = ERR_LIMIT;
    if (b->len + more < b->cap)
        return 0;
    if (b->len + more > SIZE_MAX / 2) /* doubling would overflow */
        return b->err = ERR_NOMEM;
    while (cap <= b->len + more)
        cap *= 2;
    data = mem_realloc(is_borrowed(b) ? NULL : b->data, cap);
    if (data == NULL)
        return b->err = ERR_NOMEM;
    if (is_borrowed(b)) {
        memcpy(data, b->data, b->len);
        data[b->len] = '\0';
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_add(struct buf *b, const void *bytes, size_t n)
{
    const int rc = buf_reserve(b, n);

    if (rc < 0)
        return rc;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    int n, rc;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(n >= 0);
    rc = buf_reserve(b, (size_t)n);
    if (rc < 0)
        return rc;
    va_start(args, format);
    vsnprintf(b->data + b->len, (size_t)n + 1, format, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0)
        return;
    if (is_borrowed(b)) {
        b->data += n;
        b->len -= n;
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

char *buf_detach(struct buf *b, size_t *len)
{
    char *data;

    if (is_borrowed(b) && buf_reserve(b, 0) < 0)
        return NULL;
    data = b->data;
    if (len != NULL)
        *len = b->len;
    *b = (struct buf){.max = b->max};
    return data;
}
