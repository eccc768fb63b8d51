/* tests/tools/logits.c - the raw logits of all tokens of a text, to compare with the reference.
 *
 * Each model that is named runs over the same ids, alone, in chunks of a given size. What it yields
 * goes to standard output as one record: int32 rows, int32 columns, rows * columns floats. A model
 * that is refused yields -1, the length of the sentence, and the sentence. With --hidden the rows
 * are the normed hidden ones that embeddings are made of; the text is then one chunk. With
 * --adapter all of it is computed with a LoRA adapter, at a scale in thousandths. With --beside
 * each batch has a second sequence, before this one: the same ids, the last one first. With
 * --guesses N the rows are, behind each chunk but the last, those of the first N guesses of what
 * follows the token behind it. With --parts the weights are in as many parts as if there were so
 * many memory nodes.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/model/adapter.h"
#include "core/model/model.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner_impl.h"
#include "kvcache/kv_manager.h"
#include "kvcache/state_store.h"
#include "server/adapters/adapter_file.h"
#include "server/models/instance.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SETTINGS 64
#define MAX_IDS 65536

struct text {
    const char *adapter_path; /* NULL: none */
    int64_t adapter_permille;
    struct adapter *adapter;
    int32_t ids[MAX_IDS];
    uint32_t n;
    uint32_t chunk;
    int64_t n_guesses;
    bool hidden, has_beside;
    struct numa numa; /* of the weights' parts */
};

/* A sequence of those that run. */
struct lane {
    struct kv_seq kv;
    block_id *blocks;
    void *before; /* its recurrent state, as it was before the chunk */
    uint32_t slot;
    int32_t ids[MAX_IDS];
};

static void print_help(void)
{
    fputs("logits --ids 1,2,3 [--chunk N] [--hidden | --beside] [--guesses N] [--parts N] "
          "[--adapter PATH "
          "[--adapter-permille N]] [settings] -- MODEL...\n",
          stdout);
}

static void put_head(int32_t rows, int32_t columns)
{
    const int32_t head[2] = {rows, columns};

    fwrite(head, sizeof(head), 1, stdout);
}

static bool parse_ids(struct text *t, const char *list)
{
    char *end;

    for (t->n = 0; t->n < MAX_IDS; list = end + 1) {
        t->ids[t->n++] = (int32_t)strtol(list, &end, 10);
        if (end == list || *end != ',')
            return end != list && *end == '\0';
    }
    return false;
}

static void add_span(struct batch *b, const struct text *t, const struct lane *lane, uint32_t at,
                     uint32_t rows)
{
    batch_add_span(b, lane->ids + at, rows, at, lane->kv.table.blocks, lane->kv.table.cap);
    b->spans[b->n_spans - 1].adapter = t->adapter;
    b->spans[b->n_spans - 1].adapter_scale = (float)t->adapter_permille / 1000.0f;
    b->spans[b->n_spans - 1].state = lane->kv.state;
    b->spans[b->n_spans - 1].slot = lane->slot;
    b->spans[b->n_spans - 1].owner = lane->slot + 1;
    b->has_adapters = t->adapter != NULL;
}

/* One step over `rows` tokens from `at` on of all lanes, for the logits of n of the first lane's
 * from `first` on. */
static void step(struct instance *e, struct batch *b, const struct text *t, uint32_t at,
                 uint32_t rows, uint32_t first, uint32_t n, const struct lane *lanes)
{
    static const struct sampling sampling = {.n_top = 0};
    const uint32_t n_lanes = t->has_beside ? 2 : 1;

    batch_clear(b);
    for (uint32_t i = n_lanes; i > 0; i--)
        add_span(b, t, &lanes[i - 1], at, rows);
    first += (n_lanes - 1) * rows;
    for (uint32_t i = first; i < first + n; i++) {
        struct batch_output *o = batch_add_output(b, i);

        o->want = BATCH_SCORE;
        o->sampling = &sampling;
        o->pos = b->pos[i] + 1;
    }
    runner_step(e->runner, b);
    for (uint32_t i = 0; i < n; i++)
        fwrite(e->runner->logits + i * e->runner->vocab_stride, sizeof(float),
               e->model->shape.n_vocab, stdout);
}

static void copy_states(struct instance *e, const struct text *t, const struct lane *lanes,
                        bool is_back)
{
    const size_t bytes = runner_state_bytes(e->model);

    for (uint32_t i = 0; bytes > 0 && i < (t->has_beside ? 2 : 1); i++) {
        void *state = state_store_at(e->states, lanes[i].kv.state);

        memcpy(is_back ? state : lanes[i].before, is_back ? lanes[i].before : state, bytes);
    }
}

/* The runner keeps the logits of a few rows: a longer chunk is computed again for each few. At the
 * beginning of a text states are left as they are: the runner must clear them. */
