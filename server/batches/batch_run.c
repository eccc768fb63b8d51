/* server/batches/batch_run.c - see batch_run.h.
 *
 * A batch is a state machine: batch_run_post() hands a job to the storage thread,
 * on_batch_run_work() does the phase's work, on_batch_run_done() takes the result on the I/O thread
 * and sets the next phase. Only the job touches the members that batch_run.h marks as the job's,
 * and no lock is needed. A line's item moves through the lists read, ready, running, answered and
 * handed until its answer is on the disk.
 */
#include "server/batches/batch_run.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes of ready lines beyond which no more are read. */
#define MAX_READY ((size_t)4 << 20)
#define RETRY_US 2000000u
/* Number of answers, of lines that are not computed any more, that are written at once. */
#define REST_AT_ONCE 256
#define MAX_PENDING ((size_t)1 << 30)
#define MAX_ERRORS ((size_t)64 << 10)

#define EXPIRED_MESSAGE "This request could not be executed before the completion window expired."

/* ---- life ---- */

static void init_buffers(struct batch_run *run)
{
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        buf_init(&run->writing[kind], MAX_PENDING);
    buf_init(&run->errors, MAX_ERRORS);
}

struct batch_run *batch_run_create(const struct batch_record *record, enum batch_phase phase,
                                   const struct batch_run_options *options,
                                   void (*changed)(struct batch_run *run), void *ud)
{
    struct batch_run *run = mem_calloc(1, sizeof(*run));

    if (run == NULL)
        return NULL;
    run->record = *record;
    memcpy(run->id, record->id, sizeof(run->id));
    run->n_lines = record->n_lines;
    run->phase = phase;
    run->opt = options;
    run->changed = changed;
    run->ud = ud;
    run->check_fd = -1;
    list_init(&run->link);
    list_init(&run->ready);
    list_init(&run->running);
    list_init(&run->read);
    list_init(&run->answered);
    list_init(&run->handed);
    init_buffers(run);
    return run;
}

void batch_item_destroy(struct batch_item *item)
{
    list_unlink(&item->link);
    batch_line_release(&item->line);
    buf_release(&item->answer);
    mem_free(item);
}

static void drop_items(struct list *items)
{
    list_each(it, items)
        batch_item_destroy(list_entry(it, struct batch_item, link));
}

static void end_check(struct batch_run *run)
{
    if (run->check_fd < 0)
        return;
    batch_check_release(&run->check);
    close(run->check_fd);
    run->check_fd = -1;
}

void batch_run_destroy(struct batch_run **out)
{
    struct batch_run *run = out != NULL ? *out : NULL;

    if (run == NULL)
        return;
    list_unlink(&run->link);
    drop_items(&run->ready);
    drop_items(&run->read);
    drop_items(&run->answered);
    drop_items(&run->handed);
    end_check(run);
    batch_files_close(&run->files);
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        buf_release(&run->writing[kind]);
    buf_release(&run->errors);
    mem_free(run);
    *out = NULL;
}

/* ---- the job: on the storage thread ---- */

static void fail_for_now(struct batch_run *run, const char *why)
{
    api_error_set(&run->failure, 503, NULL, "batch_dir", "%s", why);
}

/* End the batch with `ending`, and add an error. */
static void end_as(struct batch_run *run, enum batch_ending ending, const char *code,
                   const char *message)
{
    batch_check_fail(&run->errors, code, message);
    run->found_ending = ending;
    run->next = BATCH_ENDING;
}

static void do_load(struct batch_run *run, struct batch_store *s)
{
    int64_t n = 0;
    const int rc = batch_store_find_open(s, run->id, &n, &run->record, &run->failure);

    if (rc < 0)
        return;
    run->n_lines = run->record.n_lines;
    run->found_ending = run->record.ending;
    run->next = rc == 0                                ? BATCH_OVER
                : run->record.ending != BATCH_ENDS_NOT ? BATCH_ENDING
                : run->record.n_lines > 0              ? BATCH_RUNNING
                                                       : BATCH_CHECKING;
}

