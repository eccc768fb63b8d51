/* tests/tools/fake_engine.c - the server without a model: `fake_engine [port [step_ms [slots]]]`.
 *
 * For work on server/: a thread plays the engine. Each step every running request gets a token
 * that repeats its prompt, byte token by byte token; a byte of 4 in the prompt (ctrl-D) is
 * answered by EOS. Blocks are counted as if each held 16 tokens. A step is said to cost step_ms,
 * nothing is cached, and no two requests share anything.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "scheduler/queue.h"
#include "server/server.h"
#include "tests/unit/server/byte_tokenizer.inc"

#define MAX_LIVE 2048
#define TOTAL_BLOCKS 4096
#define BLOCK 16
#define MAX_TENANTS 8

struct live {
    struct request *r;
    uint32_t n_done; /* tokens generated */
    uint64_t started_us, first_us;
    bool cancelled;
};

struct fake {
    struct queue *queue;
    uint32_t step_ms, slots;
    struct live live[MAX_LIVE];
    uint32_t n;
    struct engine_stats stats;
};

static void end(struct fake *f, uint32_t i, enum finish finish)
{
    struct live *l = &f->live[i];
    const uint64_t now = clock_us();
    struct event e = {.request = l->r->id, .kind = EVENT_END, .finish = finish};

    e.times.queue_us = (l->started_us > 0 ? l->started_us : now) - l->r->arrival_us;
    if (l->started_us > 0)
        e.times.prefill_us = (l->first_us > 0 ? l->first_us : now) - l->started_us;
    if (l->first_us > 0)
        e.times.decode_us = now - l->first_us;
    queue_wait_room(f->queue, 1);
    queue_emit(f->queue, &e);
    request_destroy(&l->r);
    f->n--;
    memmove(l, l + 1, (f->n - i) * sizeof(*l));
}

static void fill_top(struct event *e, const struct sampling *s)
{
    e->logprob = -0.25f;
    for (int32_t k = 0; k < s->n_top; k++)
        e->top[e->n_top++] = (struct top_logprob){(e->token + k) % (BYTE_WORDS + BYTE_N_WORDS),
                                                  -0.25f - 1.5f * (float)k};
}

static void score(struct fake *f, const struct request *r)
{
    for (uint32_t pos = 1; r->score_prompt && pos < r->n_prompt; pos++) {
        struct event e = {.request = r->id, .kind = EVENT_SCORE, .token = r->ids[pos], .pos = pos};

        fill_top(&e, &r->sampling);
        queue_publish(f->queue, &f->stats);
        queue_wait_room(f->queue, 1);
        queue_emit(f->queue, &e);
    }
}

/* One token for a running request; true when it ended. */
static bool step_one(struct fake *f, uint32_t i)
{
    struct live *l = &f->live[i];
    const struct request *r = l->r;
    struct event e = {.request = r->id, .kind = EVENT_TOKEN, .pos = l->n_done};

    if (l->started_us == 0) {
        l->started_us = clock_us();
        f->stats.prompt_tokens += r->n_prompt;
        score(f, r);
    }
    if (l->n_done < r->max_tokens) {
        e.token = r->ids[r->n_prompt > 1 ? 1 + l->n_done % (r->n_prompt - 1) : 0];
        if (e.token == BYTE_0 + 4 && !r->ignore_eos && l->n_done >= r->min_tokens)
            e.token = BYTE_EOS;
        e.is_eog = e.token == BYTE_EOS;
        if (r->sampling.n_top >= 0)
            fill_top(&e, &r->sampling);
        queue_wait_room(f->queue, 1);
        queue_emit(f->queue, &e);
        f->stats.generation_tokens++;
        l->n_done++;
        if (l->first_us == 0)
            l->first_us = clock_us();
    }
    if (!e.is_eog && l->n_done < r->max_tokens)
        return false;
    end(f, i, e.is_eog ? FINISH_STOP : FINISH_LENGTH);
    return true;
}

