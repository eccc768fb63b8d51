/* server/batches/batch_files.c - see batch_files.h.
 *
 * batch_files_find_done() reads the files of answers and sets a bit for each line that has one;
 * reading the input then skips those lines. An append writes at the known end of a file, syncs it
 * and only then moves the end; after a failure the files are truncated to the old ends. All on the
 * storage thread.
 */
#include "server/batches/batch_files.h"

#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "core/base/replace_file.h"
#include "server/batches/batch_line.h"
#include "server/batches/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The longest line of an answer: the largest reply (HTTP_MAX_REPLY), and the members around it. */
#define MAX_ANSWER ((size_t)257 << 20)

struct batch_files {
    struct batch_files_options opt; /* its texts are not used after the files are open */
    enum batch_kind scanned;        /* the file of answers that `scan` reads; BATCH_N_KINDS: none */
    struct line_reader scan;
    char endpoint[BATCH_LINE_MAX_URL + 1];
    int input, answers[BATCH_N_KINDS]; /* -1 = closed; errors -1: written to the output */
    struct batch_progress progress;
    uint8_t *done; /* a bit for each line */
    struct line_reader reader;
    uint32_t index; /* of the input's next line */
};

static int say_files(char *err, size_t err_len, const char *what, const char *path, int errnum)
{
    snprintf(err, err_len, "the %s '%s': %s", what, path, strerror(errnum));
    return errnum == ENOENT ? ERR_NOENT : err_from_errno(errnum);
}

/* ---- lines that are done ---- */

static bool is_done(const struct batch_files *f, uint32_t i)
{
    return i < f->opt.n_lines && (f->done[i / 8] & 1u << i % 8) != 0;
}

/* Set the bit of the answer that `scan` has read. False: it is not an answer, or the second one of
 * its line. */
static bool mark_answered(struct batch_files *f)
{
    const struct line_reader *r = &f->scan;
    uint32_t i;

    if (!r->is_whole || !batch_line_is_answer(r->line.data, r->line.len, f->opt.seed, &i) ||
        i >= f->opt.n_lines || is_done(f, i))
        return false;
    f->done[i / 8] |= (uint8_t)(1u << i % 8);
    f->progress.n_done[f->scanned]++;
    f->progress.ends[f->scanned] = r->end;
    batch_usage_add(&f->progress.usage, r->line.data, r->line.len);
    return true;
}

/* Read answers of one file up to the first line that is not one. 1: there are more. */
static int scan_answers(struct batch_files *f)
{
    const uint64_t stop = f->scan.end + BATCH_FILES_AT_ONCE;
    int rc;

    do {
        rc = line_reader_next(&f->scan);
    } while (rc > 0 && mark_answered(f) && f->scan.end < stop);
    if (rc > 0)
        return f->scan.end >= stop && f->progress.ends[f->scanned] == f->scan.end;
    return rc == ERR_LIMIT ? 0 : rc;
}

static int cut_answers(const struct batch_files *f, enum batch_kind kind)
{
    return ftruncate(f->answers[kind], (off_t)f->progress.ends[kind]) == 0 ? 0
                                                                           : err_from_errno(errno);
}

/* ---- life ---- */

static int open_answers(struct batch_files *f, const struct batch_files_options *o,
                        enum batch_kind kind, char *err, size_t err_len)
{
    if (o->answers[kind] == NULL)
        return 0;
    f->answers[kind] = open(o->answers[kind], O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->answers[kind] < 0 || sync_folder_of(o->answers[kind]) < 0)
        return say_files(err, err_len, "file of answers", o->answers[kind], errno);
    return 0;
}

static void begin_scan(struct batch_files *f, enum batch_kind kind)
{
    line_reader_release(&f->scan);
    f->scanned = kind;
    if (kind < BATCH_N_KINDS)
        line_reader_init(&f->scan, f->answers[kind], MAX_ANSWER, f->opt.ends[kind]);
}

int batch_files_find_done(struct batch_files *f, char *err, size_t err_len)
{
    int rc = 0;

    if (f->scanned == BATCH_N_KINDS)
        return 0;
    if (f->answers[f->scanned] >= 0)
        rc = scan_answers(f);
    if (rc == 0 && f->answers[f->scanned] >= 0)
        rc = cut_answers(f, f->scanned);
    if (rc < 0)
        return snprintf(err, err_len, "the file of answers: %s", err_text(rc)), rc;
    if (rc == 0)
        begin_scan(f, f->scanned + 1);
    return f->scanned < BATCH_N_KINDS;
}

