/* server/storage/slot_file.c - see slot_file.h.
 *
 * The file is created at its full size, so that a full disk is found at once; blocks may be written
 * in any order by several jobs, and the header with all sums comes last. Checksums are chained:
 * header, ids and block sums in one, each block in one of its own. Reading checks the sizes against
 * the file's before it allocates memory for them. Worker threads call these functions, never the
 * I/O thread.
 */
#include "server/storage/slot_file.h"

#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "quireslt"
#define VERSION 1
#define BYTE_ORDER_MARK 0x01020304u
#define BLOCK 16 /* tokens */

struct header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t kv_id[2];
    uint64_t owner, block_bytes;
    uint32_t n_ids, n_blocks;
    uint64_t sum; /* checksum of the header with 0 here, the ids and the sums */
};

struct slot_file {
    int fd;
    struct header head;
    int32_t *ids;      /* [head.n_ids] */
    uint64_t *sums;    /* [head.n_blocks] */
    char *path, *part; /* part: path of the file while it is written */
    size_t n_before;   /* bytes of the path before the client's name */
};

static const char *slot_file_name_of(const struct slot_file *f)
{
    return f->path + f->n_before;
}

/* ---- errors ---- */

static int refuse_slot_file(const struct slot_file *f, struct api_error *e, const char *why)
{
    return api_error_set(e, 400, "filename", NULL, "the file '%s' %s", slot_file_name_of(f), why);
}

static int fail_slot_file(const struct slot_file *f, struct api_error *e, const char *what)
{
    const int number = errno;
    char quoted[300];

    log_error("slots", "event=file_failed file=%s what=%s errno=%d",
              log_quote(quoted, sizeof(quoted), slot_file_name_of(f)), what, number);
    return api_error_set(e, 503, "filename", NULL, "the file '%s' cannot be %s: %s",
                         slot_file_name_of(f), what, strerror(number));
}

/* ---- life ---- */

bool slot_file_is_name(const char *name)
{
    const size_t n = strlen(name);

    if (n == 0 || n > SLOT_FILE_MAX_NAME || name[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == '/' || name[i] == '\\' || name[i] == 127)
            return false;
    return true;
}

/* Make the struct and the path. An owner's files begin with a dot, so that no client can name
 * another owner's. */
static int make_slot_file(struct slot_file **out, const char *folder, const char *name,
                          uint64_t owner, struct api_error *e)
{
    const size_t n = strlen(folder) + strlen(name) + 32;
    struct slot_file *f = mem_calloc(1, sizeof(*f));

    *out = f;
    if (f == NULL)
        return api_error_no_memory(e);
    f->fd = -1;
    f->path = mem_alloc(n);
    if (f->path == NULL) {
        slot_file_close(out);
        return api_error_no_memory(e);
    }
    f->n_before = strlen(folder) + (owner != 0 ? 19 : 1);
    if (owner != 0)
        snprintf(f->path, n, "%s/.%016" PRIx64 ".%s", folder, owner, name);
    else
        snprintf(f->path, n, "%s/%s", folder, name);
    return 0;
}

void slot_file_close(struct slot_file **file)
{
    struct slot_file *f = file != NULL ? *file : NULL;

    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->fd >= 0 && f->part != NULL)
        unlink(f->part);
    mem_free(f->ids);
    mem_free(f->sums);
    mem_free(f->path);
    mem_free(f->part);
    mem_free(f);
    *file = NULL;
}

const int32_t *slot_file_ids(const struct slot_file *f, uint32_t *n_ids)
{
    *n_ids = f->head.n_ids;
    return f->ids;
}

uint32_t slot_file_n_blocks(const struct slot_file *f)
{
    return f->head.n_blocks;
}

/* ---- positions in the file ---- */

static uint64_t ids_bytes(const struct slot_file *f)
{
    return (uint64_t)f->head.n_ids * sizeof(*f->ids);
}

static uint64_t sums_bytes(const struct slot_file *f)
{
    return (uint64_t)f->head.n_blocks * sizeof(*f->sums);
}

static uint64_t block_place(const struct slot_file *f, uint32_t block)
{
    return sizeof(f->head) + ids_bytes(f) + sums_bytes(f) + block * f->head.block_bytes;
}

uint64_t slot_file_bytes(const struct slot_file *f)
{
    return block_place(f, f->head.n_blocks);
}