static const char *endpoint_of(const struct batch_run *run)
{
    return run->record.endpoint[0] != '\0' ? run->record.endpoint : NULL;
}

/* Open the input. 0; otherwise the batch has failed, or the job is repeated later. */
static int open_check(struct batch_run *run)
{
    const struct batch_check_options o = {endpoint_of(run), run->opt->max_lines,
                                          run->opt->max_line};

    if (run->check_fd >= 0)
        return 0;
    run->check_fd = open(run->record.input, O_RDONLY | O_CLOEXEC);
    if (run->check_fd >= 0) {
        batch_check_init(&run->check, run->check_fd, &o);
        return 0;
    }
    if (errno == ENOENT)
        end_as(run, BATCH_FAILED, "input_file_missing", "the input file no longer exists");
    else
        fail_for_now(run, strerror(errno));
    return ERR_IO;
}

static void do_check(struct batch_run *run, struct batch_store *s)
{
    int rc = open_check(run);

    if (rc < 0)
        return;
    rc = batch_check_step(&run->check);
    if (rc < 0) {
        fail_for_now(run, err_text(rc));
        end_check(run);
    } else if (rc == 0 && run->check.n_errors > 0) {
        buf_add(&run->errors, run->check.errors.data, run->check.errors.len);
        run->found_ending = BATCH_FAILED;
        run->next = BATCH_ENDING;
    } else if (rc == 0 && (s == NULL || batch_store_set_lines(s, run->record.id, run->check.n_lines,
                                                              &run->failure) == 0)) {
        run->n_lines = run->check.n_lines;
        run->next = BATCH_RUNNING;
    }
    if (rc == 0 && run->failure.status == 0)
        end_check(run);
}

/* Open the files, if they are not, and find the lines that have answers. 1: this job has read
 * enough, and the next one continues; 0; or ERR_*, of which only ERR_NOENT has not been reported.
 */
static int open_files(struct batch_run *run, const char *input)
{
    const struct batch_record *r = &run->record;
    const struct batch_files_options o = {
        .input = input,
        .answers = {r->answers[BATCH_OUTPUT],
                    r->answers[BATCH_ERRORS][0] != '\0' ? r->answers[BATCH_ERRORS] : NULL},
        .ends = {r->ends[BATCH_OUTPUT], r->ends[BATCH_ERRORS]},
        .endpoint = endpoint_of(run),
        .seed = r->seed,
        .n_lines = r->n_lines,
        .max_line = run->opt->max_line,
    };
    char err[400];
    int rc;

    if (run->files == NULL) {
        rc = batch_files_open(&run->files, &o, err, sizeof(err));
        if (rc == ERR_NOENT && input != NULL)
            return rc;
        if (rc < 0)
            return fail_for_now(run, err), rc;
    }
    rc = batch_files_find_done(run->files, err, sizeof(err));
    if (rc < 0) {
        batch_files_close(&run->files);
        fail_for_now(run, err);
    } else if (rc == 0) {
        run->reached = batch_files_progress(run->files);
    }
    return rc;
}

/* Render the answers as lines of the files; after ERR_NOMEM the rest is rendered later. */
static int render_answers(struct batch_run *run)
{
    list_each(it, &run->handed) {
        struct batch_item *item = list_entry(it, struct batch_item, link);
        const enum batch_kind kind = item->status == 200 ? BATCH_OUTPUT : BATCH_ERRORS;
        struct buf *out = &run->writing[kind];
        const size_t before = out->len;

        if (item->status == 0)
            batch_line_no_answer(&item->line, run->record.seed, "server_error",
                                 "the answer was too large", out);
        else
            batch_line_answer(&item->line, run->record.seed, item->status, &item->answer, out);
        if (out->err < 0) {
            out->len = before;
            out->err = 0;
            fail_for_now(run, "out of memory");
            return ERR_NOMEM;
        }
        run->n_writing[kind]++;
        batch_item_destroy(item);
    }
    return 0;
}

/* Write the files first, then the database, so that the database never counts answers that the
 * files lack. */
