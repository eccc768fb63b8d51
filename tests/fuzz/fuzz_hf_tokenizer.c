/* tests/fuzz/fuzz_hf_tokenizer.c - libFuzzer: any bytes as the tokenizer.json of a model's folder.
 *
 * What is accepted becomes the header of a GGUF file, which must be one, and if a tokenizer comes
 * of that, it is used; once as that of a decoder, once as BertModel's. The same bytes are read as a
 * generation_config.json.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/classes.h"
#include "core/formats/hf/generation_config.h"
#include "core/formats/hf/hf_impl.h"
#include "core/formats/hf_folder.h"
#include "core/model/sampling_defaults.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

static void use(const struct tokenizer *t)
{
    static const char text[] = "Hello, <|end|> 123  \xC3\xA9\xFF\xE2\x96\x81world\n";
    struct token_list list = {0};

    if (tokenizer_encode(t, text, sizeof(text) - 1, TOKENIZER_PARSE_SPECIAL, 1000, NULL, &list) ==
        0)
        for (size_t i = 0; i < list.n; i++)
            require(list.ids[i] >= 0 && list.ids[i] < tokenizer_n_vocab(t));
    token_list_release(&list);
}

static void load(struct hf_folder *f)
{
    char err[300] = "";
    struct tokenizer *t;
    struct gguf *g;
    uint8_t *bytes;
    size_t n;

    require(gguf_writer_finish(f->w, &bytes, &n) == 0);
    require(gguf_open_memory(&g, "fuzz", bytes, n, err, sizeof(err)) == 0);
    if (tokenizer_create(&t, g, err, sizeof(err)) == 0) {
        use(t);
        tokenizer_destroy(&t);
    } else {
        require(err[0] != '\0');
    }
    gguf_close(&g);
    mem_free(bytes);
}

static void load_sampling(struct hf_folder *f)
{
    struct sampling_defaults d = {0};
    char err[300] = "";
    struct gguf *g;
    uint8_t *bytes;
    size_t n;

    require(gguf_writer_finish(f->w, &bytes, &n) == 0);
    require(gguf_open_memory(&g, "fuzz", bytes, n, err, sizeof(err)) == 0);
    sampling_defaults_read(&d, g);
    require(!(sampling_defaults_get(&d, SAMPLING_TOP_P, 1) > 1) &&
            sampling_defaults_get(&d, SAMPLING_TEMPERATURE, 0) >= 0);
    gguf_close(&g);
    mem_free(bytes);
}

static void read_generation_config(const uint8_t *data, size_t n)
{
    char err[300] = "";
    struct hf_folder f = {.path = "fuzz", .forced_pre = "", .err = err, .err_len = sizeof(err)};

    log_setup(LOG_OFF, false, 2);
    require(gguf_writer_create(&f.w) == 0);
    if (hf_generation_config_take(&f, (const char *)data, n) == 0)
        load_sampling(&f);
    else
        require(err[0] != '\0');
    gguf_writer_destroy(&f.w);
}

static void read_tokenizer(const uint8_t *data, size_t n, bool is_bert)
{
    char err[300] = "";
    struct hf_folder f = {.path = "fuzz", .forced_pre = "", .err = err, .err_len = sizeof(err),
                          .arch = is_bert ? "bert" : "llama",
                          .class = hf_class_find(is_bert ? "BertModel" : "LlamaForCausalLM"),
                          .n_vocab = 300, .n_layer = 1};

    if (hf_parse(&f, "tokenizer.json", (const char *)data, n, &f.tokenizer) == 0) {
        f.config = cJSON_CreateObject();
        require(gguf_writer_create(&f.w) == 0);
        if (hf_tokenizer_add(&f) == 0)
            load(&f);
        else
            require(err[0] != '\0');
        gguf_writer_destroy(&f.w);
    }
    cJSON_Delete(f.tokenizer);
    cJSON_Delete(f.config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    read_generation_config(data, n);
    read_tokenizer(data, n, false);
    read_tokenizer(data, n, true);
    return 0;
}
