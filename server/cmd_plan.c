/* server/cmd_plan.c - `quire plan`: the memory that a server with these settings would take.
 *
 * Everything is made as for serving, but that no weight is read: rooms are reserved, which costs
 * nothing until they are filled, and their sizes are what is printed.
 */
#include "server/command.h"

#include "config/config.h"
#include "core/base/log.h"
#include "core/model/model.h"
#include "core/run/runner.h"
#include "kvcache/kv_store.h"
#include "server/engine.h"
#include "server/process.h"

#include <inttypes.h>
#include <stdio.h>

#define HUGE_PAGE ((uint64_t)2 << 20) /* what large rooms are made of, where the system has it */
#define SERVER_BYTES ((uint64_t)4 << 20) /* sockets, queues, stacks: measured, not made here */

struct memory_plan {
    uint64_t swap;                                  /* bytes, when sequences are swapped out */
    uint64_t weights, tables, cache, rows, process; /* bytes */
    uint64_t token;    /* bytes of a token in the cache, in all layers */
    uint32_t n_tokens; /* that the cache holds */
    uint64_t sequence; /* bytes of the longest one; layers with a window drop what is past */
};

static void print_help(void)
{
    fputs("quire plan [--json] [settings]   the memory that a server would take, without loading\n"
          "\n"
          "All settings of 'quire serve' are taken; model, context, kv_memory, kv_type and\n"
          "max_batch_tokens matter. A cache that is not full, or steps that are smaller than they\n"
          "may be, take less.\n",
          stdout);
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static struct memory_plan plan_of(const struct engine *e, uint64_t swap_ram)
{
    const size_t block = e->kv->block_stride; /* its bytes and the room beside them */
    const uint32_t n_lanes = kv_lanes_n(&e->cache.lanes), n_ctx = e->sched.max_context;
    struct process_facts now;

    process_read(&now);
    return (struct memory_plan){
        .weights = whole_pages(e->model->weight_bytes),
        .tables = whole_pages(e->model->table_bytes),
        .cache = (uint64_t)e->kv->n_blocks * block,
        .rows = runner_scratch_bytes(e->runner),
        .process = now.resident_bytes + SERVER_BYTES,
        .swap = swap_ram,
        .token = n_lanes * block / BLOCK_TOKENS,
        .n_tokens = e->kv->n_blocks / n_lanes * BLOCK_TOKENS,
        .sequence = kv_lanes_peak(&e->cache.lanes, n_ctx, 1) * block,
    };
}

static uint64_t in_all(const struct memory_plan *p)
{
    return p->weights + p->tables + p->cache + p->rows + p->process;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void print_table(const struct engine *e, const struct memory_plan *p)
{
    const struct model *m = e->model;

    printf("%s (%s, %s, %.1f M parameters), context %u\n\n", e->id, m->arch, m->ftype,
           (double)m->n_params / 1e6, e->sched.max_context);
    printf("weights      %10.1f MiB   packed; %.1f MiB in the file\n", mib(p->weights),
           mib(m->file_bytes));
    printf("rope tables  %10.1f MiB   for the context\n", mib(p->tables));
    printf("KV cache     %10.1f MiB   %u tokens of %" PRIu64 " bytes (%s)\n", mib(p->cache),
           p->n_tokens, p->token, kern_kv_name(e->kv_type));
    printf("activations  %10.1f MiB   for steps of %u rows\n", mib(p->rows),
           e->sched.max_batch_tokens);
    printf("process      %10.1f MiB   program, tokenizer, connections\n", mib(p->process));
    printf("in all       %10.1f MiB   when the cache and a step are full\n", mib(in_all(p)));
    printf("              + %8.1f MiB   while preempted sequences are kept (swap_ram)\n\n",
           mib(p->swap));
    printf("A sequence of %u tokens takes %.1f MiB of the cache, which holds %.1f of them.\n",
           e->sched.max_context, mib(p->sequence), (double)p->cache / (double)p->sequence);
}

static void print_json(const struct engine *e, const struct memory_plan *p)
{
    printf("{\"context\":%u,\"weight_bytes\":%" PRIu64 ",\"table_bytes\":%" PRIu64
           ",\"cache_bytes\":%" PRIu64 ",\"cache_tokens\":%u,\"token_bytes\":%" PRIu64
           ",\"activation_bytes\":%" PRIu64 ",\"process_bytes\":%" PRIu64
           ",\"swap_bytes\":%" PRIu64 ",\"total_bytes\":%" PRIu64
           ",\"sequence_bytes\":%" PRIu64 "}\n",
           e->sched.max_context, p->weights, p->tables, p->cache, p->n_tokens, p->token, p->rows,
           p->process, p->swap, in_all(p), p->sequence);
}

int cmd_plan(int argc, char **argv)
{
    const bool json = command_take_switch(&argc, argv, "--json");
    struct memory_plan p;
    struct config config;
    uint64_t swap_ram;
    struct engine engine;
    char err[1024];
    bool done;
    int code = command_config(&config, argc, argv, print_help, &done);

    if (done)
        return code;
    code = engine_init(&engine, &config, ENGINE_PLAN | ENGINE_ENCODERS, err, sizeof(err));
    swap_ram = config.swap_ram;
    config_release(&config);
    if (code != EXIT_OK)
        return command_fail(code, "%s", err);
    p = plan_of(&engine, swap_ram);
    if (json)
        print_json(&engine, &p);
    else
        print_table(&engine, &p);
    engine_release(&engine);
    return EXIT_OK;
}
