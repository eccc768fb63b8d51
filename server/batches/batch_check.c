/* server/batches/batch_check.c - see batch_check.h.
 *
 * One pass over the file in steps of 1 MiB, each a part of a job on the keeper's thread, so that
 * other jobs get their turn in between. Each line is parsed as it will be when it runs. Duplicate
 * custom_ids are found in an open hash table of 128-bit hashes, which doubles when it is half full.
 */
#include "server/batches/batch_check.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "server/batches/batch_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Bytes of a step, so that other jobs wait for some ten milliseconds at most. */
#define STEP_BYTES ((uint64_t)1 << 20)
#define MAX_ERROR_BYTES ((size_t)64 << 10)
#define FIRST_SLOTS 256 /* a power of two */

struct batch_check_id { /* the hash of a custom_id; zero is free */
    uint64_t low, high;
};

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
    mem_free(c->ids);
    c->ids = NULL;
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

/* The slot of an id, or a free one. */
static struct batch_check_id *custom_id_slot(struct batch_check_id *ids, size_t n_slots,
                                             struct batch_check_id id)
{
    size_t i = (size_t)id.low & (n_slots - 1);

    while ((ids[i].low != 0 || ids[i].high != 0) &&
           (ids[i].low != id.low || ids[i].high != id.high))
        i = (i + 1) & (n_slots - 1);
    return &ids[i];
}

static int grow_ids(struct batch_check *c)
{
    const size_t n = c->n_slots > 0 ? 2 * c->n_slots : FIRST_SLOTS;
    struct batch_check_id *ids = mem_calloc(n, sizeof(*ids));

    if (ids == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < c->n_slots; i++)
        if (c->ids[i].low != 0 || c->ids[i].high != 0)
            *custom_id_slot(ids, n, c->ids[i]) = c->ids[i];
    mem_free(c->ids);
    c->ids = ids;
    c->n_slots = n;
    return 0;
}

/* Add a custom_id: 1: it is new; 0: another line has it; ERR_NOMEM. Compared as written: other
 * escapes make other ids. */
static int add_custom_id(struct batch_check *c, const struct buf *custom_id)
{
    const XXH128_hash_t h = XXH3_128bits(custom_id->data, custom_id->len);
    const struct batch_check_id id = {h.low64 | (h.low64 == 0 && h.high64 == 0), h.high64};
    struct batch_check_id *slot;

    if (2 * (size_t)(c->n_lines + 1) > c->n_slots && grow_ids(c) < 0)
        return ERR_NOMEM;
    slot = custom_id_slot(c->ids, c->n_slots, id);
    if (slot->low != 0 || slot->high != 0)
        return 0;
    *slot = id;
    return 1;
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

/* Note the error that ends the check. */
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
            return end_with(c, "line_too_long", "a line may have bytes, as a body does (max_body):",
                            c->opt.max_line);
        if (rc == 0)
            return check_empty(c);
        if (rc < 0)
            return rc;
        if (line_reader_is_blank(&c->reader))
            continue;
        if (c->n_lines == c->opt.max_lines)
            return end_with(c, "too_many_tasks", "a batch may have lines (batch_max_lines):",
                            c->opt.max_lines);
        if (check_line(c) < 0)
            return ERR_NOMEM;
        c->n_lines++;
    }
    return c->n_errors <= BATCH_CHECK_MAX_ERRORS;
}
