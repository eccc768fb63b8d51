/* server/engine_io/block_store.c - see block_store.h.
 *
 * Two threads, reader and writer, each with its own backend and record buffer, so that neither
 * waits for the other and no lock is shared between them. The reader serves prompt look-ups and
 * reads (prefix_fetch.h); the writer drains the engine's offers, checks whether a record exists,
 * copies the blocks while they are still in the cache, and writes. Both tidy their backend now and
 * then.
 */
#include "server/engine_io/block_store.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "kvcache/block_offers.h"
#include "kvcache/kv_store.h"
#include "scheduler/prefix_fetch.h"
#include "server/engine_io/store_backend.h"
#include "server/engine_io/store_place.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OFFERS 1024        /* records that may wait to be written */
#define NAMES 64           /* records that are looked up at a time */
#define TICK_MS 1000       /* ms between two attempts at a store that does not answer */
#define IDLE_TICK_MS 60000 /* ms between two calls of tidy() if the store answers */
#define LOG_EVERY_MS 60000
#define JOIN_MS 2000
#define RATE_NAP_MS 20

struct worker {
    struct store_backend *backend;
    uint8_t *record; /* [kv_record_bytes()] */
    uint64_t log_after_ms;
    bool has_failed; /* the latest call failed */
    pthread_t thread;
    bool runs;
};

struct block_store {
    struct block_store_options opt;
    struct block_offers *offers;
    struct prefix_fetch *fetch;
    struct worker reader, writer;
    uint64_t paid_until_ms; /* used by the writer: time until which earlier writes use up
                             * write_rate */
    atomic_bool stops, hurries; /* hurries: write at any rate */
    atomic_bool is_writing;     /* the writer works on an offer */
};

/* Bytes of the blocks of a record. */
static size_t blocks_bytes(const struct kv_record_form *f)
{
    return kv_record_bytes(f) - kv_record_head_bytes(f);
}

/* ---- errors ---- */

static void note_error(struct block_store *s, struct worker *w, enum store_count what,
                       const char *name, const char *why)
{
    const uint64_t now = clock_ms();
    char place[300], reason[200];

    prefix_fetch_add(s->fetch, what, 1);
    if (now < w->log_after_ms)
        return;
    w->log_after_ms = now + LOG_EVERY_MS;
    log_warn("store", "%s=failed place=%s reason=%s errors=%" PRIu64, name,
             store_place_name(s->opt.place, place, sizeof(place)),
             log_quote(reason, sizeof(reason), why), prefix_fetch_count(s->fetch, what));
}

/* Note the result of a backend's call. When a store answers again, let the engine offer all records
 * again: those offered meanwhile were not written, and the store may have lost others. */
static void note_result(struct block_store *s, struct worker *w, int64_t rc, bool is_write)
{
    const bool has_failed = rc < 0 && rc != ERR_NOENT;

    if (w->has_failed && !has_failed)
        block_offers_renew(s->offers);
    w->has_failed = has_failed;
    if (!is_write)
        prefix_fetch_set(s->fetch, STORE_UP, rc >= 0 || rc == ERR_NOENT);
    if (has_failed && rc != ERR_BUSY)
        note_error(s, w, is_write ? STORE_WRITE_ERRORS : STORE_READ_ERRORS,
                   is_write ? "write" : "read", w->backend->why);
}

static void drop_bad(struct block_store *s, struct worker *w, const char *name,
                     enum kv_record_fault fault)
{
    char why[100];

    snprintf(why, sizeof(why), "record %.16s is %s, and is removed", name,
             kv_record_fault_name(fault));
    note_error(s, w, STORE_BAD_RECORDS, "check", why);
    (void)w->backend->ops->remove(w->backend, name);
}

/* ---- reading ---- */

