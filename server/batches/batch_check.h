/* server/batches/batch_check.h - checks every line of a batch's input before the first line is
 * computed.
 *
 * Thread: any, one at a time; a step may wait for a disk.
 * Memory: 32 bytes for each line, and BATCH_CHECK_MAX_ERRORS errors.
 */
#ifndef SERVER_BATCHES_BATCH_CHECK_H
#define SERVER_BATCHES_BATCH_CHECK_H

#include <stdint.h>

#include "core/base/hash_index.h"
#include "server/batches/line_reader.h"

#define BATCH_CHECK_MAX_ERRORS 100

struct batch_check_options {
    const char *endpoint; /* endpoint of every line; NULL: any */
    uint32_t max_lines;
    size_t max_line; /* bytes */
};

struct batch_check {
    uint32_t n_lines; /* so far */
    uint32_t n_errors;
    struct buf errors; /* the first errors: OpenAI's objects, separated by commas */
    /* private */
    struct batch_check_options opt;
    struct line_reader reader;
    struct hash_index ids; /* of custom_ids */
};

/* Set up the check of the file `fd`, which is borrowed. */
void batch_check_init(struct batch_check *c, int fd, const struct batch_check_options *options);
void batch_check_release(struct batch_check *c);

/* Check some more lines. 1: there are more; 0: all lines were checked; ERR_IO, ERR_NOMEM. */
int batch_check_step(struct batch_check *c);

/* Add an error about the whole file. */
void batch_check_fail(struct buf *errors, const char *code, const char *message);

#endif
