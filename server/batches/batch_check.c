/* server/batches/batch_check.c - see batch_check.h.
 *
 * One pass over the file in steps of 1 MiB, each a part of a job on the storage thread, so that
 * other jobs get their turn in between. Each line is parsed as when it runs. Duplicate custom_ids
 * are found by their 128-bit hashes: one half is the key of a hash index, the other half its item.
 */
#include "server/batches/batch_check.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "server/batches/batch_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Bytes of a step, so that other jobs wait for some ten milliseconds at most. */
#define STEP_BYTES ((uint64_t)1 << 20)
#define MAX_ERROR_BYTES ((size_t)64 << 10)

void batch_check_init(struct batch_check *c, int fd, const struct batch_check_options *options)
{
    *c = (struct batch_check){.opt = *options};
    line_reader_init(&c->reader, fd, options->max_line, UINT64_MAX);
    buf_init(&c->errors, MAX_ERROR_BYTES);
}

void batch_check_release(struct batch_check *c)
{
    line_reader_release(&c->reader);
    buf_release(&c->errors);
    hash_index_release(&c->ids);
}

/* ---- errors ---- */

static void add_error(struct buf *errors, const struct batch_line_error *e, uint32_t number)
{
    const size_t before = errors->len;

    buf_printf(errors, "%s{\"code\":\"%s\",\"line\":", before > 0 ? "," : "", e->code);
    if (number > 0)
        buf_printf(errors, "%" PRIu32, number);
    else
        buf_add_str(errors, "null");
    buf_add_str(errors, ",\"message\":");
    json_add_cstring(errors, e->message);
    buf_add_str(errors, ",\"param\":");
    if (e->param != NULL)
        json_add_cstring(errors, e->param);
    else
        buf_add_str(errors, "null");
    buf_add_char(errors, '}');
    if (errors->err < 0) { /* an error that does not fit is left out */
        errors->len = before;
        errors->err = 0;
    }
}

void batch_check_fail(struct buf *errors, const char *code, const char *message)
{
    struct batch_line_error e = {.code = code};

    snprintf(e.message, sizeof(e.message), "%s", message);
    add_error(errors, &e, 0);
}

static void note_bad_line(struct batch_check *c, const struct batch_line_error *e, uint32_t number)
{
    if (c->n_errors++ < BATCH_CHECK_MAX_ERRORS)
        add_error(&c->errors, e, number);
}

/* ---- custom ids ---- */

/* Add a custom_id: 1: it is new; 0: another line has it; ERR_NOMEM. Ids are compared as written:
 * other escapes make other ids. */
static int add_custom_id(struct batch_check *c, const struct buf *custom_id)
{
    const XXH128_hash_t h = XXH3_128bits(custom_id->data, custom_id->len);
    const uintptr_t rest = (uintptr_t)(h.high64 | 1); /* an item is never 0 */
    struct hash_walk w = {.hash = h.low64};
    uintptr_t other;

    while ((other = hash_index_next(&c->ids, &w)) != 0)
        if (other == rest)
            return 0;
    return hash_index_add(&c->ids, h.low64, rest) < 0 ? ERR_NOMEM : 1;
}

/* ---- lines ---- */

static int check_line(struct batch_check *c)
{
    const struct buf *text = &c->reader.line;
    struct batch_line_error e = {0};
    struct batch_line line;
    int rc = batch_line_parse(&line, text->data, text->len, c->opt.endpoint, c->n_lines, 0, &e);

    if (rc == 0)
        rc = add_custom_id(c, &line.custom_id);
    if (rc == 0) {
        e = (struct batch_line_error){.code = "duplicate_custom_id", .param = "custom_id"};
        snprintf(e.message, sizeof(e.message), "another line has this 'custom_id' already");
        rc = ERR_INVAL;
    }
    if (rc == ERR_INVAL)
        note_bad_line(c, &e, c->reader.number);
    batch_line_release(&line);
    return rc == ERR_NOMEM ? rc : 0;
}

/* Add the error that ends the check. */
static int end_with(struct batch_check *c, const char *code, const char *what, uint64_t most)
{
    struct batch_line_error e = {.code = code};

    snprintf(e.message, sizeof(e.message), "%s at most %" PRIu64, what, most);
    note_bad_line(c, &e, c->reader.number);
    return 0;
}

static int check_empty(struct batch_check *c)
{
    if (c->n_lines == 0 && c->n_errors == 0)
        batch_check_fail(&c->errors, "empty_file", "the file has no lines");
    c->n_errors += c->n_lines == 0 && c->n_errors == 0;
    return 0;
}

int batch_check_step(struct batch_check *c)
{
    const uint64_t from = c->reader.end;
    int rc = 1;

    while (rc > 0 && c->reader.end - from < STEP_BYTES && c->n_errors <= BATCH_CHECK_MAX_ERRORS) {
        rc = line_reader_next(&c->reader);
        if (rc == ERR_LIMIT)
            return end_with(c, "line_too_long",
                            "a line may have bytes, as a body does (max_body):", c->opt.max_line);
        if (rc == 0)
            return check_empty(c);
        if (rc < 0)
            return rc;
        if (line_reader_is_blank(&c->reader))
            continue;
        if (c->n_lines == c->opt.max_lines)
            return end_with(c, "too_many_tasks",
                            "a batch may have lines (batch_max_lines):", c->opt.max_lines);
        if (check_line(c) < 0)
            return ERR_NOMEM;
        c->n_lines++;
    }
    return c->n_errors <= BATCH_CHECK_MAX_ERRORS;
}
