/* server/cli/bench_streams.c - see bench_impl.h: streams, and steps of them.
 *
 * Keys and values of earlier tokens are not computed but filled in with small numbers, because no
 * time depends on their values; the memory is written, so that all its pages exist.
 */
#include "server/cli/bench_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "kvcache/kv_store.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int bench_begin_stream(struct bench *b, struct bench_stream *s)
{
    const uint32_t cap = block_table_needed(b->e.sched.max_context);
    const uint32_t n_groups = kv_manager_n_groups(b->e.manager);
    block_id *blocks = mem_calloc(n_groups, cap * sizeof(*blocks));

    s->n = 0;
    kv_seq_init(&s->kv, blocks, blocks != NULL ? cap : 0, n_groups);
    return blocks != NULL ? 0 : ERR_NOMEM;
}

void bench_end_stream(struct bench *b, struct bench_stream *s)
{
    block_id *blocks = s->kv.table.blocks;

    kv_manager_release(b->e.manager, &s->kv);
    mem_free(blocks);
    memset(s, 0, sizeof(*s));
}

/* Give the stream `depth` tokens: the first `shared` of them, in whole blocks, are those of the
 * first stream; the other blocks are filled with small numbers (0x2c2c is 0.065 as f16). */
static int fill_stream(struct bench *b, struct bench_stream *s, uint32_t depth, uint32_t shared)
{
    const size_t bytes = kv_store_block_bytes(&b->e.kv->shape);
    const uint32_t most = shared < depth ? shared : depth;
    const uint32_t forked = s != b->streams ? most / BLOCK_TOKENS * BLOCK_TOKENS : 0;
    int rc;

    if (forked > 0)
        kv_manager_fork(b->e.manager, &s->kv, &b->streams[0].kv, forked);
    rc = kv_manager_alloc(b->e.manager, &s->kv, forked, depth);
    for (uint32_t group = 0; rc == 0 && group < s->kv.table.n_groups; group++)
        for (uint32_t i = forked / BLOCK_TOKENS; i < s->kv.table.n; i++)
            memset(kv_store_block(b->e.kv, *block_table_at(&s->kv.table, group, i)), 0x2c, bytes);
    s->n = depth;
    return rc;
}

int bench_add_span(struct bench *b, struct bench_stream *s, uint32_t n, uint32_t n_outputs)
{
    static const struct sampling greedy = {.n_top = -1, .top_p = 1, .repetition_penalty = 1};
    int32_t *ids = mem_calloc(n, sizeof(*ids));
    int rc = ids != NULL ? 0 : ERR_NOMEM;
    uint32_t row;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        ids[i] = (int32_t)((s->n + i) * 7919u % b->e.model->shape.n_vocab);
    if (rc == 0) {
        kv_manager_free_out_of_window(b->e.manager, &s->kv, s->n);
        rc = kv_manager_alloc(b->e.manager, &s->kv, s->n, s->n + n);
    }
    if (rc == 0) {
        row = batch_add_span(b->batch, ids, n, s->n, s->kv.table.blocks, s->kv.table.cap);
        b->batch->spans[b->batch->n_spans - 1].state = s->kv.state;
        s->n += n;
        for (uint32_t i = n - n_outputs; i < n; i++)
            batch_add_output(b->batch, row + i)->sampling = &greedy;
    }
    mem_free(ids);
    return rc;
}

double bench_step(struct bench *b)
{
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    runner_step(b->e.runner, b->batch);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

int bench_begin_streams(struct bench *b, uint32_t n, uint32_t depth, uint32_t shared)
{
    int rc = 0;

    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = bench_begin_stream(b, &b->streams[i]);
        if (rc == 0)
            rc = fill_stream(b, &b->streams[i], depth, shared);
    }
    return rc;
}

void bench_end_streams(struct bench *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        bench_end_stream(b, &b->streams[i]);
}

bool bench_fits(const struct bench *b, const char *test, uint64_t n_streams, uint64_t n_tokens,
                uint32_t shared)
{
    const uint32_t most = n_tokens < UINT32_MAX ? (uint32_t)n_tokens : UINT32_MAX;
    const uint64_t forked = kv_manager_n_forked(b->e.manager, shared < most ? shared : most);
    const uint64_t blocks =
        n_streams * kv_groups_peak(&b->e.cache.groups, most, 0) - (n_streams - 1) * forked;

    if (n_tokens > b->e.sched.max_context)
        fprintf(stderr, "quire: %s is skipped: its %llu tokens are more than the context of %u\n",
                test, (unsigned long long)n_tokens, b->e.sched.max_context);
    else if (blocks > b->e.kv->n_blocks)
        fprintf(
            stderr, "quire: %s is skipped: it needs --kv-memory %llum\n", test,
            (unsigned long long)(((blocks + 1) * kv_store_block_bytes(&b->e.kv->shape) >> 20) + 1));
    else
        return true;
    return false;
}
