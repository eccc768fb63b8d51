/* server/cli/plan.c - `quire plan`: estimates the memory of a server with these settings.
 *
 * All models are made and kept at the same time (memory_estimate.h), as in a server, so that their
 * share in the memory of the process (measured, not computed) is counted too.
 */
#include "server/cli/command.h"
#include "server/cli/plan.h"

#include "config/config.h"
#include "config/models.h"
#include "core/base/buf.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "core/model/model.h"
#include "server/cli/memory_estimate.h"
#include "server/http/http.h"
#include "server/http/limits.h"
#include "server/models/instance.h"
#include "server/kv_events/kv_event_publisher.h"
#include "server/metrics/process_stats.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_NAME_TEXT 1024 /* bytes of a model's name as a JSON string */

struct planned {
    struct instance engine;
    struct memory_estimate plan;
};

static void print_plan_help(void)
{
    fputs("quire plan [--json] [settings]   compute the memory that a server would need\n"
          "\n"
          "The models are not loaded. All settings of 'quire serve' are accepted; model, context,\n"
          "kv_memory, kv_type and max_batch_tokens matter most. The figures are upper bounds: a\n"
          "server needs less while its cache is not full or its steps are small. With several\n"
          "models there is a table for each, and then one for all.\n",
          stdout);
}

static uint64_t resident_bytes(void)
{
    struct process_stats now;

    process_read(&now);
    return now.resident_bytes;
}

/* Add up the models, and the process once, with all of them. */
static struct memory_estimate memory_sum(const struct planned *all, uint32_t n, uint64_t process)
{
    struct memory_estimate sum = {.process = process};

    for (uint32_t i = 0; i < n; i++) {
        sum.weights += all[i].plan.weights;
        sum.tables += all[i].plan.tables;
        sum.cache += all[i].plan.cache + all[i].plan.states;
        sum.rows += all[i].plan.rows;
        sum.events += all[i].plan.events;
        sum.store += all[i].plan.store;
        sum.history += all[i].plan.history;
        sum.draft += all[i].plan.draft;
        sum.swap += all[i].plan.swap;
        sum.adapters += all[i].plan.adapters;
    }
    return sum;
}

/* ---- for people ---- */

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* The memory of a server in addition to its models. */
struct beside {
    uint64_t requests, connections; /* bytes, at most */
    uint32_t n_connections;
};

static struct beside beside_of(const struct config *c)
{
    const uint32_t n = limits_wanted((uint32_t)c->max_connections,
                                     (uint32_t)(c->queue_limit + c->max_sequences));

    return (struct beside){.requests = c->request_memory,
                           .connections = (uint64_t)n * HTTP_CONNECTION_BYTES,
                           .n_connections = n};
}

static void print_end(const struct memory_estimate *p, const struct beside *beside)
{
    if (p->events > 0)
        printf("KV events    %10.1f MiB   queued events and the published state of the cache\n",
               mib(p->events));
    if (p->store > 0)
        printf("block store  %10.1f MiB   buffers for reading and writing (kv_store)\n",
               mib(p->store));
    if (p->history > 0)
        printf("history      %10.1f MiB   earlier answers, as a source of drafts "
               "(speculation_history)\n",
               mib(p->history));
    if (p->draft > 0)
        printf("draft model  %10.1f MiB   its weights, KV cache and activations (draft)\n",
               mib(p->draft));
    printf("process      %10.1f MiB   program and tokenizer\n", mib(p->process));
    printf("in all       %10.1f MiB   with a full cache and full steps\n",
           mib(memory_estimate_sum(p)));
    printf("              + %8.1f MiB   for preempted sequences (swap_ram)\n", mib(p->swap));
    if (p->adapters > 0)
        printf("              + %8.1f MiB   at most, for LoRA adapters (adapter_memory)\n",
               mib(p->adapters));
    if (p->events > 0)
        printf("              + %8.1f MiB   at most, for KV events that are kept for replay\n",
               mib(KV_EVENT_KEPT_BYTES));
    printf("              + %8.1f MiB   at most, for requests outside the cache (request_memory)\n",
           mib(beside->requests));
    printf("              + %8.1f MiB   at most, for clients' connections (max_connections: "
           "%u)\n\n",
           mib(beside->connections), beside->n_connections);
}

/* Return how many sequences of the longest context fit into the cache. */
static double n_longest(const struct instance *e, const struct memory_estimate *p)
{
    const uint64_t keys = p->sequence - p->state;
    const double by_keys = keys > 0 ? (double)p->cache / (double)keys : e->sched.max_sequences;

    return p->states > 0 && by_keys > e->sched.max_sequences ? e->sched.max_sequences : by_keys;
}

