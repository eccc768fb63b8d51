/* server/storage/sqlite_record.c - see sqlite_record.h.
 *
 * Parses SQLite's cells and records straight from a page: the cell's length and offset, its
 * overflow pages, then the header of serial types. Nothing that a page says is trusted: every
 * offset and length is checked against the page, the record and the database before it is used.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_record.h"

#include "core/base/err.h"
#include "server/storage/sqlite_pages.h"

#include <string.h>

enum kind { INDEX_INTERIOR = 2, INDEX_LEAF = 10, TABLE_LEAF = 13 };

#define USABLE SQLITE_PAGES_USABLE
#define FIRST_PAGE_HEAD 100u /* of the database, before the page's own head */
#define OVERFLOW_BYTES (USABLE - 4)
/* Bytes of a record inside the page: at least, and at most in an index. */
#define MIN_LOCAL ((USABLE - 12) * 32 / 255 - 23)
#define MAX_LOCAL_INDEX ((USABLE - 12) * 64 / 255 - 23)
#define MAX_LOCAL_TABLE (USABLE - 35)

static uint32_t short_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t number_at(const unsigned char *p)
{
    return short_at(p) << 16 | short_at(p + 2);
}

/* Read a number of one to nine bytes; *at moves past it. False: it does not end before `end`. */
static bool read_varint(const unsigned char *p, size_t end, size_t *at, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 9 && *at < end; i++) {
        const unsigned char byte = p[(*at)++];

        *out = i < 8 ? *out << 7 | (byte & 0x7f) : *out << 8 | byte;
        if (i == 8 || byte < 0x80)
            return true;
    }
    return false;
}

static const unsigned char *head_of(const unsigned char *page, uint32_t number)
{
    return page + (number == 1 ? FIRST_PAGE_HEAD : 0);
}

uint32_t sqlite_record_count(const unsigned char *page, uint32_t number, bool of_index)
{
    const unsigned char *head = head_of(page, number);
    const bool fits = of_index ? head[0] == INDEX_LEAF || head[0] == INDEX_INTERIOR
                               : head[0] == TABLE_LEAF;

    return fits ? short_at(head + 3) : 0;
}

/* ---- the bytes ---- */

static uint64_t local_of(uint64_t n, enum kind kind)
{
    const uint64_t most = kind == TABLE_LEAF ? MAX_LOCAL_TABLE : MAX_LOCAL_INDEX;
    const uint64_t local = MIN_LOCAL + (n - MIN_LOCAL) % OVERFLOW_BYTES;

    return n <= most ? n : local <= most ? local : MIN_LOCAL;
}

/* Append the overflow pages' bytes, page by page. */
static int add_overflow(struct sqlite_record *r, const struct sqlite_image *image, uint32_t number,
                        uint64_t rest)
{
    unsigned char page[SQLITE_PAGES_SIZE];

    while (rest > 0) {
        const size_t n = rest < OVERFLOW_BYTES ? (size_t)rest : OVERFLOW_BYTES;

        if (image->is_unsure || number == 0 || number > image->n_pages ||
            !sqlite_image_read(image, number, page))
            return ERR_FORMAT;
        if (buf_add(&r->bytes, page + 4, n) < 0)
            return ERR_NOMEM;
        number = number_at(page);
        rest -= n;
    }
    return number == 0 ? 0 : ERR_FORMAT;
}

static int read_bytes(struct sqlite_record *r, const struct sqlite_image *image,
                      const unsigned char *page, size_t at, enum kind kind)
{
    uint64_t n, row = 0, local;

    if (!read_varint(page, USABLE, &at, &n) ||
        (kind == TABLE_LEAF && !read_varint(page, USABLE, &at, &row)))
        return ERR_FORMAT;
    if (n > (uint64_t)image->n_pages * SQLITE_PAGES_SIZE || n > UINT32_MAX)
        return ERR_FORMAT;
    local = local_of(n, kind);
    if (at + local + (local < n ? 4 : 0) > USABLE)
        return ERR_FORMAT;
    r->row = (int64_t)row;
    if (buf_add(&r->bytes, page + at, (size_t)local) < 0)
        return ERR_NOMEM;
    return local < n ? add_overflow(r, image, number_at(page + at + local), n - local) : 0;
}

/* ---- the values ---- */

static uint64_t bytes_of(uint64_t kind)
{
    static const unsigned char fixed[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};

    return kind < sizeof(fixed) ? fixed[kind] : (kind - 12) / 2;
}

static int find_values(struct sqlite_record *r)
{
    const unsigned char *p = (const unsigned char *)r->bytes.data;
    size_t at = 0;
    uint64_t head, place;

    if (p == NULL || !read_varint(p, r->bytes.len, &at, &head) || head > r->bytes.len)
        return ERR_FORMAT;
    for (place = head; at < head; r->n++) {
        if (r->n == SQLITE_RECORD_VALUES || !read_varint(p, (size_t)head, &at, &r->kinds[r->n]))
            return ERR_FORMAT;
        if (bytes_of(r->kinds[r->n]) > r->bytes.len - place)
            return ERR_FORMAT;
        r->places[r->n] = (uint32_t)place;
        place += bytes_of(r->kinds[r->n]);
    }
    return place == r->bytes.len ? 0 : ERR_FORMAT;
}

int sqlite_record_read(struct sqlite_record *r, const struct sqlite_image *image,
                       const unsigned char *page, uint32_t number, uint32_t i)
{
    const unsigned char *head = head_of(page, number);
    const enum kind kind = (enum kind)head[0];
    const size_t cells = (size_t)(head - page) + (kind == INDEX_INTERIOR ? 12 : 8) + 2u * i;
    size_t at;
    int rc;

    r->n = 0;
    r->bytes.max = UINT32_MAX;
    buf_clear(&r->bytes);
    if (cells + 2 > USABLE)
        return ERR_FORMAT;
    at = short_at(page + cells) + (kind == INDEX_INTERIOR ? 4u : 0);
    rc = at < USABLE ? read_bytes(r, image, page, at, kind) : ERR_FORMAT;
    return rc < 0 ? rc : find_values(r);
}

void sqlite_record_release(struct sqlite_record *r)
{
    buf_release(&r->bytes);
    r->n = 0;
}

static int64_t integer_of(const unsigned char *p, uint64_t n)
{
    uint64_t value = n > 0 && p[0] >= 0x80 ? UINT64_MAX : 0;

    for (uint64_t i = 0; i < n; i++)
        value = value << 8 | p[i];
    return (int64_t)value;
}

int sqlite_record_bind(const struct sqlite_record *r, uint32_t i, sqlite3_stmt *st, int to)
{
    const unsigned char *p = (const unsigned char *)r->bytes.data + r->places[i];
    const uint64_t kind = r->kinds[i], n = bytes_of(kind);
    int64_t bits;
    double number;

    if (kind == 0)
        return sqlite3_bind_null(st, to);
    if (kind == 8 || kind == 9)
        return sqlite3_bind_int64(st, to, (int64_t)kind - 8);
    if (kind == 7) {
        bits = integer_of(p, n);
        memcpy(&number, &bits, sizeof(number));
        return sqlite3_bind_double(st, to, number);
    }
    if (kind < 12)
        return sqlite3_bind_int64(st, to, integer_of(p, n));
    return kind % 2 == 0 ? sqlite3_bind_blob64(st, to, p, n, SQLITE_STATIC)
                         : sqlite3_bind_text64(st, to, (const char *)p, n, SQLITE_STATIC,
                                               SQLITE_UTF8);
}
#endif