static uint32_t probe(struct block_store *s, const struct fetch_work *work)
{
    struct store_backend *b = s->reader.backend;
    store_name names[NAMES];
    uint32_t n = 0;

    while (n < work->n) {
        const uint32_t n_asked = work->n - n < NAMES ? work->n - n : NAMES;
        int there;

        for (uint32_t i = 0; i < n_asked; i++)
            kv_record_name(names[i], &s->opt.form,
                           prefix_fetch_key(s->fetch, work->prompt, n + i).last);
        there = b->ops->count(b, (const store_name *)names, n_asked);
        note_result(s, &s->reader, there, false);
        n += there > 0 ? (uint32_t)there : 0;
        if (there != (int)n_asked)
            break;
    }
    prefix_fetch_add(s->fetch, STORE_HIT_BLOCKS, (uint64_t)n * s->opt.form.n_blocks);
    prefix_fetch_add(s->fetch, STORE_MISS_BLOCKS, (uint64_t)(work->n - n) * s->opt.form.n_blocks);
    return n;
}

/* Read one record's blocks into `out`; false: it does not exist, or failed its check. */
static bool read_record(struct block_store *s, const struct kv_record_key *key, uint8_t *out)
{
    struct worker *w = &s->reader;
    const struct kv_record_form *form = &s->opt.form;
    const size_t bytes = kv_record_bytes(form), head = kv_record_head_bytes(form);
    store_name name;
    enum kv_record_fault fault;
    int64_t n;

    kv_record_name(name, form, key->last);
    n = w->backend->ops->get(w->backend, name, w->record, bytes);
    note_result(s, w, n, false);
    if (n < 0)
        return false;
    fault = n > (int64_t)bytes ? KV_RECORD_CUT : kv_record_check(w->record, (size_t)n, form, key);
    if (fault != KV_RECORD_OK) {
        drop_bad(s, w, name, fault);
        return false;
    }
    prefix_fetch_add(s->fetch, STORE_READ_BYTES, bytes);
    memcpy(out, w->record + head, bytes - head);
    return true;
}

static uint32_t read_records(struct block_store *s, const struct fetch_work *work)
{
    const size_t bytes = blocks_bytes(&s->opt.form);
    uint32_t n = 0;

    while (n < work->n && !atomic_load(&s->stops)) {
        const struct kv_record_key key =
            prefix_fetch_key(s->fetch, work->prompt, work->first + n);

        if (!read_record(s, &key, work->buffer + n * bytes))
            break;
        n++;
    }
    return n;
}

static void tick_reader(struct block_store *s)
{
    uint64_t bytes;

    if (s->opt.place->is_redis)
        note_result(s, &s->reader, s->reader.backend->ops->tidy(s->reader.backend, &bytes), false);
    else
        prefix_fetch_set(s->fetch, STORE_UP, 1); /* a folder is tried again with each prompt */
}

static void *read_main(void *ud)
{
    struct block_store *s = ud;
    struct fetch_work work;

    tick_reader(s);
    while (!atomic_load(&s->stops)) {
        const bool is_up = prefix_fetch_count(s->fetch, STORE_UP) != 0;
        uint64_t start;
        uint32_t n;

        if (!prefix_fetch_take_work(s->fetch, &work, is_up ? IDLE_TICK_MS : TICK_MS)) {
            if (!is_up)
                tick_reader(s);
            continue;
        }
        start = clock_us();
        n = work.is_probe ? probe(s, &work) : read_records(s, &work);
        prefix_fetch_add(s->fetch, STORE_READ_US, clock_us() - start);
        if (atomic_load(&s->stops)) /* the call may have hung, and the rest of the store may be
                                     * freed already */
            break;
        prefix_fetch_work_done(s->fetch, &work, n, clock_us() - start);
    }
    return NULL;
}

/* ---- writing ---- */

