/* server/storage/sqlite_image.c - see sqlite_image.h.
 *
 * The log is in SQLite's format ("The WAL File Format"): a title of 32 bytes, then pieces: a head
 * of 24 bytes and a page. Numbers are big-endian; the title says in which byte order sums are
 * computed. The whole log is read once into an array of pieces with the verdict of each; then an
 * array tells for each page of the database where its newest copy is. The file is locked meanwhile
 * with the bytes that SQLite itself locks.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_image.h"

#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "server/storage/sqlite_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TITLE 32u
#define HEAD 24u
#define PIECE (HEAD + SQLITE_PAGES_SIZE)
#define LOG_MAGIC 0x377f0682u /* the last bit set: sums of big-endian numbers */
#define NO_PLACE UINT32_MAX
/* The bytes that SQLite locks, whatever the size of the file. */
#define LOCK_FROM 0x40000000
#define LOCK_BYTES 512
/* Pages that are read to find out whether a file is ours. */
#define MAX_PROBED 1024u

struct sum {
    uint32_t a, b;
};

struct piece {
    uint32_t page;            /* its number */
    uint32_t size;            /* of the database in pages, if a change ends here; else 0 */
    bool is_whole, is_of_log; /* is_of_log: its salt is the log's */
};

static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t low_first(const unsigned char *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* Read all n bytes, or fail. */
static bool read_at(int fd, void *out, size_t n, uint64_t at)
{
    return file_read(fd, out, n, (int64_t)at) == (int64_t)n;
}

static uint64_t size_of(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* ---- the log ---- */

static struct sum add_up(struct sum s, const unsigned char *p, size_t n, bool is_high_first)
{
    uint32_t (*number)(const unsigned char *) = is_high_first ? number_at : low_first;

    for (size_t i = 0; i < n; i += 8) {
        s.a += number(p + i) + s.b;
        s.b += number(p + i + 4) + s.a;
    }
    return s;
}

static struct sum sum_at(const unsigned char *p)
{
    return (struct sum){number_at(p), number_at(p + 4)};
}

struct log {
    int fd;
    uint32_t n;
    struct piece *pieces; /* [n] */
    unsigned char salt[8];
    bool is_high_first, has_title;
    struct sum before; /* the sum before the piece to be read, from the log itself */
    uint32_t n_first;  /* pieces from the beginning that are whole, to the end of a change: those
                        * that SQLite takes */
    uint32_t n_all;    /* to the end of the last whole change of all */
};

/* Read the title. If it is damaged, the salt comes from the first piece, and the byte order is this
 * machine's. */
static bool read_title(struct log *l)
{
    unsigned char title[TITLE], head[HEAD];
    struct sum sum;

    if (!read_at(l->fd, title, TITLE, 0) || !read_at(l->fd, head, HEAD, TITLE))
        return false;
    sum = add_up((struct sum){0, 0}, title, TITLE - 8, (title[3] & 1) != 0);
    l->before = sum_at(title + TITLE - 8);
    l->has_title = (number_at(title) & ~1u) == LOG_MAGIC && sum.a == l->before.a &&
                   sum.b == l->before.b && number_at(title + 8) == SQLITE_PAGES_SIZE;
    l->is_high_first = l->has_title && (title[3] & 1) != 0;
    memcpy(l->salt, l->has_title ? title + 16 : head + 8, sizeof(l->salt));
    return true;
}

static bool read_piece(struct log *l, uint32_t i)
{
    unsigned char bytes[PIECE];
    struct piece *p = &l->pieces[i];
    struct sum sum;

    if (!read_at(l->fd, bytes, PIECE, TITLE + (uint64_t)i * PIECE))
        return false;
    sum = add_up(l->before, bytes, 8, l->is_high_first);
    sum = add_up(sum, bytes + HEAD, SQLITE_PAGES_SIZE, l->is_high_first);
    l->before = sum_at(bytes + 16);
    p->page = number_at(bytes);
    p->size = number_at(bytes + 4);
    p->is_of_log = memcmp(bytes + 8, l->salt, sizeof(l->salt)) == 0;
    p->is_whole = p->is_of_log && sum.a == l->before.a && sum.b == l->before.b && p->page > 0;
    return true;
}

/* 1: there is a log, 0: there is none. */
static int read_log(struct log *l)
{
    bool is_first = true;

    l->n = (uint32_t)((size_of(l->fd) < TITLE ? 0 : size_of(l->fd) - TITLE) / PIECE);
    if (l->n == 0 || !read_title(l))
        return 0;
    l->pieces = mem_calloc(l->n, sizeof(*l->pieces));
    if (l->pieces == NULL)
        return ERR_NOMEM;
    is_first = l->has_title;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!read_piece(l, i))
            return ERR_IO;
        is_first = is_first && l->pieces[i].is_whole;
        if (l->pieces[i].is_whole && l->pieces[i].size > 0) {
            l->n_all = i + 1;
            l->n_first = is_first ? i + 1 : l->n_first;
        }
    }
    return 1;
}

static uint32_t count_whole(const struct log *l, uint32_t from, uint32_t to)
{
    uint32_t n = 0;

    for (uint32_t i = from; i < to; i++)
        n += l->pieces[i].is_whole;
    return n;
}