static void print_table(const struct instance *e, const struct memory_estimate *p,
                        const struct beside *beside)
{
    const struct model *m = e->model;

    printf("%s (%s, %s, %.1f M parameters), context %u\n\n", e->id, m->arch, m->ftype,
           (double)m->n_params / 1e6, e->sched.max_context);
    printf("weights      %10.1f MiB   packed; %.1f MiB in the file\n", mib(p->weights),
           mib(m->file_bytes));
    printf("rope tables  %10.1f MiB   for the context\n", mib(p->tables));
    printf("KV cache     %10.1f MiB   %u tokens of %" PRIu64 " bytes (%s)\n", mib(p->cache),
           p->n_tokens, p->token, kern_kv_name(e->kv_type));
    if (p->pinned > 0)
        printf("pinned       %10.1f MiB   of the KV cache at most, %.1f MiB for each tenant "
               "(prefix_pin_memory)\n",
               mib(p->pinned), mib(p->tenant_pinned));
    if (p->states > 0)
        printf("states       %10.1f MiB   %u of recurrent layers, %.1f MiB each: at most %u for "
               "requests, the others snapshots\n",
               mib(p->states), e->cache.states.n_slots, mib(p->state), e->sched.max_sequences);
    printf("activations  %10.1f MiB   for steps of %u rows\n", mib(p->rows),
           e->sched.max_batch_tokens);
    print_end(p, beside);
    printf("A sequence of %u tokens takes %.1f MiB of the cache, which holds %.1f of them.\n",
           e->sched.max_context, mib(p->sequence), n_longest(e, p));
}

static void print_sum(const struct memory_estimate *sum, uint32_t n, const struct beside *beside)
{
    printf("All %u models in one process: %.1f MiB (weights %.1f, rope tables %.1f, "
           "KV caches %.1f, activations %.1f, draft models %.1f, KV events, block stores and "
           "history %.1f, process %.1f),\n"
           "%.1f MiB more for preempted sequences, and at most %.1f MiB for requests and "
           "connections of clients.\n",
           n, mib(memory_estimate_sum(sum)), mib(sum->weights), mib(sum->tables), mib(sum->cache),
           mib(sum->rows), mib(sum->draft), mib(sum->events + sum->store + sum->history),
           mib(sum->process), mib(sum->swap), mib(beside->requests + beside->connections));
}

static void print_tables(const struct planned *all, uint32_t n, const struct memory_estimate *sum,
                         const struct beside *beside)
{
    for (uint32_t i = 0; i < n; i++) {
        print_table(&all[i].engine, &all[i].plan, beside);
        if (n > 1)
            putchar('\n');
    }
    if (n > 1)
        print_sum(sum, n, beside);
}

/* Return the sum that memory_limit counts: with swap and adapters, and the process once. */
static uint64_t limited_sum(const struct memory_estimate *p)
{
    return memory_estimate_sum(p) + p->swap + p->adapters;
}

static void print_limit(const struct planned *all, uint32_t n, const struct memory_estimate *sum,
                        uint64_t limit)
{
    if (limit == 0)
        return;
    printf("\nmemory_limit %10.1f MiB   with swap and adapters %s\n", mib(limit),
           limited_sum(sum) <= limit
               ? "all models fit at the same time"
               : "not all fit: the least recently used model is unloaded for another");
    for (uint32_t i = 0; i < n; i++)
        if (limited_sum(&all[i].plan) > limit)
            printf("%s takes %.1f MiB and will be refused\n", all[i].engine.id,
                   mib(limited_sum(&all[i].plan)));
}

/* ---- for programs ---- */

static void print_name(const char *name)
{
    struct buf b;

    buf_init(&b, MAX_NAME_TEXT);
    json_add_cstring(&b, name);
    printf(",\"model\":%s", b.err == 0 ? b.data : "\"\"");
    buf_release(&b);
}

/* Print the members, without the closing brace. */
static void print_members(const struct instance *e, const struct memory_estimate *p,
                          const struct beside *beside)
{
    printf("{\"context\":%u,\"weight_bytes\":%" PRIu64 ",\"table_bytes\":%" PRIu64
           ",\"cache_bytes\":%" PRIu64 ",\"cache_tokens\":%u,\"token_bytes\":%" PRIu64
           ",\"activation_bytes\":%" PRIu64 ",\"process_bytes\":%" PRIu64
           ",\"swap_bytes\":%" PRIu64 ",\"adapter_bytes\":%" PRIu64 ",\"request_bytes\":%" PRIu64
           ",\"connection_bytes\":%" PRIu64
           ",\"total_bytes\":%" PRIu64 ",\"sequence_bytes\":%" PRIu64
           ",\"states_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64
           ",\"event_bytes\":%" PRIu64 ",\"store_bytes\":%" PRIu64 ",\"history_bytes\":%" PRIu64
           ",\"draft_bytes\":%" PRIu64 ",\"pin_bytes\":%" PRIu64,
           e->sched.max_context, p->weights, p->tables, p->cache, p->n_tokens, p->token, p->rows,
           p->process, p->swap, p->adapters, beside->requests, beside->connections,
           memory_estimate_sum(p), p->sequence,
           p->states, p->state, p->events, p->store, p->history, p->draft, p->pinned);
}