int batch_files_open(struct batch_files **out, const struct batch_files_options *o, char *err,
                     size_t err_len)
{
    struct batch_files *f = mem_calloc(1, sizeof(*f));
    int rc = 0;

    *out = NULL;
    if (f == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    f->opt = *o;
    snprintf(f->endpoint, sizeof(f->endpoint), "%s", o->endpoint != NULL ? o->endpoint : "");
    f->answers[BATCH_OUTPUT] = f->answers[BATCH_ERRORS] = -1;
    f->done = mem_calloc(o->n_lines / 8 + 1, 1);
    f->input = o->input != NULL ? open(o->input, O_RDONLY | O_CLOEXEC) : -1;
    if (f->done == NULL)
        rc = (snprintf(err, err_len, "out of memory"), ERR_NOMEM);
    else if (o->input != NULL && f->input < 0)
        rc = say_files(err, err_len, "input", o->input, errno);
    for (int kind = 0; rc == 0 && kind < BATCH_N_KINDS; kind++)
        rc = open_answers(f, o, (enum batch_kind)kind, err, err_len);
    line_reader_init(&f->reader, f->input, o->max_line, UINT64_MAX);
    begin_scan(f, BATCH_OUTPUT);
    if (rc < 0)
        batch_files_close(&f);
    *out = f;
    return rc;
}

void batch_files_close(struct batch_files **files)
{
    struct batch_files *f = files != NULL ? *files : NULL;

    if (f == NULL)
        return;
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        if (f->answers[kind] >= 0)
            close(f->answers[kind]);
    if (f->input >= 0)
        close(f->input);
    line_reader_release(&f->reader);
    line_reader_release(&f->scan);
    mem_free(f->done);
    mem_free(f);
    *files = NULL;
}

struct batch_progress batch_files_progress(const struct batch_files *f)
{
    return f->progress;
}

/* ---- lines ---- */

/* Read the next line that has no answer. Returns as batch_files_read(). */
static int next_line(struct batch_files *f)
{
    const uint64_t stop = f->reader.end + BATCH_FILES_AT_ONCE;
    int rc;

    while ((rc = line_reader_next(&f->reader)) > 0) {
        if (!line_reader_is_blank(&f->reader) && !is_done(f, f->index++))
            return 1;
        if (f->reader.end >= stop)
            return ERR_AGAIN;
    }
    return rc;
}

int batch_files_read(struct batch_files *f, struct batch_line *line, char *err, size_t err_len)
{
    struct batch_line_error e = {0};
    int rc;

    *line = (struct batch_line){0};
    if (f->input < 0)
        return 0;
    rc = next_line(f);
    if (rc == 0 || rc == ERR_AGAIN)
        return rc;
    if (rc > 0)
        rc = batch_line_parse(line, f->reader.line.data, f->reader.line.len,
                              f->endpoint[0] != '\0' ? f->endpoint : NULL, f->index - 1,
                              f->opt.seed, &e);
    if (rc == 0 && line->index < f->opt.n_lines)
        return 1;
    batch_line_release(line);
    snprintf(err, err_len, "line %u of the input cannot be read: %s", f->reader.number,
             rc == ERR_INVAL ? e.message
             : rc == 0       ? "the file has more lines than before"
                             : err_text(rc));
    return rc < 0 ? rc : ERR_FORMAT;
}

/* ---- answers ---- */

/* Append the answers to one file. Returns 0 or an errno. */
static int append_answers(struct batch_files *f, enum batch_kind kind, const struct buf *answers)
{
    const enum batch_kind to = f->answers[kind] < 0 ? BATCH_OUTPUT : kind;

    if (answers->len == 0)
        return 0;
    if (file_write(f->answers[to], answers->data, answers->len, (int64_t)f->progress.ends[to]) <
            0 ||
        fdatasync(f->answers[to]) < 0)
        return errno;
    f->progress.ends[to] += answers->len;
    return 0;
}

int batch_files_append(struct batch_files *f, const struct buf answers[BATCH_N_KINDS],
                       const uint32_t n[BATCH_N_KINDS], char *err, size_t err_len)
{
    const struct batch_progress before = f->progress;
    int e = 0;

    for (int kind = 0; e == 0 && kind < BATCH_N_KINDS; kind++)
        e = append_answers(f, (enum batch_kind)kind, &answers[kind]);
    if (e == 0) {
        for (int kind = 0; kind < BATCH_N_KINDS; kind++) {
            f->progress.n_done[kind] += n[kind];
            batch_usage_add(&f->progress.usage, answers[kind].data, answers[kind].len);
        }
        return 0;
    }
    f->progress = before;
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        if (f->answers[kind] >= 0)
            (void)cut_answers(
                f, (enum batch_kind)kind); /* if this fails, the next append overwrites it */
    snprintf(err, err_len, "answers cannot be written: %s", strerror(e));
    return err_from_errno(e);
}