/* Wait until write_rate allows the next record. */
static void keep_rate(struct block_store *s, size_t bytes)
{
    uint64_t now = clock_ms();

    if (s->opt.write_rate == 0)
        return;
    while (now < s->paid_until_ms && !atomic_load(&s->stops) && !atomic_load(&s->hurries)) {
        nanosleep(&(struct timespec){.tv_nsec = RATE_NAP_MS * 1000000}, NULL);
        now = clock_ms();
    }
    if (s->paid_until_ms < now)
        s->paid_until_ms = now;
    s->paid_until_ms += bytes * 1000 / s->opt.write_rate;
}

static void write_record(struct block_store *s, const struct block_offer *offer, const char *name)
{
    struct worker *w = &s->writer;
    const size_t bytes = kv_record_bytes(&s->opt.form);
    const struct kv_record_key key = {offer->before, offer->last, offer->ids};
    uint64_t start;
    int rc;

    keep_rate(s, bytes);
    start = clock_us();
    if (atomic_load(&s->stops) ||
        !block_offers_copy(s->offers, offer, s->opt.kv,
                           w->record + kv_record_head_bytes(&s->opt.form))) {
        prefix_fetch_add(s->fetch, STORE_DROPPED_RECORDS, 1);
        return;
    }
    kv_record_finish(w->record, &s->opt.form, &key);
    rc = w->backend->ops->put(w->backend, name, w->record, bytes);
    note_result(s, w, rc, true);
    prefix_fetch_add(s->fetch, STORE_WRITE_US, clock_us() - start);
    prefix_fetch_add(s->fetch, rc == 0 ? STORE_WRITTEN_BYTES : STORE_DROPPED_RECORDS,
                     rc == 0 ? bytes : 1);
}

static void take_offer(struct block_store *s, const struct block_offer *offer)
{
    struct worker *w = &s->writer;
    store_name names[1];
    int there;

    kv_record_name(names[0], &s->opt.form, offer->last);
    there = w->backend->ops->count(w->backend, (const store_name *)names, 1);
    note_result(s, w, there, true);
    if (there == 0) {
        write_record(s, offer, names[0]);
        return;
    }
    prefix_fetch_add(s->fetch, there > 0 ? STORE_KNOWN_RECORDS : STORE_DROPPED_RECORDS, 1);
}

static void tidy(struct block_store *s)
{
    uint64_t bytes = 0;
    const int n = s->writer.backend->ops->tidy(s->writer.backend, &bytes);

    note_result(s, &s->writer, n, true);
    if (n > 0)
        prefix_fetch_add(s->fetch, STORE_EVICTED_RECORDS, (uint64_t)n);
    prefix_fetch_set(s->fetch, STORE_BYTES, bytes);
}

static void *write_main(void *ud)
{
    struct block_store *s = ud;
    struct block_offer offer;

    tidy(s);
    while (!atomic_load(&s->stops)) {
        atomic_store(&s->is_writing, true);
        for (uint32_t i = 0; i < OFFERS && !atomic_load(&s->stops) &&
                             block_offers_take(s->offers, &offer); i++)
            take_offer(s, &offer);
        atomic_store(&s->is_writing, false);
        tidy(s);
        if (!atomic_load(&s->stops) && block_offers_n(s->offers) == 0)
            block_offers_wait(s->offers, s->writer.has_failed ? TICK_MS : IDLE_TICK_MS);
    }
    return NULL;
}

/* ---- opening and closing ---- */

static int open_worker(const struct block_store *s, struct worker *w)
{
    w->record = mem_alloc(kv_record_bytes(&s->opt.form));
    if (w->record == NULL)
        return ERR_NOMEM;
    return s->opt.place->is_redis ? store_redis_open(&w->backend, s->opt.place)
                                  : store_folder_open(&w->backend, s->opt.place, s->opt.max_bytes);
}

static int start_workers(struct block_store *s, struct worker *w, void *(*run)(void *))
{
    w->runs = pthread_create(&w->thread, NULL, run, s) == 0;
    return w->runs ? 0 : ERR_INTERNAL;
}