static void count(struct fake *f)
{
    struct engine_stats *s = &f->stats;

    s->n_running = f->n < f->slots ? f->n : f->slots;
    memset(s->n_waiting, 0, sizeof(s->n_waiting));
    memset(s->waiting_tokens, 0, sizeof(s->waiting_tokens));
    s->blocks_held = 0;
    s->running_left = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct request *r = f->live[i].r;

        if (i >= f->slots) {
            s->n_waiting[r->priority]++;
            s->waiting_tokens[r->priority] += r->n_prompt;
            continue;
        }
        s->blocks_held += (r->n_prompt + f->live[i].n_done + BLOCK - 1) / BLOCK;
        s->running_left += r->max_tokens - f->live[i].n_done;
    }
    s->streams.n_decode = s->n_running;
    s->costs = (struct step_costs){.is_known = true, .step_ns = f->step_ms * (uint64_t)1000000};
    s->block_bytes = 1024;
    s->blocks_total = TOTAL_BLOCKS;
    s->blocks_free = TOTAL_BLOCKS - s->blocks_held;
    s->busy = f->n > 0;
    s->last_step_us = clock_us();
    s->iterations++;
}

static bool is_cancelled(const struct queue_inbox *inbox, uint64_t id)
{
    for (uint32_t i = 0; i < inbox->n_cancelled; i++)
        if (inbox->cancelled[i] == id)
            return true;
    return inbox->cancel_all;
}

static bool is_over_due(const struct request *r)
{
    return r->queue_until_us > 0 && r->queue_until_us < clock_us();
}

static uint32_t n_waiting(const struct fake *f)
{
    return f->n > f->slots ? f->n - f->slots : 0;
}

static void answer_dry_run(struct fake *f, struct request *r)
{
    const struct event e = {.request = r->id,
                            .kind = EVENT_END,
                            .finish = FINISH_DRY_RUN,
                            .probe = {.n_ahead = n_waiting(f),
                                      .n_blocks = (r->n_prompt + r->max_tokens + BLOCK - 1) /
                                                  BLOCK}};

    queue_wait_room(f->queue, 1);
    queue_emit(f->queue, &e);
    request_destroy(&r);
}

static void take_inbox(struct fake *f, const struct queue_inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->n_posted; i++) {
        if (inbox->posted[i]->is_dry_run)
            answer_dry_run(f, inbox->posted[i]);
        else
            f->live[f->n++] = (struct live){.r = inbox->posted[i]};
    }
    for (uint32_t i = 0; i < f->n;) {
        if (is_cancelled(inbox, f->live[i].r->id))
            end(f, i, FINISH_CANCELLED);
        else if (f->live[i].r->deadline_us < clock_us())
            end(f, i, FINISH_TIMEOUT);
        else if (f->live[i].started_us == 0 && is_over_due(f->live[i].r))
            end(f, i, FINISH_QUEUE_TIMEOUT);
        else
            i++;
    }
}

static void fill_snapshot(const struct fake *f, struct snapshot *s)
{
    s->now_us = clock_us();
    s->n_seqs = 0;
    for (uint32_t i = 0; i < f->n && s->n_seqs < s->max_seqs; i++) {
        const struct live *l = &f->live[i];

        s->seqs[s->n_seqs++] = (struct seq_info){
            .id = l->r->id,
            .state = l->started_us > 0 ? SNAPSHOT_RUNNING : SNAPSHOT_WAITING,
            .priority = l->r->priority,
            .tenant = l->r->tenant,
            .n_prompt = l->r->n_prompt,
            .max_tokens = l->r->max_tokens,
            .n_known = l->r->n_prompt + l->n_done,
            .swap = -1,
            .age_us = s->now_us - l->r->arrival_us,
        };
    }
    memset(s->map, 'f', s->n_blocks);
    memset(s->map, 'h', f->stats.blocks_held);
    s->costs = f->stats.costs;
    s->kv.pool = (struct block_pool_stats){.n_blocks = TOTAL_BLOCKS,
                                           .n_free = f->stats.blocks_free,
                                           .n_held = f->stats.blocks_held};
}