static int put_logits(struct instance *e, struct batch *b, const struct text *t, struct lane *lanes)
{
    const uint32_t n_lanes = t->has_beside ? 2 : 1;
    int rc = 0;

    for (uint32_t at = 0; at < t->n; at += t->chunk) {
        const uint32_t rows = t->n - at < t->chunk ? t->n - at : t->chunk;

        for (uint32_t i = 0; i < n_lanes && rc == 0; i++)
            rc = kv_manager_alloc(e->manager, &lanes[i].kv, at, at + rows);
        if (rc < 0)
            return rc;
        copy_states(e, t, lanes, false);
        for (uint32_t i = 0; i < rows; i += LOGIT_ROWS) {
            if (at > 0)
                copy_states(e, t, lanes, true);
            step(e, b, t, at, rows, i, rows - i < LOGIT_ROWS ? rows - i : LOGIT_ROWS, lanes);
        }
        for (uint32_t i = 0; i < n_lanes; i++) /* as it is in the server */
            kv_manager_free_out_of_window(e->manager, &lanes[i].kv, at + rows);
    }
    return 0;
}

/* Of the first lane, each guess being the likeliest token. */
static void guess(struct instance *e, const struct text *t, uint32_t pos, const struct lane *lanes)
{
    static const struct sampling sampling = {0};
    static int32_t ids[2][MAX_IDS + RUNNER_MAX_GUESSES];
    const uint32_t n_lanes = t->has_beside ? 2 : 1;
    struct runner_guess guesses[2];

    for (uint32_t i = 0; i < n_lanes; i++) {
        const struct lane *lane = &lanes[n_lanes - 1 - i];

        memcpy(ids[i], lane->ids, (pos + 1) * sizeof(ids[i][0]));
        guesses[i] = (struct runner_guess){.slot = lane->slot,
                                           .owner = lane->slot + 1,
                                           .table = lane->kv.table.blocks,
                                           .group_stride = lane->kv.table.cap,
                                           .ids = ids[i],
                                           .pos = pos,
                                           .sampling = &sampling};
    }
    for (uint32_t n = 0; n < t->n_guesses; n++) {
        runner_guess(e->runner, guesses, n_lanes);
        fwrite(e->runner->logits + (n_lanes - 1) * e->runner->vocab_stride, sizeof(float),
               e->model->shape.n_vocab, stdout);
        for (uint32_t i = 0; i < n_lanes; i++)
            ids[i][pos + 1 + guesses[i].n_made++] = guesses[i].token;
    }
}

static int put_guesses(struct instance *e, struct batch *b, const struct text *t,
                       struct lane *lanes)
{
    const uint32_t n_lanes = t->has_beside ? 2 : 1;
    int rc = 0;

    for (uint32_t at = 0; at + t->chunk < t->n; at += t->chunk) {
        for (uint32_t i = 0; i < n_lanes && rc == 0; i++)
            rc = kv_manager_alloc(e->manager, &lanes[i].kv, at, at + t->chunk);
        if (rc < 0)
            return rc;
        step(e, b, t, at, t->chunk, 0, 0, lanes);
        for (uint32_t i = 0; i < n_lanes; i++)
            kv_manager_free_out_of_window(e->manager, &lanes[i].kv, at + t->chunk);
        guess(e, t, at + t->chunk, lanes);
    }
    return 0;
}

/* A pool over one row is that row. */
static int put_hidden(struct instance *e, struct batch *b, const struct text *t, struct lane *lane)
{
    const size_t n_embd = e->model->shape.n_embd;
    float *sums = mem_calloc(t->n, n_embd * sizeof(*sums));
    const int rc = sums != NULL ? kv_manager_alloc(e->manager, &lane->kv, 0, t->n) : ERR_NOMEM;

    if (rc == 0) {
        batch_clear(b);
        add_span(b, t, lane, 0, t->n);
        for (uint32_t i = 0; i < t->n; i++)
            batch_add_pool(b, i, 1, sums + i * n_embd);
        runner_step(e->runner, b);
        fwrite(sums, sizeof(float), t->n * n_embd, stdout);
    }
    mem_free(sums);
    return rc;
}

static int init_lane(struct instance *e, const struct text *t, struct lane *lane, uint32_t i)
{
    const uint32_t cap = block_table_needed(t->n), n_groups = kv_manager_n_groups(e->manager);
    const size_t bytes = runner_state_bytes(e->model);

    lane->slot = i;
    lane->blocks = mem_calloc(n_groups, cap * sizeof(*lane->blocks));
    lane->before = mem_calloc(1, bytes + 1);
    kv_seq_init(&lane->kv, lane->blocks, lane->blocks != NULL ? cap : 0, n_groups);
    for (uint32_t j = 0; j < t->n; j++)
        lane->ids[j] = t->ids[i == 0 ? j : t->n - 1 - j];
    return lane->blocks != NULL && lane->before != NULL ? 0 : ERR_NOMEM;
}

static void release_lane(struct instance *e, struct lane *lane)
{
    kv_manager_release(e->manager, &lane->kv);
    mem_free(lane->blocks);
    mem_free(lane->before);
}

static uint32_t n_rows_of(const struct text *t)
{
    return t->n_guesses > 0 ? (t->n - 1) / t->chunk * (uint32_t)t->n_guesses : t->n;
}

