/* server/batches/batch_run.h - one batch: computes its lines, from the input to the files of
 * answers.
 *
 * Its phases follow each other; a job on the storage thread, one at a time, does the phase's work:
 * look the batch up, check its input, write answers and read lines, end it. After a failure of the
 * disk the job is repeated after a pause, and nothing is lost. An error that a retry cannot help
 * (the input was deleted, or has changed) ends the batch as failed, with the answers that it has.
 *
 * Thread: the loop's, except for the job's work, which owns the members marked so.
 * Memory: lines that are ready, and answers that are not written, of some megabytes each.
 */
#ifndef SERVER_BATCHES_BATCH_RUN_H
#define SERVER_BATCHES_BATCH_RUN_H

#include "core/base/list.h"
#include "server/batches/batch_check.h"
#include "server/batches/batch_store.h"
#include "server/http/local_call.h"
#include "server/process/worker_pool.h"

/* Bytes of answers that wait for the disk, beyond which no more lines begin. */
#define BATCH_RUN_MAX_ANSWERS ((size_t)8 << 20)
/* The subject of all jobs of this folder (worker_pool.h). */
#define BATCH_JOB_SUBJECT "the folder of batches"

enum batch_phase {
    BATCH_LOADING = 0, /* it is being looked up in the store */
    BATCH_CHECKING,    /* each line of its input is being checked */
    BATCH_RUNNING,
    BATCH_ENDING, /* no line runs any more; its end is being written */
    BATCH_OVER,
};

struct batch_item {   /* a line that was read, until its answer is written */
    struct list link; /* in batch_run.ready, .running, .answered or .handed */
    struct batch_run *run;
    struct batch_line line;
    struct local_call call; /* the call that computes the line, while it runs */
    uint32_t n_tries;
    int status;        /* HTTP status of its answer; 0: the answer was too large to be kept */
    struct buf answer; /* its body */
};

struct batch_run {
    struct list link;
    char id[BATCH_STORE_ID];
    struct batch_record record; /* belongs to the job while the phase is BATCH_LOADING */
    /* phase and ending change only while there is no job; the ending changes once. */
    enum batch_phase phase;
    enum batch_ending ending;       /* the ending that has been decided */
    struct batch_progress progress; /* progress after the last job */
    struct list ready, running;     /* struct batch_item */
    uint32_t n_ready, n_running;
    size_t ready_bytes;
    bool has_all;           /* the input was read to its end */
    struct list answered;   /* struct batch_item whose answers the next job writes */
    size_t answered_bytes;  /* bytes of the answers in `answered` */
    uint64_t wait_until_us; /* time before which no line begins */
    uint64_t retry_us;      /* time before which no job begins */
    bool has_job;
    char trouble[160]; /* reason for which the last job is repeated, or "" */
    /* The members below belong to the job while there is one. */
    struct worker_job job;
    const struct batch_run_options *opt;
    uint32_t n_wanted; /* lines to read */
    struct list read;
    bool has_read_all, is_reopening, is_reopened; /* `files`: see reopen_files() */
    struct list handed;                           /* struct batch_item whose answers it writes */
    struct buf writing[BATCH_N_KINDS];            /* their text */
    uint32_t n_writing[BATCH_N_KINDS];
    struct batch_check check;
    int check_fd; /* -1 = not open */
    struct batch_files *files;
    struct batch_progress reached;
    struct buf errors;
    uint32_t n_lines; /* the job's results */
    enum batch_phase next;
    enum batch_ending found_ending;
    struct api_error failure;
    void (*changed)(struct batch_run *run); /* called when a job has ended */
    void *ud;                               /* for it */
};

struct batch_run_options {       /* the same for all batches */
    struct worker_pool *storage; /* the storage thread, which runs the jobs */
    struct batch_store *store;   /* NULL: the server computes one batch, which has only files */
    uint32_t max_lines;
    size_t max_line;
};

/* Create the run of a batch of the store, by its id, or of a batch without a store, whose record is
 * complete except for n_lines. NULL: no memory. */
struct batch_run *batch_run_create(const struct batch_record *record, enum batch_phase phase,
                                   const struct batch_run_options *options,
                                   void (*changed)(struct batch_run *run), void *ud);
/* Free the run; it must have no job and no running line. */
void batch_run_destroy(struct batch_run **run);
void batch_item_destroy(struct batch_item *item);

/* Post the job of the present phase, if it has work. n_lines: lines to have ready. */
void batch_run_post(struct batch_run *run, uint32_t n_lines);

/* True: no line is left to compute. */
bool batch_run_is_done(const struct batch_run *run);
/* True: there are answers that no job has, or that the last job could not write. */
bool batch_run_has_answers(const struct batch_run *run);
/* Count the lines that have no answer. */
uint32_t batch_run_n_left(const struct batch_run *run);

#endif