static int take_memory(struct slot_file *f)
{
    f->ids = mem_alloc(ids_bytes(f) + 1);
    f->sums = mem_calloc((size_t)f->head.n_blocks + 1, sizeof(*f->sums));
    return f->ids != NULL && f->sums != NULL ? 0 : ERR_NOMEM;
}

static uint64_t block_sum(const struct slot_file *f)
{
    struct header head = f->head;
    uint64_t sum;

    head.sum = 0;
    sum = XXH3_64bits(&head, sizeof(head));
    sum = XXH3_64bits_withSeed(f->ids, ids_bytes(f), sum);
    return XXH3_64bits_withSeed(f->sums, sums_bytes(f), sum);
}

/* Read all n bytes; a file that ends before them is damaged (EIO). */
static int read_bytes(int fd, void *bytes, uint64_t n, uint64_t at)
{
    const int64_t got = file_read(fd, bytes, n, (int64_t)at);

    if (got >= 0 && (uint64_t)got < n)
        errno = EIO;
    return got < 0 || (uint64_t)got < n ? ERR_IO : 0;
}

/* ---- writing ---- */

/* Create the file under a name that no client can use; the caller holds the folder's lock. */
static int make_part(struct slot_file *f, struct api_error *e)
{
    static atomic_uint n_made;
    const size_t n = strlen(f->path) + 32;
    const size_t n_folder = (size_t)(strrchr(f->path, '/') + 1 - f->path);

    f->part = mem_alloc(n);
    if (f->part == NULL)
        return api_error_no_memory(e);
    snprintf(f->part, n, "%.*s" SLOT_FOLDER_PART "%ld-%u", (int)n_folder, f->path, (long)getpid(),
             atomic_fetch_add(&n_made, 1));
    f->fd = open(f->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0 || flock(f->fd, LOCK_EX | LOCK_NB) < 0 ||
        ftruncate(f->fd, (off_t)slot_file_bytes(f)) < 0)
        return fail_slot_file(f, e, "written");
    return 0;
}

static int open_part(struct slot_file *f, const char *folder, const struct slot_limits *limits,
                     struct api_error *e)
{
    const int lock = slot_folder_lock(folder);
    int rc;

    if (lock < 0)
        return fail_slot_file(f, e, "written");
    rc = slot_folder_check_room(lock, limits, slot_file_bytes(f), strrchr(f->path, '/') + 1, e);
    if (rc == 0)
        rc = make_part(f, e);
    close(lock);
    return rc;
}

int slot_file_create(struct slot_file **out, const char *folder, const char *name,
                     const struct slot_file_owner *owner, const int32_t *ids, uint32_t n_ids,
                     uint32_t n_blocks, struct api_error *e)
{
    int rc = make_slot_file(out, folder, name, owner->owner, e);
    struct slot_file *f = *out;

    if (rc < 0)
        return rc;
    f->head = (struct header){.magic = MAGIC,
                              .version = VERSION,
                              .byte_order = BYTE_ORDER_MARK,
                              .kv_id = {owner->kv_id[0], owner->kv_id[1]},
                              .owner = owner->owner,
                              .block_bytes = owner->block_bytes,
                              .n_ids = n_ids,
                              .n_blocks = n_blocks};
    if (take_memory(f) < 0)
        rc = api_error_no_memory(e);
    else
        memcpy(f->ids, ids, ids_bytes(f));
    if (rc == 0)
        rc = open_part(f, folder, &owner->limits, e);
    if (rc < 0)
        slot_file_close(out);
    return rc;
}

int slot_file_write(struct slot_file *f, uint32_t first, uint32_t n, const uint8_t *bytes,
                    struct api_error *e)
{
    const size_t size = f->head.block_bytes;

    for (uint32_t i = 0; i < n; i++)
        f->sums[first + i] = XXH3_64bits(bytes + i * size, size);
    if (file_write(f->fd, bytes, n * size, (int64_t)block_place(f, first)) < 0)
        return fail_slot_file(f, e, "written");
    return 0;
}

