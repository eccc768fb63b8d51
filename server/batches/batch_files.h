/* server/batches/batch_files.h - the files of a running batch: lines are read from one, answers
 * written to a second, and errors to a third, or to the second as well.
 *
 * The files of answers record which lines are done: an answer's id names its line. When they are
 * opened, everything after the last valid answer of this batch is cut off: bytes after the end that
 * a database remembers, a line that was incomplete when the process ended, or a damaged line; the
 * batch lines of these are answered again. (Bytes that change within an answer, and leave its id
 * and its end as they were, are not noticed.) So each line has one answer, even if the process is
 * killed, and kept answers do not change.
 *
 * No call reads much more than BATCH_FILES_AT_ONCE bytes, so that other jobs of the storage thread
 * do not wait for a large file.
 *
 * Thread: any, one at a time; every call may wait for a disk.
 * Memory: a bit for each line, a line, and a block of each file.
 * Errors: ERR_IO and others with a sentence; after a failed append the files are as before it.
 */
#ifndef SERVER_BATCHES_BATCH_FILES_H
#define SERVER_BATCHES_BATCH_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/batches/batch_usage.h"

struct batch_line;

/* Bytes that one call reads before it returns. */
#define BATCH_FILES_AT_ONCE ((uint64_t)4 << 20)

enum batch_kind { BATCH_OUTPUT = 0, BATCH_ERRORS, BATCH_N_KINDS };

struct batch_files_options {
    const char *input;                  /* path; NULL: no line is read */
    const char *answers[BATCH_N_KINDS]; /* paths; the files are created if they do not exist; errors
                                         * NULL: as output */
    uint64_t ends[BATCH_N_KINDS];       /* bytes up to which the files are known to be valid;
                                         * UINT64_MAX: not known */
    const char *endpoint;               /* NULL: any */
    uint64_t seed;
    uint32_t n_lines; /* lines of the input */
    size_t max_line;
};

struct batch_progress {
    uint32_t n_done[BATCH_N_KINDS]; /* number of answers of each kind; errors are counted separately
                                     * only if they have a file of their own */
    uint64_t ends[BATCH_N_KINDS];   /* bytes of valid answers in the files */
    struct batch_usage usage;       /* usage of all answers in the files */
};

struct batch_files;

/* Open the files; batch_files_find_done() follows. ERR_NOENT: the input does not exist. */
int batch_files_open(struct batch_files **out, const struct batch_files_options *options, char *err,
                     size_t err_len);
void batch_files_close(struct batch_files **f);

/* Find some more of the lines that have answers. 1: call again; 0: all are found, and lines can be
 * read and answers appended; or ERR_*. */
int batch_files_find_done(struct batch_files *f, char *err, size_t err_len);

struct batch_progress batch_files_progress(const struct batch_files *f);

/* Read the next line without an answer: 1, 0 at the end, or ERR_*; ERR_AGAIN: many lines with
 * answers were skipped, call again. Release the line with batch_line_release(). */
int batch_files_read(struct batch_files *f, struct batch_line *line, char *err, size_t err_len);

/* Append whole answers, n[kind] of each kind, and sync them. */
int batch_files_append(struct batch_files *f, const struct buf answers[BATCH_N_KINDS],
                       const uint32_t n[BATCH_N_KINDS], char *err, size_t err_len);

#endif
