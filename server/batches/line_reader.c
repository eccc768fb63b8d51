/* server/batches/line_reader.c - see line_reader.h.
 *
 * pread() in blocks of 64 KiB, so that the descriptor's position is not used, which an appending
 * thread may share. A line that spans blocks is put together in `line`; `end` counts the bytes
 * consumed and is where the next block is read.
 */
#include "server/batches/line_reader.h"

#include "core/base/err.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BLOCK ((size_t)64 << 10)

void line_reader_init(struct line_reader *r, int fd, size_t max, uint64_t limit)
{
    *r = (struct line_reader){.fd = fd, .limit = limit};
    buf_init(&r->line, max);
    buf_init(&r->block, BLOCK);
}

void line_reader_release(struct line_reader *r)
{
    buf_release(&r->line);
    buf_release(&r->block);
}

/* Read the next block. 1, 0 at the end, or ERR_*. */
static int fill_block(struct line_reader *r)
{
    const uint64_t at = r->end;
    const size_t n = r->limit - at < BLOCK ? (size_t)(r->limit - at) : BLOCK;
    ssize_t got;

    r->pos = 0;
    buf_clear(&r->block);
    if (buf_reserve(&r->block, BLOCK) < 0)
        return ERR_NOMEM;
    do
        got = n > 0 ? pread(r->fd, r->block.data, n, (off_t)at) : 0;
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_from_errno(errno);
    r->block.len = (size_t)got;
    return got > 0;
}

int line_reader_next(struct line_reader *r)
{
    const char *from, *lf;
    int rc = 1;

    buf_clear(&r->line);
    r->number++;
    r->is_whole = false;
    while (!r->is_whole) {
        if (r->pos == r->block.len && (rc = fill_block(r)) <= 0)
            break;
        from = r->block.data + r->pos;
        lf = memchr(from, '\n', r->block.len - r->pos);
        r->is_whole = lf != NULL;
        if (lf == NULL)
            lf = r->block.data + r->block.len;
        if (buf_add(&r->line, from, (size_t)(lf - from)) < 0)
            return r->line.err;
        lf += r->is_whole;
        r->pos += (size_t)(lf - from);
        r->end += (size_t)(lf - from);
    }
    return rc < 0 ? rc : r->is_whole || r->line.len > 0;
}

bool line_reader_is_blank(const struct line_reader *r)
{
    for (size_t i = 0; i < r->line.len; i++)
        if (strchr(" \t\r", r->line.data[i]) == NULL)
            return false;
    return true;
}
