/* tests/fuzz/fuzz_tokenizer.c - libFuzzer entry: texts to ids and back, and vocabularies from
 * hostile files.
 *
 * Build: clang -fsanitize=fuzzer,address,undefined; run in the repository's root, where the demo
 * model lies. The first byte chooses: even, the rest is a text for the demo's tokenizer; odd, the
 * rest is a GGUF file whose vocabulary is loaded and, if it is accepted, used.
 */
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static struct tokenizer *demo_tokenizer(void)
{
    static struct tokenizer *t;
    struct gguf *g;
    char err[256];

    if (t == NULL) {
        require(gguf_open(&g, "config/demo/quire-demo.gguf", err, sizeof(err)) == 0);
        require(tokenizer_create(&t, g, err, sizeof(err)) == 0);
        gguf_close(&g);
    }
    return t;
}

static bool is_valid(const char *text, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = utf8_len((const uint8_t *)text + i, n - i);
        if (len == 0)
            return false;
    }
    return true;
}

/* Whatever the text: ids in range, and visible text that is valid UTF-8. */
static void encode_and_decode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                              struct buf *out)
{
    struct token_list list = {0};
    struct detok d;
    const int rc = tokenizer_encode(t, text, n, flags, SIZE_MAX, NULL, &list);

    require(rc == 0 || rc == ERR_LIMIT); /* of what a normalizer makes of it */
    if (rc != 0)
        return;
    detok_init(&d, t, true);
    for (size_t i = 0; i < list.n; i++) {
        require(list.ids[i] >= 0 && list.ids[i] < tokenizer_n_vocab(t));
        detok_feed(&d, list.ids[i], out);
    }
    detok_finish(&d, out);
    require(out->err == ERR_LIMIT || is_valid(out->data, out->len));
    token_list_release(&list);
}

static void try_text(const char *text, size_t n)
{
    struct buf out;

    buf_init(&out, 16 * n + 64);
    encode_and_decode(demo_tokenizer(), text, n, TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL,
                      &out);
    buf_clear(&out);
    encode_and_decode(demo_tokenizer(), text, n, 0, &out);
    if (is_valid(text, n)) /* without control tokens nothing is lost */
        require(out.len == n && (n == 0 || memcmp(out.data, text, n) == 0));
    buf_release(&out);
}

static void try_vocabulary(const uint8_t *data, size_t n)
{
    static const char text[] = "Hello, <|end|> 123  \xC3\xA9\xFF\xE2\x96\x81world\n";
    void *copy = mem_dup(data, n); /* aligned, and of exactly that size */
    struct tokenizer *t;
    struct gguf *g;
    struct buf out;
    char err[256];

    require(copy != NULL);
    buf_init(&out, 4096);
    if (gguf_open_memory(&g, "fuzz", copy, n, err, sizeof(err)) == 0) {
        if (tokenizer_create(&t, g, err, sizeof(err)) == 0) {
            encode_and_decode(t, text, sizeof(text) - 1, TOKENIZER_PARSE_SPECIAL, &out);
            tokenizer_destroy(&t);
        }
        gguf_close(&g);
    }
    buf_release(&out);
    mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    if (data[0] % 2 == 0)
        try_text((const char *)data + 1, n - 1);
    else
        try_vocabulary(data + 1, n - 1);
    return 0;
}
