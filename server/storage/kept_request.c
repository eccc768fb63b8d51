/* server/storage/kept_request.c - one kept request and its records; see request_keeper.h.
 *
 * Records are only appended to the keeper's buffer `gathers`, on the I/O thread; request_keeper.c
 * writes the buffer to the file. A record that did not fit is removed again (close_records()), so
 * that the buffer always holds whole records. Tokens that could not be recorded are recorded the
 * next time, because n_known counts only those that were.
 */
#include "server/storage/request_keeper_impl.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* Microseconds after a failure of the disk during which nothing is written and no new request is
 * kept. */
#define PAUSE_US 2000000u

/* ---- records ---- */

/* Count what the request has added to the buffer since `before`; an incomplete record is
 * removed. */
static bool close_records(struct kept_request *r, size_t before)
{
    struct buf *b = &r->keeper->gathers;
    const bool is_whole = b->err == 0;

    if (!is_whole) {
        b->len = before;
        b->err = 0;
    }
    r->n_bytes += b->len - before;
    return is_whole;
}

void kept_request_write_tokens(struct kept_request *r)
{
    struct request_keeper *k = r->keeper;
    const struct kept_request_tokens t = r->runner.tokens(r->runner.ud);
    const size_t before = k->gathers.len;

    if (t.n <= r->n_known)
        return;
    request_record_tokens(&k->gathers, r->number, r->id, r->n_known, t.ids + r->n_known,
                          t.n - r->n_known);
    if (close_records(r, before))
        r->n_known = t.n;
}

static void write_gone(struct kept_request *r)
{
    struct request_keeper *k = r->keeper;
    const size_t before = k->gathers.len;

    if (r->is_over)
        return;
    r->is_over = true;
    request_record_gone(&k->gathers, r->number, r->id);
    (void)close_records(r, before);
    k->garbage += r->n_bytes;
}

/* ---- requests ---- */

void kept_request_forget(struct kept_request *r)
{
    list_unlink(&r->link);
    r->keeper->n--;
    mem_free(r);
}

static struct kept_request *create(struct request_keeper *k, uint64_t number, const char *id)
{
    struct kept_request *r = mem_calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->keeper = k;
    r->number = number;
    snprintf(r->id, sizeof(r->id), "%s", id);
    list_push_back(&k->all, &r->link);
    k->n++;
    return r;
}

static bool has_room(struct request_keeper *k, const struct request_begin *b)
{
    const uint64_t most = k->opt.max_bytes;
    const uint64_t wanted =
        k->bytes - (k->garbage < k->bytes ? k->garbage : k->bytes) + k->gathers.len + b->body.n;
    const bool was_full = k->is_full;

    k->is_full = wanted >= most || k->gathers.len >= REQUESTS_MAX_WAITING;
    if (k->is_full && !was_full)
        log_warn("requests", "event=requests_db_full bytes=%" PRIu64, k->bytes);
    return !k->is_full;
}

bool request_keeper_has_failed(const struct request_keeper *k)
{
    return k->failed_us > 0 && clock_us() - k->failed_us < PAUSE_US;
}

static struct kept_request *add_kept_request(struct request_keeper *k, const char *id,
                                             const struct request_begin *begin)
{
    const size_t before = k->gathers.len;
    struct kept_request *r;

    if (k->log == NULL || k->is_stopping || request_keeper_has_failed(k) || !has_room(k, begin))
        return NULL;
    r = create(k, k->next_number, id);
    if (r == NULL)
        return NULL;
    r->n_known = begin->n_past;
    request_record_begin(&k->gathers, r->number, r->id, begin);
    if (close_records(r, before)) {
        k->next_number++;
        return r;
    }
    kept_request_forget(r);
    return NULL;
}

struct kept_request *request_keeper_begin(struct request_keeper *k, const char *id,
                                          const struct request_begin *begin,
                                          void (*written)(void *ud, bool is_kept), void *ud)
{
    struct request_waiter *w = k != NULL ? mem_calloc(1, sizeof(*w)) : NULL;
    struct kept_request *r = w != NULL ? add_kept_request(k, id, begin) : NULL;

    if (r == NULL) {
        mem_free(w);
        if (k != NULL)
            k->n_unkept++;
        return NULL;
    }
    *w = (struct request_waiter){.request = r, .written = written, .ud = ud};
    list_push_back(&k->waiting, &w->link);
    request_keeper_pump(k);
    return r;
}

struct kept_request *request_keeper_take_up(struct request_keeper *k,
                                            const struct saved_request *saved)
{
    struct kept_request *r = create(k, saved->number, saved->id);

    if (r == NULL)
        return NULL;
    r->n_known = saved->begin.n_past + saved->n_tokens;
    r->n_bytes = saved->begin.body.n + 4 * (uint64_t)saved->n_tokens;
    k->n_saved--;
    k->n_restored++;
    return r;
}

void kept_request_run(struct kept_request *r, const struct kept_request_runner *runner)
{
    r->runner = *runner;
    r->is_running = true;
    request_keeper_tick(r->keeper);
}

/* End a request. Its end is recorded only if all of its tokens are: otherwise the next process
 * computes the end again. */
void kept_request_end(struct kept_request *r, uint32_t finish)
{
    struct request_keeper *k = r->keeper;
    size_t before;

    if (!r->is_running)
        return;
    r->is_running = false;
    kept_request_write_tokens(r);
    before = k->gathers.len;
    if (finish != 0 && r->n_known == r->runner.tokens(r->runner.ud).n)
        request_record_end(&k->gathers, r->number, r->id, finish, r->n_known);
    (void)close_records(r, before);
    request_keeper_pump(k);
}

void kept_request_give_up(struct kept_request *r)
{
    r->is_running = false;
    write_gone(r);
    request_keeper_pump(r->keeper);
}

void kept_request_put_back(struct kept_request *r)
{
    r->keeper->n_saved++;
    r->keeper->n_restored--;
    kept_request_forget(r);
}

void kept_request_drop(struct kept_request *r)
{
    struct request_keeper *k = r->keeper;

    if (!r->is_put_off && !k->is_closed)
        write_gone(r);
    kept_request_forget(r);
    request_keeper_pump(k);
}

void request_keeper_forget(struct request_keeper *k, const struct saved_request *saved,
                           bool is_lost)
{
    const size_t before = k->gathers.len;

    request_record_gone(&k->gathers, saved->number, saved->id);
    if (k->gathers.err < 0) {
        k->gathers.len = before;
        k->gathers.err = 0;
    }
    k->garbage += saved->begin.body.n;
    k->n_saved--;
    k->n_lost += is_lost;
    request_keeper_pump(k);
}