static int run(struct instance *e, const struct text *t)
{
    static struct lane lanes[2];
    const struct model_shape *s = &e->model->shape;
    const uint32_t chunk = t->hidden || t->n < t->chunk ? t->n : t->chunk;
    const uint32_t n_rows = t->has_beside ? 2 * chunk : chunk; /* of a step */
    struct batch *b = NULL;
    int rc = init_lane(e, t, &lanes[0], 0);

    if (init_lane(e, t, &lanes[1], 1) < 0)
        rc = ERR_NOMEM;
    if (rc == 0 && (t->n > e->sched.max_context || n_rows > e->sched.max_batch_tokens))
        rc = ERR_RANGE;
    if (rc == 0)
        rc = batch_create(&b, e->sched.max_batch_tokens, t->hidden ? t->n + 1 : 2, LOGIT_ROWS);
    if (rc == 0) {
        put_head((int32_t)n_rows_of(t), (int32_t)(t->hidden ? s->n_embd : s->n_vocab));
        if (t->hidden)
            rc = put_hidden(e, b, t, &lanes[0]);
        else if (t->n_guesses > 0)
            rc = put_guesses(e, b, t, lanes);
        else
            rc = put_logits(e, b, t, lanes);
    }
    release_lane(e, &lanes[0]);
    release_lane(e, &lanes[1]);
    batch_destroy(&b);
    return rc;
}

static int load_adapter(struct text *t, const struct model *m, char *err, size_t err_len)
{
    struct gguf *g;
    int rc;

    if (t->adapter_path == NULL)
        return 0;
    rc = adapter_file_open(&g, t->adapter_path, err, err_len);
    if (rc == 0)
        rc = adapter_load(&t->adapter, g, m, NULL, err, err_len);
    gguf_close(&g);
    return rc;
}

static int refuse(const char *err)
{
    put_head(-1, (int32_t)strlen(err));
    fputs(err, stdout);
    return EXIT_OK;
}

/* One model, with the settings that all share. */
static int run_model(struct text *t, int argc, char **argv, char *path)
{
    char *args[MAX_SETTINGS + 3];
    const struct instance_company company = {.numa = &t->numa};
    struct config config;
    struct instance e;
    char err[512];
    bool done;
    int code;

    memcpy(args, argv, (size_t)argc * sizeof(*args));
    args[argc] = "--model";
    args[argc + 1] = path;
    args[argc + 2] = NULL;
    code = command_config(&config, argc + 2, args, print_help, &done);
    if (done)
        return code != EXIT_OK ? code : EXIT_USAGE;
    code = instance_init_among(&e, &config, t->hidden ? INSTANCE_ENCODERS : 0, &company, err,
                               sizeof(err));
    config_release(&config);
    if (code != EXIT_OK)
        return refuse(err);
    if (t->n_guesses > 0 && !e.model->has_mtp)
        code = refuse("the model has no layer that guesses");
    else if (load_adapter(t, e.model, err, sizeof(err)) < 0)
        code = refuse(err);
    else
        code = run(&e, t) < 0 ? EXIT_FAILED : EXIT_OK;
    adapter_unref(&t->adapter);
    instance_release(&e);
    return code;
}

/* Hundreds of small models come and go: memory that was given back is had again without the
 * kernel's clearing it, which takes longer than the models. */
static void keep_memory(void)
{
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 16 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

int main(int argc, char **argv)
{
    static struct text text;
    const char *ids = NULL;
    int64_t chunk = LOGIT_ROWS, n_parts = 1;
    int code = EXIT_OK, n = 0;

    keep_memory();
    text.hidden = command_take_switch(&argc, argv, "--hidden");
    text.has_beside = command_take_switch(&argc, argv, "--beside");
    text.adapter_permille = 1000;
    if (!command_take_value(&argc, argv, "--ids", &ids) ||
        !command_take_value(&argc, argv, "--adapter", &text.adapter_path) ||
        !command_take_int(&argc, argv, "--adapter-permille", -1000000, 1000000,
                          &text.adapter_permille) ||
        !command_take_int(&argc, argv, "--guesses", 1, RUNNER_MAX_GUESSES, &text.n_guesses) ||
        !command_take_int(&argc, argv, "--parts", 1, NUMA_MAX_NODES, &n_parts) ||
        !command_take_int(&argc, argv, "--chunk", 1, MAX_IDS, &chunk))
        return EXIT_USAGE;
    while (n < argc && strcmp(argv[n], "--") != 0)
        n++;
    if (ids == NULL || !parse_ids(&text, ids) || n >= argc || n > MAX_SETTINGS) {
        print_help();
        return EXIT_USAGE;
    }
    text.chunk = (uint32_t)chunk;
    if (n_parts > 1)
        text.numa = (struct numa){.mode = NUMA_LOCAL, .n = (uint32_t)n_parts};
    for (int i = n + 1; i < argc && code == EXIT_OK; i++)
        code = run_model(&text, n, argv, argv[i]);
    return code;
}
