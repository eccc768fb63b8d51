/* tests/fuzz/fuzz_adapter.c - any bytes as a LoRA adapter of the demo model.
 *
 * The first byte says what the rest is: 0 a GGUF file; else a folder of PEFT, two bytes with the
 * length of adapter_config.json, that file, and the rest as adapter_model.safetensors. It is
 * refused with a sentence, or becomes an adapter whose matrices fit the model and the room that was
 * foretold.
 */
#include <unistd.h>

#include "config/demo.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/hf/peft.h"
#include "core/model/adapter.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/target.h"

static const struct model *demo(void)
{
    const struct model_options options = {.threads = 1};
    static struct model *m;
    struct gguf *g;
    size_t bytes;
    const void *data;
    char err[400];

    if (m != NULL)
        return m;
    data = demo_model(&bytes);
    require(gguf_open_memory(&g, "demo", data, bytes, err, sizeof(err)) == 0);
    require(model_load(&m, g, &options, err, sizeof(err)) == 0);
    gguf_close(&g);
    return m;
}

static void check_layer(const struct adapter_layer *l)
{
    for (enum adapter_target t = ADAPTER_NONE + 1; t < ADAPTER_N_TARGET; t++) {
        const struct matrix *down = &l->down[adapter_input_of(t)];

        if (!matrix_exists(&l->up[t]))
            continue;
        require(l->up[t].n_in >= 1 && l->up[t].n_in <= ADAPTER_MAX_RANK);
        require(matrix_exists(down) && l->at[t] + l->up[t].n_in <= down->n_out);
        require(down->data != NULL && l->up[t].data != NULL);
    }
}

static void load(const struct gguf *g)
{
    const struct model *m = demo();
    struct adapter *a;
    char err[400] = "";

    if (adapter_load(&a, g, m, NULL, err, sizeof(err)) < 0) {
        require(a == NULL && err[0] != '\0');
        return;
    }
    require(a->n_layer == m->shape.n_layer && a->max_rank <= ADAPTER_MAX_RANK);
    require(a->bytes <= adapter_most_bytes(g) + sizeof(*a) + a->n_layer * sizeof(*a->layers));
    for (uint32_t i = 0; i < a->n_layer; i++)
        check_layer(&a->layers[i]);
    adapter_unref(&a);
}

static void load_gguf(const uint8_t *data, size_t n)
{
    uint8_t *aligned = aligned_alloc(8, (n + 7) / 8 * 8 + 8);
    struct gguf *g;
    char err[400] = "";

    require(aligned != NULL);
    memcpy(aligned, data, n);
    if (gguf_open_memory(&g, "adapter", aligned, n, err, sizeof(err)) == 0)
        load(g);
    gguf_close(&g);
    free(aligned);
}

static void load_peft(const uint8_t *data, size_t n)
{
    const size_t wanted = scratch_number(&data, &n, 2), config = wanted < n ? wanted : n;
    struct gguf *g;
    char err[400] = "";

    scratch_write(PEFT_CONFIG, data, config);
    scratch_write(PEFT_WEIGHTS, data + config, n - config);
    if (peft_open(&g, scratch_folder(), err, sizeof(err)) == 0)
        load(g);
    else
        require(g == NULL && err[0] != '\0');
    gguf_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    if (data[0] == 0)
        load_gguf(data + 1, n - 1);
    else
        load_peft(data + 1, n - 1);
    return 0;
}
