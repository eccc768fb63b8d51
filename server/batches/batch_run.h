/* server/batches/batch_run.h - one batch at work: its lines on the way from the input to the files
 * of answers.
 *
 * Its phases follow each other; a job on the keeper's thread, one at a time, does what the phase
 * has for it: look the batch up, check its input, write answers and read lines, end it. What fails
 * on the disk is tried again after a pause, with nothing lost; what cannot succeed (the input is
 * gone, or has changed) ends the batch as a failed one, with the answers that it has.
 *
 * Thread: the loop's, but for the job's work, which has what is marked.
 * Memory: lines that are ready, and answers that are not written, of some megabytes each.
 */
#ifndef SERVER_BATCHES_BATCH_RUN_H
#define SERVER_BATCHES_BATCH_RUN_H

#include "core/base/list.h"
#include "server/batches/batch_check.h"
#include "server/batches/batch_keeper.h"
#include "server/http/local_call.h"

/* Answers that wait for the disk: with so many bytes no more lines begin. */
#define BATCH_RUN_MAX_ANSWERS ((size_t)8 << 20)

enum batch_phase {
    BATCH_LOADING = 0, /* the store is asked */
    BATCH_CHECKING,    /* its lines are, each of them */
    BATCH_RUNNING,
    BATCH_ENDING, /* nothing of it runs any more */
    BATCH_OVER,
};

struct batch_item { /* a line that has been read, until its answer is written */
    struct list link; /* in batch_run.ready, .running, .answered or .handed */
    struct batch_run *run;
    struct batch_line line;
    struct local_call call; /* while it runs */
    uint32_t n_tries;
    int status;        /* of its answer; 0: it was too large to be kept */
    struct buf answer; /* the body of that */
};

struct batch_run {
    struct list link;
    char id[BATCH_STORE_ID];
    struct batch_record record; /* the job's while the phase is BATCH_LOADING */
    /* Both change while there is no job; the ending once. */
    enum batch_phase phase;
    enum batch_ending ending;   /* that has been decided */
    struct batch_progress progress; /* as of the last job */
    struct list ready, running;     /* struct batch_item */
    uint32_t n_ready, n_running;
    size_t ready_bytes;
    bool has_all;               /* the input has been read to its end */
    struct list answered;       /* struct batch_item: the next job's */
    size_t answered_bytes;      /* of their answers */
    uint64_t wait_until_us; /* no line begins before */
    uint64_t retry_us;      /* no job begins before */
    bool has_job;
    char trouble[160]; /* why the last job is to be done again, or "" */
    /* The job's while there is one. */
    struct batch_job job;
    const struct batch_run_limits *limits;
    uint32_t n_wanted; /* lines to read */
    struct list read;
    bool has_read_all, is_reopened;
    struct list handed;         /* struct batch_item whose answers it is to write */
    struct buf writing[BATCH_N_KINDS]; /* their text */
    uint32_t n_writing[BATCH_N_KINDS];
    struct batch_check check;
    int check_fd; /* -1 = not open */
    struct batch_files *files;
    struct batch_progress reached;
    struct buf errors;
    uint32_t n_lines;             /* what the job has found */
    enum batch_phase next;
    enum batch_ending found_ending;
    struct api_error failure;
    void (*changed)(struct batch_run *run); /* a job is over */
    void *ud;                               /* for it */
};

struct batch_run_limits { /* the same for all */
    uint32_t max_lines;
    size_t max_line;
};

/* Of a batch of the store by its id; or, the record being complete but for n_lines, of one without
 * a store. NULL: no memory. */
struct batch_run *batch_run_create(const struct batch_record *record, enum batch_phase phase,
                                   const struct batch_run_limits *limits,
                                   void (*changed)(struct batch_run *run), void *ud);
/* It has no job, and nothing of it runs. */
void batch_run_destroy(struct batch_run **run);
void batch_item_destroy(struct batch_item *item);

/* Post the job that the phase has, if there is one to do now, and up to n_lines lines are ready. */
void batch_run_post(struct batch_run *run, struct batch_keeper *k, uint32_t n_lines);

/* Nothing is left to compute. */
bool batch_run_is_done(const struct batch_run *run);
/* Answers that no job has or had; those that the last job could not write count too. */
bool batch_run_has_answers(const struct batch_run *run);
/* Lines that have no answer. */
uint32_t batch_run_n_left(const struct batch_run *run);

#endif
