/* scheduler/prefix_fetch.c - see prefix_fetch.h.
 *
 * Every submitted prompt is in `all`. It is also in `work` while it waits for the reader, or in
 * `answers` while it waits for the engine; in neither while the reader works on it (is_busy) or
 * after the engine took its answer. So a prompt has one owner at a time, and a prompt dropped while
 * the reader is busy is only marked, and freed when the reader is done.
 */
#include "scheduler/prefix_fetch.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "scheduler/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define BUFFERS 2                    /* one is filled while the other is copied */
#define PART_BYTES ((size_t)8 << 20) /* bytes copied between two steps: about two milliseconds */

struct fetch_prompt {
    uint64_t request;
    struct fetch_prompt *next_prepared;
    struct list in_all, in_turn; /* in_turn: link in `work` or in `answers` */
    bool is_busy;    /* the reader works on it */
    bool is_dropped; /* to be freed when the reader is done */
    bool has_answer; /* an answer that the engine has not taken */
    bool is_found;   /* its probe is done */
    bool is_read;    /* true: records first .. end - 1 are to be read; false: the prompt is to be
                      * probed */
    uint32_t first, end; /* records first .. end - 1 are still to be read */
    struct fetch_answer answer;
    uint32_t n_records;
    struct prefix_hash root;
    struct prefix_hash *lasts; /* [n_records] */
    int32_t *ids;              /* [n_records][record_blocks * 16] */
};

struct prefix_fetch {
    struct prefix_fetch_options opt;
    struct queue *queue;
    uint32_t part_records;
    uint8_t *buffers; /* [BUFFERS][part_records][record_bytes] */
    _Atomic uint64_t counts[STORE_N_COUNTS]; /* relaxed: statistics */

    pthread_mutex_t lock;
    pthread_cond_t has_work; /* wakes the reader: work and a buffer for it, or
                              * prefix_fetch_wake() */
    struct list all, work, answers;
    uint32_t n_prompts;
    bool is_used[BUFFERS];
    bool is_woken;
    uint64_t busy_since_us; /* clock when the reader began its present piece of work; 0: it waits */
};

static uint32_t part_records_of(size_t record_bytes)
{
    return record_bytes < PART_BYTES ? (uint32_t)(PART_BYTES / record_bytes) : 1;
}

size_t prefix_fetch_buffer_bytes(size_t record_bytes)
{
    return BUFFERS * part_records_of(record_bytes) * record_bytes;
}

int prefix_fetch_create(struct prefix_fetch **out, const struct prefix_fetch_options *o)
{
    struct prefix_fetch *f = mem_calloc(1, sizeof(*f));
    pthread_condattr_t attr;

    *out = NULL;
    if (f == NULL)
        return ERR_NOMEM;
    f->opt = *o;
    f->part_records = part_records_of(o->record_bytes);
    list_init(&f->all);
    list_init(&f->work);
    list_init(&f->answers);
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->has_work, &attr);
    pthread_condattr_destroy(&attr);
    f->buffers = mem_map(prefix_fetch_buffer_bytes(o->record_bytes));
    if (f->buffers == NULL)
        prefix_fetch_destroy(&f);
    *out = f;
    return f != NULL ? 0 : ERR_NOMEM;
}

static void free_prompt(struct fetch_prompt *p)
{
    mem_free(p->lasts);
    mem_free(p->ids);
    mem_free(p);
}

void prefix_fetch_destroy(struct prefix_fetch **fetch)
{
    struct prefix_fetch *f = fetch != NULL ? *fetch : NULL;

    if (f == NULL)
        return;
    list_each(link, &f->all)
        free_prompt(list_entry(link, struct fetch_prompt, in_all));
    if (f->buffers != NULL)
        mem_unmap(f->buffers, prefix_fetch_buffer_bytes(f->opt.record_bytes));
    pthread_cond_destroy(&f->has_work);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
    *fetch = NULL;
}

void prefix_fetch_attach(struct prefix_fetch *f, struct queue *q)
{
    f->queue = q;
}

/* ---- I/O thread ---- */

/* True: the store answers in time, and there is room for another prompt. */
static bool takes_more(struct prefix_fetch *f)
{
    const uint64_t now = clock_us();
    bool yes;

    pthread_mutex_lock(&f->lock);
    yes = f->n_prompts < f->opt.max_prompts &&
          (f->busy_since_us == 0 ||
           now - f->busy_since_us < (uint64_t)f->opt.wait_ms * 1000);
    pthread_mutex_unlock(&f->lock);
    return yes;
}

static bool is_worth_asking(struct prefix_fetch *f, const struct request *r)
{
    return !r->is_dry_run && r->prefix_owner == 0 && !request_needs_rows(r) &&
           r->n_prompt / BLOCK_TOKENS >= f->opt.record_blocks &&
           prefix_fetch_count(f, STORE_UP) != 0 && takes_more(f);
}