static int write_answers(struct batch_run *run, struct batch_store *s)
{
    uint64_t bytes = 0;
    char err[200];

    if (render_answers(run) < 0)
        return ERR_NOMEM;
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        bytes += run->writing[kind].len;
    if (bytes > 0 && s != NULL && batch_store_check_room(s, bytes, &run->failure) < 0)
        return ERR_LIMIT;
    if (bytes > 0 &&
        batch_files_append(run->files, run->writing, run->n_writing, err, sizeof(err)) < 0) {
        fail_for_now(run, err);
        return ERR_IO;
    }
    for (int kind = 0; kind < BATCH_N_KINDS; kind++) {
        buf_release(&run->writing[kind]);
        run->n_writing[kind] = 0;
        run->record.ends[kind] = batch_files_progress(run->files).ends[kind];
    }
    run->reached = batch_files_progress(run->files);
    if (bytes > 0 && s != NULL)
        return batch_store_set_progress(s, run->record.id, &run->reached, &run->failure);
    return 0;
}

/* Read one line: 1, 0 at the end of the input, ERR_AGAIN: the next job continues, or another
 * ERR_*: see open_check(). */
static int read_batch_line(struct batch_run *run)
{
    struct batch_item *item = mem_calloc(1, sizeof(*item));
    char err[300];
    int rc;

    if (item == NULL) {
        fail_for_now(run, "out of memory");
        return ERR_NOMEM;
    }
    rc = batch_files_read(run->files, &item->line, err, sizeof(err));
    if (rc > 0) {
        item->run = run;
        list_push_back(&run->read, &item->link);
        return 1;
    }
    mem_free(item);
    if (rc == ERR_AGAIN)
        return rc;
    if (rc == ERR_NOMEM || rc == ERR_IO)
        fail_for_now(run, err);
    else if (rc < 0)
        end_as(run, BATCH_FAILED, "input_file_changed", err);
    return rc;
}

static void do_run(struct batch_run *run, struct batch_store *s)
{
    size_t bytes = 0;
    int rc = open_files(run, run->record.input);

    if (rc == ERR_NOENT)
        end_as(run, BATCH_FAILED, "input_file_missing", "the input file no longer exists");
    if (rc != 0 || write_answers(run, s) < 0)
        return;
    for (uint32_t i = 0; i < run->n_wanted && bytes < MAX_READY; i++) {
        rc = read_batch_line(run);
        run->has_read_all = rc == 0;
        if (rc <= 0)
            return;
        bytes += list_entry(run->read.prev, struct batch_item, link)->line.body.len;
    }
}

/* Read the input again from its beginning, except the lines that have answers. Returns as
 * open_files(). */
static int reopen_files(struct batch_run *run)
{
    int rc;

    if (!run->is_reopening)
        batch_files_close(&run->files);
    run->is_reopening = true;
    rc = open_files(run, run->record.input);
    return rc == ERR_NOENT ? open_files(run, NULL) : rc;
}

/* Write an answer for each line that has expired. 1: there are more. */
static int write_rest(struct batch_run *run, struct batch_store *s)
{
    int rc = 1;

    for (int i = 0; i < REST_AT_ONCE && rc > 0; i++) {
        rc = read_batch_line(run);
        if (rc <= 0)
            break;
        struct batch_item *item = list_entry(run->read.next, struct batch_item, link);

        batch_line_no_answer(&item->line, run->record.seed, "batch_expired", EXPIRED_MESSAGE,
                             &run->writing[BATCH_ERRORS]);
        run->n_writing[BATCH_ERRORS]++;
        batch_item_destroy(item);
    }
    if (run->failure.status != 0 || write_answers(run, s) < 0)
        return ERR_IO;
    return rc > 0 || rc == ERR_AGAIN;
}

static void do_end(struct batch_run *run, struct batch_store *s)
{
    const char *id = run->record.id;
    int rc = 0;

    if (run->files != NULL && !run->is_reopening && write_answers(run, s) < 0)
        return;
    if (!run->is_reopened) {
        if (!run->is_reopening && s != NULL &&
            batch_store_set_ending(s, id, run->ending, &run->failure) < 0)
            return;
        if (reopen_files(run) != 0)
            return;
        run->is_reopened = true;
    }
    if (run->ending == BATCH_EXPIRED)
        rc = write_rest(run, s);
    if (rc != 0)
        return;
    if (s == NULL ||
        batch_store_end(s, id, run->ending, &run->reached, &run->errors, &run->failure) == 0)
        run->next = BATCH_OVER;
}

