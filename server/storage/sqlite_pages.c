/* server/storage/sqlite_pages.c - see sqlite_pages.h.
 *
 * A VFS over the system's default: its only own method is xOpen, which gives the files of databases
 * the methods below; each of them passes the call on to the system's file, which lies behind struct
 * file. on_write() adds the checksum to a copy of the page, on_read() compares it. Other files (the
 * log, temporary ones) are opened by the system directly.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_pages.h"

#include <string.h>
#include <xxhash.h>

#define VFS_NAME "quire-pages"
/* An operation of sqlite3_file_control(): those below 100 are SQLite's. */
#define CHECK_PAGES 0x5155

struct vfs {
    sqlite3_vfs base; /* first: SQLite sees only this */
    sqlite3_vfs *real;
};

struct file {
    sqlite3_file base; /* first: SQLite sees only this */
    uint32_t id;
    bool is_checked;
    unsigned char page[SQLITE_PAGES_SIZE]; /* the page being written, with its checksum */
    /* The system's file follows in memory. */
};

/* ---- pages ---- */

static uint64_t page_sum(const unsigned char *page, uint32_t number, uint32_t id)
{
    return XXH3_64bits_withSeed(page, SQLITE_PAGES_USABLE, (uint64_t)id << 32 | number);
}

void sqlite_pages_seal(unsigned char *page, uint32_t number, uint32_t id)
{
    const uint64_t sum = page_sum(page, number, id);

    for (unsigned i = 0; i < SQLITE_PAGES_RESERVED; i++)
        page[SQLITE_PAGES_USABLE + i] = (unsigned char)(sum >> (56 - 8 * i));
}

bool sqlite_pages_fit(const unsigned char *page, uint32_t number, uint32_t id)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SQLITE_PAGES_RESERVED; i++)
        sum = sum << 8 | page[SQLITE_PAGES_USABLE + i];
    return sum == page_sum(page, number, id);
}

static bool is_page(const struct file *f, int n, sqlite3_int64 at)
{
    return f->is_checked && n == (int)SQLITE_PAGES_SIZE && at % SQLITE_PAGES_SIZE == 0;
}

static uint32_t page_number(sqlite3_int64 at)
{
    return (uint32_t)(at / SQLITE_PAGES_SIZE) + 1;
}

/* ---- a file ---- */

static sqlite3_file *real_of(sqlite3_file *base)
{
    return (sqlite3_file *)((struct file *)base + 1);
}

static int on_close(sqlite3_file *base)
{
    return real_of(base)->pMethods->xClose(real_of(base));
}

/* A page that does not exist any more is damage, not zeros, except the first one of a new file. */
static int on_read(sqlite3_file *base, void *out, int n, sqlite3_int64 at)
{
    struct file *f = (struct file *)base;
    const int rc = real_of(base)->pMethods->xRead(real_of(base), out, n, at);

    if (!is_page(f, n, at) || (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ))
        return rc;
    if (rc == SQLITE_IOERR_SHORT_READ)
        return at == 0 ? rc : SQLITE_IOERR_DATA;
    return sqlite_pages_fit(out, page_number(at), f->id) ? SQLITE_OK : SQLITE_IOERR_DATA;
}

static int on_write(sqlite3_file *base, const void *data, int n, sqlite3_int64 at)
{
    struct file *f = (struct file *)base;

    if (is_page(f, n, at)) {
        memcpy(f->page, data, SQLITE_PAGES_SIZE);
        sqlite_pages_seal(f->page, page_number(at), f->id);
        data = f->page;
    }
    return real_of(base)->pMethods->xWrite(real_of(base), data, n, at);
}

static int on_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    return real_of(base)->pMethods->xTruncate(real_of(base), size);
}

static int on_sync(sqlite3_file *base, int flags)
{
    return real_of(base)->pMethods->xSync(real_of(base), flags);
}

static int on_size(sqlite3_file *base, sqlite3_int64 *size)
{
    return real_of(base)->pMethods->xFileSize(real_of(base), size);
}

static int on_lock(sqlite3_file *base, int level)
{
    return real_of(base)->pMethods->xLock(real_of(base), level);
}

static int on_unlock(sqlite3_file *base, int level)
{
    return real_of(base)->pMethods->xUnlock(real_of(base), level);
}

static int on_check_lock(sqlite3_file *base, int *is_reserved)
{
    return real_of(base)->pMethods->xCheckReservedLock(real_of(base), is_reserved);
}

static int on_control(sqlite3_file *base, int op, void *arg)
{
    struct file *f = (struct file *)base;

    if (op != CHECK_PAGES)
        return real_of(base)->pMethods->xFileControl(real_of(base), op, arg);
    f->id = *(const uint32_t *)arg;
    f->is_checked = true;
    return SQLITE_OK;
}

static int on_sector_size(sqlite3_file *base)
{
    return real_of(base)->pMethods->xSectorSize(real_of(base));
}

static int on_characteristics(sqlite3_file *base)
{
    return real_of(base)->pMethods->xDeviceCharacteristics(real_of(base));
}

/* Version 1: no file is mapped, and with an exclusive lock no shared memory is needed. */
static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
};

static int on_open(sqlite3_vfs *base, const char *name, sqlite3_file *out, int flags,
                   int *out_flags)
{
    sqlite3_vfs *real = ((struct vfs *)base)->real;
    int rc;

    if ((flags & SQLITE_OPEN_MAIN_DB) == 0)
        return real->xOpen(real, name, out, flags, out_flags);
    memset(out, 0, sizeof(struct file));
    rc = real->xOpen(real, name, real_of(out), flags, out_flags);
    if (real_of(out)->pMethods != NULL)
        out->pMethods = &methods;
    return rc;
}

/* ---- databases ---- */

/* The other methods are the system's; they find its data in the copied members before ours. */
static int register_vfs(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    struct vfs *v;

    if (sqlite3_vfs_find(VFS_NAME) != NULL)
        return SQLITE_OK;
    v = real != NULL ? sqlite3_malloc(sizeof(*v)) : NULL;
    if (v == NULL)
        return SQLITE_NOMEM;
    *v = (struct vfs){.base = *real, .real = real};
    v->base.pNext = NULL;
    v->base.zName = VFS_NAME;
    v->base.szOsFile = (int)sizeof(struct file) + real->szOsFile;
    v->base.xOpen = on_open;
    return sqlite3_vfs_register(&v->base, 0);
}

int sqlite_pages_open(sqlite3 **out, const char *path, uint32_t id, bool is_checked)
{
    int reserved = SQLITE_PAGES_RESERVED;
    int rc = sqlite3_initialize();

    *out = NULL;
    if (rc == SQLITE_OK)
        rc = register_vfs();
    if (rc == SQLITE_OK)
        rc = sqlite3_open_v2(path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, VFS_NAME);
    if (rc == SQLITE_OK && is_checked)
        rc = sqlite3_exec(*out, "PRAGMA page_size=4096", NULL, NULL, NULL);
    if (rc == SQLITE_OK && is_checked)
        rc = sqlite3_file_control(*out, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    if (rc == SQLITE_OK && is_checked)
        rc = sqlite3_file_control(*out, "main", CHECK_PAGES, &id);
    return rc;
}

bool sqlite_pages_is_damage(sqlite3 *db)
{
    const int rc = sqlite3_extended_errcode(db);

    return rc == SQLITE_IOERR_DATA || (rc & 0xff) == SQLITE_CORRUPT ||
           (rc & 0xff) == SQLITE_NOTADB;
}
#endif
