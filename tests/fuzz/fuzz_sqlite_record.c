/* tests/fuzz/fuzz_sqlite_record.c - libFuzzer: pages of a damaged database, read without SQLite.
 *
 * The input writes on pages of zeros, or on the log of changes beside them: where (1 byte: a page
 * below N_PAGES, else the log), from which byte on (2), how many bytes follow (1), and these. Pages
 * get sums that fit, so that what they say is looked at. Every value of every record that is read
 * is given to SQLite, which reads all of it.
 */
#include "tests/fuzz/target.h"

#include "core/base/log.h"
#include "server/storage/sqlite_pages.h"
#include "server/storage/sqlite_record.h"
#include "tests/fuzz/scratch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ID 0x51726571u
enum { N_PAGES = 12, LOG_BYTES = 3 * (24 + 4096) };

static unsigned char pages[N_PAGES][SQLITE_PAGES_SIZE], changes[LOG_BYTES];

/* How many bytes the log has. */
static size_t write_all(const uint8_t *data, size_t n)
{
    size_t n_log = 0;

    memset(pages, 0, sizeof(pages));
    memset(changes, 0, sizeof(changes));
    while (n >= 4) {
        const size_t room = n - 4, wanted = data[3], len = wanted < room ? wanted : room;
        const bool is_log = data[0] >= N_PAGES;
        const size_t size = is_log ? LOG_BYTES : SQLITE_PAGES_SIZE;
        const size_t at = ((size_t)data[1] << 8 | data[2]) % size;
        const size_t fits = len < size - at ? len : size - at;

        memcpy((is_log ? changes : pages[data[0]]) + at, data + 4, fits);
        if (is_log && at + fits > n_log)
            n_log = at + fits;
        data += 4 + len;
        n -= 4 + len;
    }
    for (uint32_t i = 0; i < N_PAGES; i++)
        sqlite_pages_seal(pages[i], i + 1, ID);
    return n_log;
}

static void read_page(struct sqlite_record *r, const struct sqlite_image *image, sqlite3_stmt *st,
                      uint32_t number, bool of_index)
{
    unsigned char page[SQLITE_PAGES_SIZE];
    uint32_t n;

    if (!sqlite_image_read(image, number, page))
        return;
    n = sqlite_record_count(page, number, of_index);
    for (uint32_t i = 0; i < n; i++) {
        if (sqlite_record_read(r, image, page, number, i) < 0)
            continue;
        require(r->n <= SQLITE_RECORD_VALUES);
        for (uint32_t k = 0; k < r->n; k++) {
            require(sqlite_record_bind(r, k, st, 1) == SQLITE_OK);
            require(sqlite3_step(st) == SQLITE_ROW);
            sqlite3_reset(st);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static sqlite3 *db;
    static sqlite3_stmt *st;
    const size_t n_log = write_all(data, n);
    struct sqlite_image image;
    struct sqlite_record r = {0};
    char path[SCRATCH_MAX_PATH], log[SCRATCH_MAX_PATH];

    log_setup(LOG_OFF, false, 2);
    if (db == NULL) {
        require(sqlite3_open(":memory:", &db) == SQLITE_OK);
        require(sqlite3_prepare_v2(db, "SELECT hex(?1)", -1, &st, NULL) == SQLITE_OK);
    }
    snprintf(log, sizeof(log), "%s", scratch_write("database-wal", changes, n_log));
    snprintf(path, sizeof(path), "%s", scratch_write("database", pages, sizeof(pages)));
    if (sqlite_image_open(&image, path, ID, true) == 0) {
        for (uint32_t i = 1; i <= image.n_pages && i <= 4 * N_PAGES; i++) {
            read_page(&r, &image, st, i, false);
            read_page(&r, &image, st, i, true);
        }
        sqlite_image_close(&image);
    }
    sqlite_record_release(&r);
    unlink(log);
    return 0;
}