int slot_file_finish(struct slot_file *f, struct api_error *e)
{
    uint64_t at = sizeof(f->head);

    f->head.sum = block_sum(f);
    if (file_write(f->fd, &f->head, sizeof(f->head), 0) < 0 ||
        file_write(f->fd, f->ids, ids_bytes(f), (int64_t)at) < 0 ||
        file_write(f->fd, f->sums, sums_bytes(f), (int64_t)(at + ids_bytes(f))) < 0 ||
        replace_file(f->fd, f->part, f->path) < 0)
        return fail_slot_file(f, e, "written");
    mem_free(f->part);
    f->part = NULL;
    return 0;
}

/* ---- reading ---- */

static int refuse_missing(const struct slot_file *f, struct api_error *e)
{
    return api_error_set(e, 404, "filename", "not_found", "there is no saved slot '%s'",
                         slot_file_name_of(f));
}

static int check_head(const struct slot_file *f, const struct slot_file_owner *owner,
                      struct api_error *e)
{
    const struct header *h = &f->head;

    if (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 || h->byte_order != BYTE_ORDER_MARK)
        return refuse_slot_file(f, e, "is not a saved slot");
    if (h->version != VERSION)
        return refuse_slot_file(f, e, "is a saved slot of another version");
    if (h->owner != owner->owner)
        return refuse_missing(f, e);
    if (h->kv_id[0] != owner->kv_id[0] || h->kv_id[1] != owner->kv_id[1] ||
        h->block_bytes != owner->block_bytes)
        return refuse_slot_file(f, e, "was saved with another model, kv_type or max_context");
    if (h->n_ids > owner->max_tokens || h->n_blocks > h->n_ids / BLOCK)
        return refuse_slot_file(f, e, "is damaged: its sizes are not possible");
    return 0;
}

static int read_tables(struct slot_file *f, const struct slot_file_owner *owner,
                       struct api_error *e)
{
    const uint64_t at = sizeof(f->head);

    if (take_memory(f) < 0)
        return api_error_no_memory(e);
    if (read_bytes(f->fd, f->ids, ids_bytes(f), at) < 0 ||
        read_bytes(f->fd, f->sums, sums_bytes(f), at + ids_bytes(f)) < 0)
        return fail_slot_file(f, e, "read");
    if (f->head.sum != block_sum(f))
        return refuse_slot_file(f, e, "is damaged: its checksum is wrong");
    for (uint32_t i = 0; i < f->head.n_ids; i++)
        if (f->ids[i] < 0 || (uint32_t)f->ids[i] >= owner->n_vocab)
            return refuse_slot_file(f, e,
                                    "is damaged: it has a token that the model does not have");
    return 0;
}

static int read_all(struct slot_file *f, const struct slot_file_owner *owner, struct api_error *e)
{
    struct stat s;
    int rc;

    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f->fd < 0 && (errno == ENOENT || errno == ELOOP))
        return refuse_missing(f, e);
    if (f->fd < 0 || fstat(f->fd, &s) < 0)
        return fail_slot_file(f, e, "read");
    if (!S_ISREG(s.st_mode) || (uint64_t)s.st_size < sizeof(f->head))
        return refuse_slot_file(f, e, "is not a saved slot");
    if (read_bytes(f->fd, &f->head, sizeof(f->head), 0) < 0)
        return fail_slot_file(f, e, "read");
    rc = check_head(f, owner, e);
    if (rc < 0)
        return rc;
    if ((uint64_t)s.st_size != slot_file_bytes(f))
        return refuse_slot_file(f, e,
                                "is damaged: it is truncated, or longer than its header says");
    return read_tables(f, owner, e);
}

int slot_file_open(struct slot_file **out, const char *folder, const char *name,
                   const struct slot_file_owner *owner, struct api_error *e)
{
    int rc = make_slot_file(out, folder, name, owner->owner, e);

    if (rc == 0)
        rc = read_all(*out, owner, e);
    if (rc < 0)
        slot_file_close(out);
    return rc;
}

int slot_file_read(struct slot_file *f, uint32_t first, uint32_t n, uint8_t *bytes,
                   struct api_error *e)
{
    const size_t size = f->head.block_bytes;

    if (read_bytes(f->fd, bytes, n * size, block_place(f, first)) < 0)
        return fail_slot_file(f, e, "read");
    for (uint32_t i = 0; i < n; i++)
        if (f->sums[first + i] != XXH3_64bits(bytes + i * size, size))
            return refuse_slot_file(f, e, "is damaged: a block's checksum is wrong");
    return 0;
}
