/* server/cli/score.c - `quire score`: the mean negative log-likelihood of a text under a model.
 *
 * Long texts are cut into windows of the size of the context. Each window after the first begins
 * with the last token of the one before, so that every token but the very first is scored exactly
 * once. Windows are independent: the blocks are released after each.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner.h"
#include "core/tokenizer/tokenizer.h"
#include "kvcache/kv_manager.h"
#include "server/models/instance.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE ((size_t)1 << 30)

static void print_score_help(void)
{
    fputs(
        "quire score --ids FILE.json | --text FILE [--each] [settings]\n"
        "  --ids FILE.json   file with a JSON array of token ids\n"
        "  --each            first print a line for each token: its id and log-probability\n"
        "  --text FILE       file with text, which is tokenised with the model's BOS\n"
        "Prints the mean negative log-likelihood (natural logarithm) of all tokens but the first,\n"
        "and their number. The settings of quire serve are accepted, such as --model.\n",
        stdout);
}

static int read_text(const char *path, struct buf *out)
{
    FILE *in = fopen(path, "re");
    int rc;

    if (in == NULL)
        return ERR_IO;
    rc = file_read_stream(in, out);
    fclose(in);
    return rc;
}

static int parse_ids(const char *json, int32_t n_vocab, struct token_list *out)
{
    cJSON *array = cJSON_Parse(json);
    const cJSON *item;
    int rc = cJSON_IsArray(array) ? 0 : ERR_FORMAT;

    if (rc == 0) {
        out->cap = (size_t)cJSON_GetArraySize(array);
        out->ids = mem_calloc(out->cap, sizeof(*out->ids));
        rc = out->ids == NULL ? ERR_NOMEM : 0;
    }
    cJSON_ArrayForEach(item, array)
    {
        const double id = cJSON_IsNumber(item) ? item->valuedouble : -1;

        if (rc == 0 && !(id >= 0 && id < n_vocab && id == (double)(int32_t)id))
            rc = ERR_RANGE;
        if (rc == 0)
            out->ids[out->n++] = (int32_t)id;
    }
    cJSON_Delete(array);
    return rc;
}

static int load_ids(const struct tokenizer *t, const char *ids_path, const char *text_path,
                    struct token_list *out)
{
    const char *path = ids_path != NULL ? ids_path : text_path;
    struct buf file;
    int rc;

    buf_init(&file, MAX_FILE);
    rc = read_text(path, &file);
    if (rc == 0 && ids_path != NULL)
        rc = parse_ids(file.data != NULL ? file.data : "", tokenizer_n_vocab(t), out);
    else if (rc == 0)
        rc = tokenizer_encode(t, file.data != NULL ? file.data : "", file.len,
                              TOKENIZER_ADD_SPECIAL, SIZE_MAX, NULL, out);
    buf_release(&file);
    if (rc < 0)
        return command_fail(EXIT_FAILED, "%s: %s", path, err_text(rc));
    if (out->n < 2)
        return command_fail(EXIT_FAILED, "%s: at least two tokens are needed, but it has %zu", path,
                            out->n);
    return EXIT_OK;
}

/* Score ids[1..n) of one window in chunks; adds to *sum. */
static int score_window(struct instance *e, struct batch *b, struct kv_seq *kv, const int32_t *ids,
                        uint32_t n, bool each, double *sum)
{
    const struct sampling sampling = {.n_top = 0};

    for (uint32_t at = 0, rows; at + 1 < n; at += rows) {
        const uint32_t room = kv_manager_room(e->manager, kv, at);
        int rc;

        rows = n - 1 - at < b->max_rows ? n - 1 - at : b->max_rows;
        rows = rows < room ? rows : room; /* windows may need less room than they released */
        rc = rows > 0 ? kv_manager_alloc(e->manager, kv, at, at + rows) : ERR_AGAIN;
        if (rc < 0)
            return rc;
        batch_clear(b);
        batch_add_span(b, ids + at, rows, at, kv->table.blocks, kv->table.cap);
        b->spans[0].state = kv->state;
        for (uint32_t i = 0; i < rows; i++) {
            struct batch_output *o = batch_add_output(b, i);

            o->want = BATCH_SCORE;
            o->sampling = &sampling;
            o->pos = at + i + 1;
            o->token = ids[at + i + 1];
        }
        runner_step(e->runner, b);
        for (uint32_t i = 0; i < rows; i++) {
            *sum -= (double)b->outputs[i].logprob;
            if (each)
                printf("%d %.9g\n", b->outputs[i].token, (double)b->outputs[i].logprob);
        }
        kv_manager_free_out_of_window(e->manager, kv, at + rows);
    }
    kv_manager_release(e->manager, kv);
    return 0;
}

static int score_all(struct instance *e, const struct token_list *list, bool each, double *sum)
{
    const uint32_t window = e->sched.max_context;
    const uint32_t cap = block_table_needed(window);
    const bool show = isatty(STDERR_FILENO);
    const uint32_t n_groups = kv_manager_n_groups(e->manager);
    block_id *blocks = mem_calloc(n_groups, cap * sizeof(*blocks));
    struct batch *b = NULL;
    struct kv_seq kv;
    int rc = blocks == NULL ? ERR_NOMEM : 0;

    kv_seq_init(&kv, blocks, blocks != NULL ? cap : 0, n_groups);
    if (rc == 0)
        rc = batch_create(&b, e->sched.max_batch_tokens, 1, e->sched.max_batch_tokens);
    for (size_t at = 0; rc == 0 && at + 1 < list->n; at += window - 1) {
        const size_t left = list->n - at;

        if (show)
            fprintf(stderr, "\rscoring %zu of %zu tokens", at, list->n);
        rc = score_window(e, b, &kv, list->ids + at, left < window ? (uint32_t)left : window, each,
                          sum);
    }
    if (show)
        fputs("\r\033[K", stderr);
    kv_manager_release(e->manager, &kv);
    batch_destroy(&b);
    mem_free(blocks);
    return rc;
}

static int score(struct instance *e, const char *ids_path, const char *text_path, bool each)
{
    struct token_list list = {0};
    double sum = 0;
    int rc, code = load_ids(e->tokenizer, ids_path, text_path, &list);

    if (code == EXIT_OK) {
        rc = score_all(e, &list, each, &sum);
        if (rc < 0)
            code = command_fail(EXIT_FAILED, "cannot score: %s", err_text(rc));
        else
            printf("mean_nll %.6f tokens %zu\n", sum / (double)(list.n - 1), list.n - 1);
    }
    token_list_release(&list);
    return code;
}

int cmd_score(int argc, char **argv)
{
    const char *ids_path = NULL, *text_path = NULL;
    struct config config;
    struct instance engine;
    char err[512];
    const bool each = command_take_switch(&argc, argv, "--each");
    bool done;
    int code;

    if (!command_take_value(&argc, argv, "--ids", &ids_path) ||
        !command_take_value(&argc, argv, "--text", &text_path))
        return EXIT_USAGE;
    code = command_config(&config, argc, argv, print_score_help, &done);
    if (done)
        return code;
    if ((ids_path == NULL) == (text_path == NULL)) {
        config_release(&config);
        return command_fail(EXIT_USAGE, "give either --ids FILE.json or --text FILE");
    }
    code = instance_init(&engine, &config, 0, err, sizeof(err));
    config_release(&config);
    if (code != EXIT_OK)
        return command_fail(code, "%s", err);
    code = score(&engine, ids_path, text_path, each);
    instance_release(&engine);
    return code;
}
