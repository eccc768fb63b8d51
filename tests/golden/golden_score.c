/* tests/golden/golden_score.c - the whole forward pass against implementations that share no code.
 *
 * The mean negative log-likelihood of a text, teacher-forced, compared with what a double-precision
 * pass over the same weights gives: for the demo model its trainer's (demo_score.json), for the
 * models of $QUIRE_DATA (default ../shared/data; skipped when absent) that folder's reference. The
 * tolerance is what 8-bit activations cost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/model/model.h"
#include "core/runtime/runner.h"
#include "core/runtime/thread_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/kv_store.h"
#include "tests/fixtures/files.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_IDS 1024
#define TOLERANCE 0.01

struct ids {
    int32_t at[MAX_IDS];
    uint32_t n;
};

static cJSON *read_json(const char *path)
{
    size_t n;
    char *text = read_whole(path, &n);
    cJSON *json = cJSON_Parse(text);

    free(text);
    assert_non_null(json);
    return json;
}

static void read_ids(const cJSON *array, struct ids *ids)
{
    const cJSON *item;

    ids->n = 0;
    cJSON_ArrayForEach(item, array)
    {
        assert_true(ids->n < MAX_IDS);
        ids->at[ids->n++] = item->valueint;
    }
    assert_true(ids->n > 100);
}

static struct model *load(const char *path)
{
    const struct model_options options = {.threads = 2};
    struct model *model;
    struct gguf *g;
    char err[512];

    if (gguf_open(&g, path, err, sizeof(err)) != 0 ||
        model_load(&model, g, &options, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    gguf_close(&g);
    return model;
}

/* Every token but the first, from the ones before it, in one batch. */
static double mean_nll(struct runner *runner, const struct ids *ids, const uint32_t *table)
{
    const struct sampling sampling = {.n_top = 0};
    const uint32_t n = ids->n - 1;
    struct batch *b;
    double sum = 0;

    assert_int_equal(batch_create(&b, n, 1, n), 0);
    batch_add_span(b, ids->at, n, 0, table, 0);
    for (uint32_t i = 0; i < n; i++) {
        struct batch_output *o = batch_add_output(b, i);

        o->want = BATCH_SCORE;
        o->sampling = &sampling;
        o->pos = i + 1;
        o->token = ids->at[i + 1];
    }
    runner_step(runner, b);
    for (uint32_t i = 0; i < n; i++)
        sum -= (double)b->outputs[i].logprob;
    batch_destroy(&b);
    return sum / n;
}

static void compare_kv(const char *path, enum kern_kv kv, const struct ids *ids, double expected)
{
    struct model *model = load(path);
    const uint32_t head_dim = model->shape.key_dim; /* and value_dim */
    const struct kv_shape shape = {model->shape.n_layer, model->shape.n_kv_head,
                                   kern_kv_key_bytes(kv, head_dim),
                                   kern_kv_value_bytes(kv, head_dim)};
    struct runner_options options = {.model = model, .kv_type = kv, .isa = kern_isa_best(),
                                     .max_rows = MAX_IDS};
    const uint32_t n_blocks = MAX_IDS / 16;
    uint32_t table[MAX_IDS / 16];
    struct runner *runner;
    char err[512];
    double nll;

    for (uint32_t i = 0; i < n_blocks; i++)
        table[i] = n_blocks - i; /* backwards: the table matters */
    assert_int_equal(kv_store_create(&options.kv, &shape, n_blocks), 0);
    assert_int_equal(
        thread_pool_create(&options.pool, &(struct thread_pool_options){.n_threads = 2}), 0);
    if (runner_create(&runner, &options, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    nll = mean_nll(runner, ids, table);
    print_message("%s, %s keys and values: %.6f, reference %.6f\n", path, kern_kv_name(kv), nll,
                  expected);
    assert_true(fabs(nll - expected) < TOLERANCE);
    runner_destroy(&runner);
    thread_pool_destroy(&options.pool);
    kv_store_destroy(&options.kv);
    model_destroy(&model);
}

/* What is stored in 8 bits must be as close as what is stored in 16, where the heads allow it. */
static void compare(const char *path, const struct ids *ids, double expected)
{
    struct model *model = load(path);
    const uint32_t head_dim = model->shape.key_dim; /* and value_dim */

    model_destroy(&model);
    for (int kv = 0; kv < KERN_N_KV; kv++)
        if (head_dim % kern_kv_group((enum kern_kv)kv) == 0)
            compare_kv(path, (enum kern_kv)kv, ids, expected);
}

static void demo_agrees_with_its_trainer(void **state)
{
    cJSON *json = read_json("tests/fixtures/demo_score.json");
    struct ids ids;

    (void)state;
    read_ids(cJSON_GetObjectItem(json, "ids"), &ids);
    compare("config/demo/quire-demo.gguf", &ids, cJSON_GetObjectItem(json, "nll")->valuedouble);
    cJSON_Delete(json);
}

static void reference_models_agree(void **state)
{
    static const struct {
        const char *name;
        double nll;
    } models[] = {
        {"stories260K.f16", 1.745705},
        {"stories260K-x256-llama.F16", 1.745749},
        {"stories260K-x256-llama.BF16", 1.744835},
        {"stories260K-x256-llama.Q8_0", 1.745663},
        {"stories260K-x256-llama.Q6_K", 1.752522},
        {"stories260K-x256-llama.Q4_K_M", 1.763520},
        {"stories260K-x256-llama.Q4_0", 1.782620},
    };
    char path[512];
    struct ids ids;
    cJSON *json;

    (void)state;
    json = read_json(data_file(path, sizeof(path), "weights/eval_ids.json"));
    read_ids(json, &ids);
    cJSON_Delete(json);
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        data_file(path, sizeof(path), "weights/%s.gguf", models[i].name);
        compare(path, &ids, models[i].nll);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_agrees_with_its_trainer),
        cmocka_unit_test(reference_models_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