static int open_parts(struct block_store *s)
{
    const struct prefix_fetch_options fetch = {
        .record_blocks = s->opt.form.n_blocks,
        .record_bytes = blocks_bytes(&s->opt.form),
        .max_prompts = s->opt.max_prompts,
        .wait_ms = s->opt.wait_ms,
    };
    int rc = block_offers_create(&s->offers, s->opt.kv->n_blocks, s->opt.form.n_blocks, OFFERS);

    if (rc == 0)
        rc = prefix_fetch_create(&s->fetch, &fetch);
    if (rc == 0) { /* the store is assumed to answer until a call fails, so that the first request
                    * can use it */
        prefix_fetch_set(s->fetch, STORE_UP, 1);
        rc = open_worker(s, &s->reader);
    }
    if (rc == 0)
        rc = open_worker(s, &s->writer);
    if (rc == 0)
        rc = start_workers(s, &s->reader, read_main);
    if (rc == 0)
        rc = start_workers(s, &s->writer, write_main);
    return rc;
}

size_t block_store_bytes(const struct kv_record_form *form, uint32_t n_blocks)
{
    return sizeof(struct block_store) + block_offers_bytes(n_blocks, OFFERS) +
           prefix_fetch_buffer_bytes(blocks_bytes(form)) + 2 * kv_record_bytes(form);
}

int block_store_open(struct block_store **out, const struct block_store_options *options, char *err,
                     size_t err_len)
{
    struct block_store *s = mem_calloc(1, sizeof(*s));
    char place[300];
    int rc = ERR_NOMEM;

    *out = NULL;
    if (s != NULL) {
        s->opt = *options;
        rc = open_parts(s);
    }
    if (rc < 0) {
        (void)block_store_close(&s);
        snprintf(err, err_len, "cannot open the block store %s: %s",
                 store_place_name(options->place, place, sizeof(place)), err_text(rc));
    }
    *out = s;
    return rc;
}

struct block_offers *block_store_offers(struct block_store *s)
{
    return s->offers;
}

struct prefix_fetch *block_store_fetch(struct block_store *s)
{
    return s->fetch;
}

void block_store_flush(struct block_store *s, uint32_t most_ms)
{
    const uint64_t start = clock_ms();

    atomic_store(&s->hurries, true);
    while (clock_ms() - start < most_ms &&
           (block_offers_n(s->offers) > 0 || atomic_load(&s->is_writing)))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (block_offers_n(s->offers) > 0)
        log_warn("store", "event=flush_cut_short records_left=%u ms=%u",
                 block_offers_n(s->offers), most_ms);
}

/* Join the thread; false: it hangs. */
static bool join_worker(struct worker *w)
{
    struct timespec until;

    if (!w->runs)
        return true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_MS / 1000;
    w->runs = pthread_timedjoin_np(w->thread, NULL, &until) != 0;
    return !w->runs;
}

static void close_worker(struct worker *w)
{
    if (w->backend != NULL)
        w->backend->ops->close(w->backend);
    mem_free(w->record);
}

int block_store_close(struct block_store **store)
{
    struct block_store *s = store != NULL ? *store : NULL;
    bool is_over = true;

    if (s == NULL)
        return 0;
    *store = NULL;
    atomic_store(&s->stops, true);
    if (s->offers != NULL)
        block_offers_wake(s->offers);
    if (s->fetch != NULL)
        prefix_fetch_wake(s->fetch);
    is_over = join_worker(&s->reader) && is_over;
    is_over = join_worker(&s->writer) && is_over;
    if (!is_over) {
        log_warn("store", "event=left_behind reason=\"a call to the block store did not return\"");
        return ERR_BUSY;
    }
    close_worker(&s->reader);
    close_worker(&s->writer);
    block_offers_destroy(&s->offers);
    prefix_fetch_destroy(&s->fetch);
    mem_free(s);
    return 0;
}
