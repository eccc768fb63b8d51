/* tests/fuzz/fuzz_gguf.c - libFuzzer: any bytes as a model file.
 *
 * Whatever the reader lets through is walked to the last byte, then offered to the loader.
 *   clang -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_gguf.c ... ; corpus: mkhostile
 */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/model/model.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum; /* so that no read can be left out */

static void touch(const void *bytes, uint64_t n)
{
    const uint8_t *p = bytes;

    for (uint64_t i = 0; i < n; i++)
        sum = sum * 31 + p[i];
}

static void walk_array(const struct gguf_kv *kv)
{
    for (uint64_t i = 0; i < kv->count; i++) {
        if (kv->elem == GGUF_STRING) {
            const struct gguf_str s = gguf_array_str(kv, i);

            touch(s.data, s.len);
        } else {
            sum += (uint64_t)gguf_array_int(kv, i);
            sum += gguf_array_f32(kv, i) > 0;
        }
    }
}

static void walk_key(const struct gguf *g, const struct gguf_kv *kv)
{
    char key[GGUF_MAX_NAME], err[256];
    const struct gguf_kv *array;
    struct gguf_str s = {0};
    uint32_t u = 0;
    float f = 0;
    bool b = false;

    memcpy(key, kv->key.data, kv->key.len);
    key[kv->key.len] = '\0';
    if (gguf_find(g, key) != kv)
        abort();
    gguf_get_u32(g, key, &u, err, sizeof(err));
    gguf_get_f32(g, key, &f, err, sizeof(err));
    gguf_get_bool(g, key, &b, err, sizeof(err));
    if (gguf_get_str(g, key, &s, err, sizeof(err)) == 0)
        touch(s.data, s.len);
    if (kv->type == GGUF_ARRAY && gguf_get_array(g, key, kv->elem, &array, err, sizeof(err)) == 0)
        walk_array(array);
    sum += u + (f > 0) + b;
}

static void walk_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    char name[GGUF_MAX_NAME];

    memcpy(name, t->name.data, t->name.len);
    name[t->name.len] = '\0';
    if (gguf_tensor_find(g, name) != t || (uintptr_t)t->data % 8 != 0)
        abort();
    touch(t->data, t->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct model_options options = {.n_ctx = 16, .threads = 1, .wants_mtp = true};
    char err[256];
    struct model *m = NULL;
    struct gguf *g = NULL;
    void *copy = NULL;

    log_setup(LOG_OFF, false, 2);
    if (posix_memalign(&copy, 8, n > 0 ? n : 1) != 0)
        return 0;
    memcpy(copy, data, n);
    if (gguf_open_memory(&g, "fuzz", copy, n, err, sizeof(err)) == 0) {
        for (uint64_t i = 0; i < gguf_n_kv(g); i++)
            walk_key(g, gguf_kv_at(g, i));
        for (uint64_t i = 0; i < gguf_n_tensors(g); i++)
            walk_tensor(g, gguf_tensor_at(g, i));
        model_load(&m, g, &options, err, sizeof(err));
    } else if (g != NULL || strncmp(err, "fuzz: ", 6) != 0) {
        abort();
    }
    model_destroy(&m);
    gguf_close(&g);
    free(copy);
    return 0;
}