static void on_batch_run_work(struct worker_job *job)
{
    struct batch_run *run = list_entry(job, struct batch_run, job);
    struct batch_store *s = run->opt->store;

    batch_store_try_open(s);
    switch (run->phase) {
    case BATCH_LOADING:
        do_load(run, s);
        break;
    case BATCH_CHECKING:
        do_check(run, s);
        break;
    case BATCH_RUNNING:
        do_run(run, s);
        break;
    case BATCH_ENDING:
        do_end(run, s);
        break;
    case BATCH_OVER:
        break;
    }
}

/* ---- on the I/O thread ---- */

static void take_lines(struct batch_run *run)
{
    list_each(it, &run->read) {
        run->n_ready++;
        run->ready_bytes += list_entry(it, struct batch_item, link)->line.body.len;
    }
    list_move_back(&run->ready, &run->read);
    run->has_all = run->has_read_all;
}

static void note_failure(struct batch_run *run)
{
    char quoted[300];

    if (run->failure.status == 0) {
        run->trouble[0] = '\0';
        return;
    }
    if (run->trouble[0] == '\0')
        log_error("batches", "event=batch_waits id=%s reason=%s", run->record.id,
                  log_quote(quoted, sizeof(quoted), run->failure.message));
    snprintf(run->trouble, sizeof(run->trouble), "%.150s", run->failure.message);
    run->retry_us = clock_us() + RETRY_US;
}

static void on_batch_run_done(struct worker_job *job)
{
    struct batch_run *run = list_entry(job, struct batch_run, job);

    run->has_job = false;
    run->progress = run->reached;
    run->record.n_lines = run->n_lines;
    note_failure(run);
    take_lines(run);
    if (run->ending == BATCH_ENDS_NOT)
        run->ending = run->found_ending;
    run->phase = run->next;
    run->changed(run);
}

bool batch_run_has_answers(const struct batch_run *run)
{
    bool has = !list_is_empty(&run->answered);

    if (run->has_job)
        return has;
    has |= !list_is_empty(&run->handed);
    for (int kind = 0; kind < BATCH_N_KINDS; kind++)
        has |= run->writing[kind].len > 0;
    return has;
}

bool batch_run_is_done(const struct batch_run *run)
{
    return run->phase == BATCH_RUNNING && run->has_all && run->n_ready == 0 &&
           run->n_running == 0 && !batch_run_has_answers(run) && !run->has_job;
}

uint32_t batch_run_n_left(const struct batch_run *run)
{
    const uint32_t n = run->progress.n_done[BATCH_OUTPUT] + run->progress.n_done[BATCH_ERRORS];

    return run->record.n_lines > n ? run->record.n_lines - n : 0;
}

void batch_run_post(struct batch_run *run, uint32_t n_lines)
{
    const bool wants_lines = run->phase == BATCH_RUNNING && !run->has_all &&
                             run->n_ready < n_lines && run->ready_bytes < MAX_READY;

    if (run->has_job || run->phase == BATCH_OVER || clock_us() < run->retry_us ||
        (run->phase == BATCH_RUNNING && !wants_lines && !batch_run_has_answers(run)))
        return;
    list_move_back(&run->handed, &run->answered); /* after those that could not be written */
    run->answered_bytes = 0;
    run->n_wanted = wants_lines ? n_lines - run->n_ready : 0;
    run->has_read_all = run->has_all;
    run->next = run->phase;
    run->found_ending = BATCH_ENDS_NOT;
    run->failure = (struct api_error){0};
    run->has_job = true;
    run->job.work = on_batch_run_work;
    run->job.done = on_batch_run_done;
    run->job.name = "batch_run";
    run->job.subject = BATCH_JOB_SUBJECT;
    (void)worker_pool_post(run->opt->storage,
                           &run->job); /* the storage thread has no limit of jobs */
}
