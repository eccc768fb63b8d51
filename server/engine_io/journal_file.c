/* server/engine_io/journal_file.c - see journal_file.h.
 *
 * One chunk is in flight: journal_take() fills it from the engine's ring, and uv_fs_write() writes
 * it on a thread of libuv's pool until all of it is in the file. A partial write leaves the rest
 * for the next one, and after an error the chunk is kept and tried again, so that no line is torn.
 * The callback runs on the I/O thread and starts the next chunk itself.
 */
#include "server/engine_io/journal_file.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file_append.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "scheduler/journal.h"
#include "server/process/loop_guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define RETRY_US 1000000u /* pause after a failure */

struct journal_file {
    struct journal *journal;
    int fd;
    bool is_busy;
    uint64_t begin_us;  /* clock_us() at which the running write began */
    uint64_t failed_us; /* time at which the latest write failed; 0: it did not */
    uint64_t n_dropped; /* lines that had been lost before the first failure */
    uv_fs_t write;
    uv_loop_t *loop;
    size_t n, done; /* bytes in the chunk, and how many of them are in the file */
    char chunk[JOURNAL_FILE_CHUNK];
};

void journal_file_close(struct journal_file **file)
{
    struct journal_file *f = file != NULL ? *file : NULL;

    if (f == NULL)
        return;
    close(f->fd);
    mem_free(f);
    *file = NULL;
}

int journal_file_open(struct journal_file **out, const char *path, struct journal *j, char *err,
                      size_t err_len)
{
    struct journal_file *f = mem_calloc(1, sizeof(*f));

    *out = NULL;
    if (f == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    f->fd = file_append_open(path, 0600);
    if (f->fd < 0) {
        snprintf(err, err_len, "cannot open the journal %s: %s", path,
                 file_append_error(errno));
        mem_free(f);
        return ERR_IO;
    }
    if (flock(f->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        snprintf(err, err_len, "the journal %s is already used by another process", path);
        journal_file_close(&f);
        return ERR_BUSY;
    }
    f->journal = j;
    *out = f;
    return 0;
}

static void write_rest(struct journal_file *f);

/* The rest of the chunk is written later, and new lines stay in the journal's ring. When the ring
 * is full the journal records how many lines are missing. */
static void note_failure(struct journal_file *f, int error)
{
    if (f->failed_us == 0) {
        f->n_dropped = journal_n_dropped(f->journal);
        log_error("journal", "event=write_failed reason=%s retry_ms=%u", uv_err_name(error),
                  RETRY_US / 1000);
    }
    f->failed_us = clock_us();
}

static void note_success(struct journal_file *f)
{
    if (f->failed_us == 0)
        return;
    f->failed_us = 0;
    log_info("journal", "event=write_resumed lines_lost=%" PRIu64,
             journal_n_dropped(f->journal) - f->n_dropped);
}

static void on_written(uv_fs_t *request)
{
    LOOP_CALLBACK(request->loop, "journal.written");
    struct journal_file *f = request->data;
    const ssize_t result = request->result;

    uv_fs_req_cleanup(request);
    f->is_busy = false;
    if (result <= 0) {
        note_failure(f, result < 0 ? (int)result : UV_EIO);
        return;
    }
    note_success(f);
    f->done += (size_t)result;
    if (f->done < f->n)
        write_rest(f);
    else
        journal_file_pump(f, f->loop);
}

static void write_rest(struct journal_file *f)
{
    const uv_buf_t buf = uv_buf_init(f->chunk + f->done, (unsigned int)(f->n - f->done));

    f->write.data = f;
    f->begin_us = clock_us();
    f->is_busy = uv_fs_write(f->loop, &f->write, f->fd, &buf, 1, -1, on_written) == 0;
    if (!f->is_busy)
        note_failure(f, UV_ENOMEM);
}

void journal_file_pump(struct journal_file *f, uv_loop_t *loop)
{
    if (f == NULL || f->is_busy ||
        (f->failed_us > 0 && clock_us() - f->failed_us < RETRY_US))
        return;
    f->loop = loop;
    if (f->done == f->n) {
        f->n = journal_take(f->journal, f->chunk, sizeof(f->chunk));
        f->done = 0;
    }
    if (f->n > 0)
        write_rest(f);
}

uint64_t journal_file_begin_us(const struct journal_file *f)
{
    return f != NULL && f->is_busy ? f->begin_us : 0;
}

bool journal_file_is_idle(const struct journal_file *f)
{
    return f == NULL || !f->is_busy;
}