static void print_json(const struct planned *all, uint32_t n, const struct memory_estimate *sum,
                       const struct beside *beside)
{
    if (n > 1)
        printf("{\"models\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            putchar(',');
        print_members(&all[i].engine, &all[i].plan, beside);
        if (n > 1)
            print_name(all[i].engine.id);
        putchar('}');
    }
    if (n > 1)
        printf("],\"process_bytes\":%" PRIu64 ",\"total_bytes\":%" PRIu64 "}", sum->process,
               memory_estimate_sum(sum));
    putchar('\n');
}

/* ---- the command ---- */

/* Make the instance of model i with its own settings. Returns an exit_code; on EXIT_OK the engine
 * must be released. */
static int make_engine(struct planned *p, const struct config *c, uint32_t i, char *err,
                       size_t err_len)
{
    const struct instance_company alone = {0};
    struct config own;
    int code;

    if (config_model(&own, c, i, err, err_len) < 0)
        return EXIT_FAILED;
    code = memory_estimate_make(&p->plan, &p->engine, &own, &alone, err, err_len);
    config_release(&own);
    return code;
}

/* Make all models and keep them; *made of them exist at the end. The process memory of a model is
 * that of the program alone, and the growth when the model was made. */
static int make_plans(struct planned *all, uint32_t n, uint32_t *made, const struct config *c,
                      char *err, size_t err_len)
{
    const uint64_t program = resident_bytes();
    uint64_t before = program;

    for (*made = 0; *made < n; (*made)++) {
        struct planned *p = &all[*made];
        const int code = make_engine(p, c, *made, err, err_len);
        uint64_t now;

        if (code != EXIT_OK)
            return code;
        now = resident_bytes();
        p->plan.process = program + now - before + MEMORY_ESTIMATE_SERVER;
        before = now;
    }
    return EXIT_OK;
}

static void report(const struct config *c, uint32_t i, int code, const char *err)
{
    struct model_item item;

    models_get(c->model, i, &item);
    if (config_n_models(c) > 1)
        command_fail(code, "the model '%s': %s", item.name, err);
    else
        command_fail(code, "%s", err);
}

/* All models of the settings, as far as they could be planned. */
struct plans {
    struct planned *all;         /* [made] */
    uint32_t made;               /* number of planned models; after an error the index of the model
                                  * that failed */
    struct memory_estimate sum;
};

static int open_plans(struct plans *p, const struct config *c, char *err, size_t err_len)
{
    const uint32_t n = config_n_models(c);
    int code;

    *p = (struct plans){.all = mem_calloc(n, sizeof(*p->all))};
    snprintf(err, err_len, "no memory for the plan");
    if (p->all == NULL)
        return EXIT_FAILED;
    code = make_plans(p->all, n, &p->made, c, err, err_len);
    p->sum = memory_sum(p->all, p->made, resident_bytes() + MEMORY_ESTIMATE_SERVER);
    return code;
}

static void close_plans(struct plans *p)
{
    for (uint32_t i = p->made; i > 0; i--)
        instance_release(&p->all[i - 1].engine);
    mem_free(p->all);
}

static int plan(const struct config *c, bool json)
{
    struct plans p;
    char err[1024];
    const int code = open_plans(&p, c, err, sizeof(err));
    const struct beside beside = beside_of(c);

    if (code != EXIT_OK) {
        report(c, p.made, code, err);
    } else if (json) {
        print_json(p.all, p.made, &p.sum, &beside);
    } else {
        print_tables(p.all, p.made, &p.sum, &beside);
        print_limit(p.all, p.made, &p.sum, c->memory_limit);
    }
    close_plans(&p);
    return code;
}

int plan_total(const struct config *c, struct plan_total *out, char *err, size_t err_len)
{
    struct plans p;
    const int code = open_plans(&p, c, err, err_len);
    const struct beside beside = beside_of(c);

    *out = (struct plan_total){memory_estimate_sum(&p.sum),
                               p.sum.swap + p.sum.adapters + beside.requests + beside.connections,
                               p.made};
    close_plans(&p);
    return code;
}

int cmd_plan(int argc, char **argv)
{
    const bool json = command_take_switch(&argc, argv, "--json");
    struct config config;
    bool done;
    int code = command_config(&config, argc, argv, print_plan_help, &done);

    if (done)
        return code;
    code = plan(&config, json);
    config_release(&config);
    return code;
}