static struct fetch_prompt *copy_prompt(const struct prefix_fetch *f, struct request *r)
{
    struct fetch_prompt *p = mem_calloc(1, sizeof(*p));
    const uint32_t each = f->opt.record_blocks;

    if (p == NULL)
        return NULL;
    p->request = r->id;
    p->n_records = r->n_prompt / BLOCK_TOKENS / each;
    p->root = prefix_hash_root(r->key.salt);
    p->lasts = mem_calloc(p->n_records, sizeof(*p->lasts));
    p->ids = mem_dup(r->ids, (size_t)p->n_records * each * BLOCK_TOKENS * sizeof(*p->ids));
    if (p->lasts == NULL || p->ids == NULL) {
        free_prompt(p);
        return NULL;
    }
    kv_key_extend(&r->key, r->n_prompt);
    for (uint32_t i = 0; i < p->n_records; i++)
        p->lasts[i] = r->key.hashes[(i + 1) * each - 1];
    list_init(&p->in_all);
    list_init(&p->in_turn);
    return p;
}

void prefix_fetch_prepare(struct prefix_fetch *f, struct request *r, struct fetch_prompt **list)
{
    struct fetch_prompt *p =
        f != NULL && is_worth_asking(f, r) ? copy_prompt(f, r) : NULL;

    if (p == NULL)
        return;
    r->asks_store = true;
    while (*list != NULL)
        list = &(*list)->next_prepared;
    *list = p;
}