/* ---- the image ---- */

static bool read_copy(const struct sqlite_image *image, uint32_t piece, unsigned char *page)
{
    return read_at(image->log_fd, page, SQLITE_PAGES_SIZE,
                   TITLE + (uint64_t)(piece - 1) * PIECE + HEAD);
}

static bool read_from_file(const struct sqlite_image *image, uint32_t number, unsigned char *page)
{
    return read_at(image->fd, page, SQLITE_PAGES_SIZE,
                   (uint64_t)(number - 1) * SQLITE_PAGES_SIZE) &&
           sqlite_pages_fit(page, number, image->id);
}

bool sqlite_image_read(const struct sqlite_image *image, uint32_t number, unsigned char *page)
{
    const uint32_t place = image->places[number];

    if (place == NO_PLACE)
        return false;
    return place == 0 ? read_from_file(image, number, page) : read_copy(image, place, page);
}

/* Whether the file already has a page whose copy in the log lies behind those that SQLite takes. */
static bool has_newer(const struct sqlite_image *image, const struct log *l)
{
    unsigned char copy[SQLITE_PAGES_SIZE], page[SQLITE_PAGES_SIZE];

    for (uint32_t i = l->n_first; i < l->n_all; i++)
        if (l->pieces[i].is_whole && read_copy(image, i + 1, copy) &&
            read_from_file(image, l->pieces[i].page, page) &&
            memcmp(copy, page, SQLITE_PAGES_USABLE) == 0)
            return true;
    return false;
}

static int make_places(struct sqlite_image *image, const struct log *l, uint32_t n_taken)
{
    const uint64_t bytes = size_of(image->fd);
    const uint32_t n_file = (uint32_t)((bytes + SQLITE_PAGES_SIZE - 1) / SQLITE_PAGES_SIZE);

    image->n_pages = n_file;
    for (uint32_t i = 0; i < n_taken; i++)
        if (l->pieces[i].is_whole && l->pieces[i].size > 0)
            image->n_pages = l->pieces[i].size;
    if (image->n_pages > (uint64_t)n_file + l->n) /* whatever the log says, no more pages exist */
        image->n_pages = n_file + l->n;
    image->places = mem_calloc((size_t)image->n_pages + 1, sizeof(*image->places));
    if (image->places == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n_taken; i++) {
        const struct piece *p = &l->pieces[i];

        if (p->is_of_log && p->page > 0 && p->page <= image->n_pages)
            image->places[p->page] = p->is_whole ? i + 1 : NO_PLACE;
        else if (!p->is_whole)
            image->is_unsure = true;
    }
    return 0;
}

/* Whether a page shows that the file is ours: one of the file or, if that has hardly any, the first
 * one of the log. */
static bool find_owner(const struct sqlite_image *image)
{
    unsigned char page[SQLITE_PAGES_SIZE];

    for (uint32_t i = 1; i <= image->n_pages && i <= MAX_PROBED; i++)
        if (read_from_file(image, i, page))
            return true;
    return image->n_pages > 0 && image->places[1] > 0 && sqlite_image_read(image, 1, page) &&
           page[20] == SQLITE_PAGES_RESERVED && number_at(page + 68) == image->id;
}

static int look_at_image(struct sqlite_image *image, bool is_durable)
{
    struct log l = {.fd = image->log_fd};
    unsigned char page[SQLITE_PAGES_SIZE];
    int rc = read_log(&l);
    bool goes_on = false;

    if (rc >= 0) {
        goes_on = l.n_all > l.n_first && (is_durable || has_newer(image, &l));
        image->n_cut = goes_on ? 0 : count_whole(&l, l.n_first, l.n_all);
        rc = make_places(image, &l, goes_on ? l.n_all : l.n_first);
    }
    mem_free(l.pieces);
    if (rc < 0)
        return rc;
    image->is_empty = size_of(image->fd) == 0;
    image->is_ours = find_owner(image);
    image->is_damaged = image->is_ours && (goes_on || !read_from_file(image, 1, page));
    return 0;
}

/* ---- life ---- */

static int lock(int fd)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_FROM, .l_len = LOCK_BYTES};

    if (fcntl(fd, F_OFD_SETLK, &l) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? ERR_BUSY : ERR_IO;
}

int sqlite_image_open(struct sqlite_image *image, const char *path, uint32_t id, bool is_durable)
{
    char log[4096 + 8];
    int rc;

    *image = (struct sqlite_image){.id = id, .log_fd = -1};
    image->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (image->fd < 0)
        return ERR_IO;
    snprintf(log, sizeof(log), "%s-wal", path);
    rc = lock(image->fd);
    if (rc == 0) {
        image->log_fd = open(log, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        rc = look_at_image(image, is_durable);
    }
    if (rc < 0)
        sqlite_image_close(image);
    return rc;
}

void sqlite_image_close(struct sqlite_image *image)
{
    const int reason = errno;

    if (image->fd >= 0)
        close(image->fd);
    if (image->log_fd >= 0)
        close(image->log_fd);
    mem_free(image->places);
    *image = (struct sqlite_image){.fd = -1, .log_fd = -1};
    errno = reason;
}
#endif