static void give_snapshot(const struct fake *f)
{
    struct snapshot *s = queue_begin_snapshot(f->queue);

    if (s == NULL)
        return;
    fill_snapshot(f, s);
    queue_end_snapshot(f->queue);
}

static void *run(void *ud)
{
    struct fake *f = ud;
    const struct timespec nap = {.tv_sec = f->step_ms / 1000,
                                 .tv_nsec = (long)(f->step_ms % 1000) * 1000000};
    struct queue_inbox inbox;

    for (;;) {
        queue_drain(f->queue, &inbox);
        take_inbox(f, &inbox);
        if (inbox.closed && f->n == 0)
            break;
        for (uint32_t i = 0, left = f->slots; i < f->n && left > 0; left--)
            i += step_one(f, i) ? 0 : 1;
        count(f);
        give_snapshot(f);
        queue_publish(f->queue, &f->stats);
        if (f->n > 0)
            nanosleep(&nap, NULL);
        else
            queue_wait_inbox(f->queue, 0);
    }
    count(f);
    queue_publish(f->queue, &f->stats);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct fake fake;
    struct tokenizer *t = NULL;
    struct server *server = NULL;
    pthread_t thread;
    char err[256];

    if (tokenizer_create(&t, NULL, err, sizeof(err)) < 0)
        return 1;
    fake.step_ms = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 5;
    fake.slots = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 256;
    const struct server_model model = {
        .id = "fake",
        .share = 1,
        .max_sequences = fake.slots,
        .max_batch_tokens = 1024,
        .max_outstanding = fake.slots + 64,
        .request_timeout_s = 60,
        .arch = "none",
        .ftype = "none",
        .created = 1,
        .n_vocab = 266,
        .n_ctx_train = 4096,
        .n_embd = 1,
        .max_context = 4096,
        .max_kv_tokens = TOTAL_BLOCKS * BLOCK,
        .n_blocks = TOTAL_BLOCKS,
        .block_tokens = BLOCK,
        .prefill_chunk = 512,
        .tokenizer = t,
        .kv_type = "none",
        .isa = "none",
    };
    const struct server_options options = {
        .metrics_names = "quire",
        .host = "127.0.0.1",
        .port = argc > 1 ? (uint16_t)strtoul(argv[1], NULL, 10) : 0,
        .max_body = (size_t)1 << 20,
        .request_memory = (uint64_t)256 << 20,
        .max_tenants = MAX_TENANTS,
        .tenant_header = "X-Tenant",
        .models = &model,
        .n_models = 1,
        .n_text_threads = 1,
        .n_constraint_threads = 1,
    };
    if (server_create(&server, &options, err, sizeof(err)) < 0)
        return fprintf(stderr, "%s\n", err), 1;
    const struct queue_options queue = {.max_outstanding =
                                            model.max_outstanding + SERVER_DRY_RUNS,
                                        .max_tenants = MAX_TENANTS,
                                        .n_blocks = TOTAL_BLOCKS,
                                        .max_events = 4096,
                                        .wake = server_wake,
                                        .wake_ud = server};
    if (queue_create(&fake.queue, &queue) < 0)
        return 1;
    server_attach(server, 0, fake.queue);
    count(&fake);
    fake.stats.busy = false;
    queue_publish(fake.queue, &fake.stats);
    pthread_create(&thread, NULL, run, &fake);
    printf("listening on http://127.0.0.1:%u\n", server_port(server));
    fflush(stdout);
    server_run(server);
    pthread_join(thread, NULL);
    server_destroy(&server);
    queue_destroy(&fake.queue);
    tokenizer_destroy(&t);
    return 0;
}