void prefix_fetch_submit(struct prefix_fetch *f, struct fetch_prompt **prepared)
{
    struct fetch_prompt *p = *prepared;

    *prepared = NULL;
    if (p == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    for (; p != NULL; p = p->next_prepared) {
        list_push_back(&f->all, &p->in_all);
        list_push_back(&f->work, &p->in_turn);
        f->n_prompts++;
    }
    pthread_cond_signal(&f->has_work);
    pthread_mutex_unlock(&f->lock);
}

/* ---- the reader ---- */

static uint8_t *buffer_at(const struct prefix_fetch *f, int i)
{
    return f->buffers + (size_t)i * f->part_records * f->opt.record_bytes;
}

static int free_buffer(const struct prefix_fetch *f)
{
    for (int i = 0; i < BUFFERS; i++)
        if (!f->is_used[i])
            return i;
    return -1;
}

/* Return the first prompt in `work` that needs no buffer, or for which one is free. */
static struct fetch_prompt *next_work(const struct prefix_fetch *f)
{
    list_each(link, &f->work) {
        struct fetch_prompt *p = list_entry(link, struct fetch_prompt, in_turn);

        if (!p->is_read || free_buffer(f) >= 0)
            return p;
    }
    return NULL;
}

static void begin_work(struct prefix_fetch *f, struct fetch_prompt *p, struct fetch_work *out)
{
    *out = (struct fetch_work){.prompt = p, .is_probe = !p->is_read, .n = p->n_records};
    if (p->is_read) {
        const int i = free_buffer(f);

        f->is_used[i] = true;
        out->buffer = buffer_at(f, i);
        out->first = p->first;
        out->n = p->end - p->first < f->part_records ? p->end - p->first : f->part_records;
    }
    list_unlink(&p->in_turn);
    p->is_busy = true;
    f->busy_since_us = clock_us();
}

static struct timespec in_ms(uint32_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

bool prefix_fetch_take_work(struct prefix_fetch *f, struct fetch_work *out, uint32_t most_ms)
{
    const struct timespec end = in_ms(most_ms);
    struct fetch_prompt *p;
    int rc = 0;

    pthread_mutex_lock(&f->lock);
    while ((p = next_work(f)) == NULL && !f->is_woken && rc == 0)
        rc = pthread_cond_timedwait(&f->has_work, &f->lock, &end);
    f->is_woken = false;
    if (p != NULL)
        begin_work(f, p, out);
    pthread_mutex_unlock(&f->lock);
    return p != NULL;
}

struct kv_record_key prefix_fetch_key(const struct prefix_fetch *f, const struct fetch_prompt *p,
                                      uint32_t i)
{
    assert(i < p->n_records);
    return (struct kv_record_key){
        .before = i > 0 ? p->lasts[i - 1] : p->root,
        .last = p->lasts[i],
        .ids = p->ids + (size_t)i * f->opt.record_blocks * BLOCK_TOKENS,
    };
}

static void forget_prompt(struct prefix_fetch *f, struct fetch_prompt *p)
{
    list_unlink(&p->in_all);
    list_unlink(&p->in_turn);
    f->n_prompts--;
    free_prompt(p);
}

static void give_buffer(struct prefix_fetch *f, const uint8_t *bytes)
{
    for (int i = 0; i < BUFFERS; i++)
        if (buffer_at(f, i) == bytes)
            f->is_used[i] = false;
    pthread_cond_signal(&f->has_work);
}

/* Make the answer that the engine gets for finished work. */
static struct fetch_answer answer_of(const struct prefix_fetch *f, const struct fetch_work *w,
                                     uint32_t n, uint64_t us)
{
    const uint32_t each = f->opt.record_blocks;

    return (struct fetch_answer){
        .kind = w->is_probe ? FETCH_FOUND : FETCH_PART,
        .request = w->prompt->request,
        .first = w->first * each,
        .n = n * each,
        .is_last = !w->is_probe && (n < w->n || w->first + n == w->prompt->end),
        .bytes = w->buffer,
        .us = us,
    };
}

void prefix_fetch_work_done(struct prefix_fetch *f, const struct fetch_work *w, uint32_t n,
                            uint64_t us)
{
    struct fetch_prompt *p = w->prompt;

    pthread_mutex_lock(&f->lock);
    f->busy_since_us = 0;
    p->is_busy = false;
    if (p->is_dropped) {
        if (!w->is_probe)
            give_buffer(f, w->buffer);
        forget_prompt(f, p);
    } else {
        p->answer = answer_of(f, w, n, us);
        p->has_answer = p->is_found = true;
        p->first = w->first + n;
        list_push_back(&f->answers, &p->in_turn);
    }
    pthread_mutex_unlock(&f->lock);
    if (f->queue != NULL)
        queue_wake(f->queue);
}

/* ---- engine thread ---- */

bool prefix_fetch_take_answer(struct prefix_fetch *f, struct fetch_answer *out)
{
    struct fetch_prompt *p = NULL;

    pthread_mutex_lock(&f->lock);
    if (!list_is_empty(&f->answers)) {
        p = list_entry(f->answers.next, struct fetch_prompt, in_turn);
        list_unlink(&p->in_turn);
        p->has_answer = false;
        *out = p->answer;
        if (out->is_last)
            forget_prompt(f, p);
    }
    pthread_mutex_unlock(&f->lock);
    return p != NULL;
}

static struct fetch_prompt *find_prompt(const struct prefix_fetch *f, uint64_t request)
{
    list_each(link, &f->all) {
        struct fetch_prompt *p = list_entry(link, struct fetch_prompt, in_all);

        if (p->request == request)
            return p;
    }
    return NULL;
}

static void queue_read(struct prefix_fetch *f, struct fetch_prompt *p)
{
    list_push_back(&f->work, &p->in_turn);
    pthread_cond_signal(&f->has_work);
}

void prefix_fetch_ask(struct prefix_fetch *f, uint64_t request, uint32_t first, uint32_t n)
{
    const uint32_t each = f->opt.record_blocks;
    struct fetch_prompt *p;

    assert(n > 0 && n % each == 0 && first % each == 0);
    pthread_mutex_lock(&f->lock);
    p = find_prompt(f, request);
    if (p != NULL) {
        assert(p->is_found && !p->is_read && (first + n) / each <= p->n_records);
        p->is_read = true;
        p->first = first / each;
        p->end = (first + n) / each;
        queue_read(f, p);
    }
    pthread_mutex_unlock(&f->lock);
}

void prefix_fetch_give(struct prefix_fetch *f, const struct fetch_answer *part)
{
    struct fetch_prompt *p;

    pthread_mutex_lock(&f->lock);
    give_buffer(f, part->bytes);
    p = part->is_last ? NULL : find_prompt(f, part->request);
    if (p != NULL)
        queue_read(f, p);
    pthread_mutex_unlock(&f->lock);
}

/* Forget the prompt. An answer that was not taken may hold a buffer. */
void prefix_fetch_drop(struct prefix_fetch *f, uint64_t request)
{
    struct fetch_prompt *p;

    pthread_mutex_lock(&f->lock);
    p = find_prompt(f, request);
    if (p != NULL && p->is_busy) {
        p->is_dropped = true;
    } else if (p != NULL) {
        if (p->has_answer && p->answer.bytes != NULL)
            give_buffer(f, p->answer.bytes);
        forget_prompt(f, p);
    }
    pthread_mutex_unlock(&f->lock);
}

/* ---- any thread ---- */

void prefix_fetch_wake(struct prefix_fetch *f)
{
    pthread_mutex_lock(&f->lock);
    f->is_woken = true;
    pthread_cond_signal(&f->has_work);
    pthread_mutex_unlock(&f->lock);
}

void prefix_fetch_add(struct prefix_fetch *f, enum store_count what, uint64_t n)
{
    atomic_fetch_add_explicit(&f->counts[what], n, memory_order_relaxed);
}

void prefix_fetch_set(struct prefix_fetch *f, enum store_count what, uint64_t value)
{
    atomic_store_explicit(&f->counts[what], value, memory_order_relaxed);
}

uint64_t prefix_fetch_count(const struct prefix_fetch *f, enum store_count what)
{
    return atomic_load_explicit(&f->counts[what], memory_order_relaxed);
}

uint32_t prefix_fetch_n_prompts(struct prefix_fetch *f)
{
    uint32_t n;

    pthread_mutex_lock(&f->lock);
    n = f->n_prompts;
    pthread_mutex_unlock(&f->lock);
    return n;
}
