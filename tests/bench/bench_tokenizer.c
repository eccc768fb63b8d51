/* tests/bench/bench_tokenizer.c - how fast text becomes tokens, and that it comes back.
 *
 * bench_tokenizer [--rules NAME|all] TEXT VOCABULARY.gguf...: for each vocabulary, on one thread,
 * MB/s of cutting alone (BPE), of the whole way to tokens and of the way back. Byte-level BPE and
 * SentencePiece must give the text, as their normalizer makes it, back byte for byte: exit code 1
 * where they do not. --rules cuts by those rules instead of the file's, or by all that are known,
 * one after the other.
 */
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t n;
};

static struct text read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct text t = {0};
    struct buf b;
    char chunk[65536];

    buf_init(&b, (size_t)1 << 30);
    for (size_t n; file != NULL && (n = fread(chunk, 1, sizeof(chunk), file)) > 0;)
        buf_add(&b, chunk, n);
    if (file == NULL || b.err != 0 || b.len == 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    fclose(file);
    t.bytes = buf_detach(&b, &t.n);
    return t;
}

static double rate(size_t bytes, uint64_t start_ns)
{
    return (double)bytes * 1e3 / (double)(clock_ns() - start_ns);
}

static double cut(const struct tokenizer *t, const struct text *text)
{
    struct pretokenizer *p;
    struct pretokenizer_run *run;
    uint64_t start;
    double mbs;

    if (t->vocab.model != VOCAB_BPE || t->vocab.raw)
        return 0;
    if (pretokenizer_create(&p, t->vocab.rules) != 0 || pretokenizer_run_create(&run, p) != 0)
        exit(2);
    start = clock_ns();
    pretokenizer_begin(run, text->bytes, text->n);
    for (size_t at = 0; at < text->n;)
        at = pretokenizer_next(run);
    mbs = rate(text->n, start);
    pretokenizer_run_destroy(&run);
    pretokenizer_destroy(&p);
    return mbs;
}

/* Is it the text, as the tokenizer's normalizer makes it? */
static bool is_text(const struct tokenizer *t, const struct text *text, const struct buf *out)
{
    struct normal_text normal = {.text = text->bytes, .n = text->n};
    bool same = t->normalizer == NULL ||
                normalizer_run(t->normalizer, text->bytes, text->n, SIZE_MAX, NULL, &normal) == 0;

    same = same && out->len == normal.n && memcmp(out->data, normal.text, normal.n) == 0;
    normal_text_release(&normal);
    return same;
}

static bool comes_back(const struct tokenizer *t, const struct text *text,
                       const struct token_list *list, double *mbs)
{
    const uint64_t start = clock_ns();
    struct detok d;
    struct buf out;
    bool same;

    buf_init(&out, 3 * text->n + 64);
    detok_init(&d, t, true);
    for (size_t i = 0; i < list->n; i++)
        detok_feed(&d, list->ids[i], &out);
    detok_finish(&d, &out);
    *mbs = rate(text->n, start);
    same = is_text(t, text, &out);
    buf_release(&out);
    return same;
}

static bool measure(const char *name, const struct tokenizer *t, const struct text *text)
{
    const bool normalises = t->vocab.model == VOCAB_WPM || t->vocab.model == VOCAB_UGM;
    const double cut_mbs = cut(t, text);
    struct token_list list = {0};
    const uint64_t start = clock_ns();
    const int rc = tokenizer_encode(t, text->bytes, text->n, 0, SIZE_MAX, NULL, &list);
    const double encode_mbs = rate(text->n, start);
    double decode_mbs = 0;
    const bool same = rc == 0 && comes_back(t, text, &list, &decode_mbs);

    printf("%-28s cut %6.1f MB/s   encode %6.1f   decode %6.1f   %9zu tokens  %s\n", name, cut_mbs,
           encode_mbs, decode_mbs, list.n,
           same         ? "same text"
           : normalises ? "normalised"
                        : "ANOTHER TEXT");
    token_list_release(&list);
    return same || normalises;
}

static bool open_and_measure(const char *path, const char *rules, const struct text *text)
{
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    struct tokenizer *t = NULL;
    struct gguf *g = NULL;
    char err[512], name[64];
    bool ok = false;

    snprintf(name, sizeof(name), "%s", rules[0] != '\0' ? rules : base);
    if (gguf_open(&g, path, err, sizeof(err)) != 0 ||
        tokenizer_create_as(&t, g, rules, err, sizeof(err)) != 0)
        fprintf(stderr, "%s\n", err);
    else
        ok = measure(name, t, text);
    tokenizer_destroy(&t);
    gguf_close(&g);
    return ok;
}

/* The first of several names for the same rules stands for them. */
static bool is_first_of_its_rules(size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (pretokenizer_same_rules((int)k, (int)i))
            return false;
    return (pretokenizer_traits((int)i) & PRETOKENIZER_RAW) == 0;
}

static bool measure_all(const char *path, const struct text *text)
{
    bool ok = true;

    for (size_t i = 0; pretokenizer_name(i) != NULL; i++)
        if (is_first_of_its_rules(i))
            ok = open_and_measure(path, pretokenizer_name(i), text) && ok;
    return ok;
}

int main(int argc, char **argv)
{
    const bool has_rules = argc > 2 && strcmp(argv[1], "--rules") == 0;
    const char *rules = has_rules ? argv[2] : "";
    const int first = has_rules ? 3 : 1;
    bool ok = true;
    struct text text;

    if (argc < first + 2) {
        fprintf(stderr, "bench_tokenizer [--rules NAME|all] TEXT VOCABULARY.gguf...\n");
        return 2;
    }
    text = read_text(argv[first]);
    for (int i = first + 1; i < argc; i++)
        ok = (strcmp(rules, "all") == 0 ? measure_all(argv[i], &text)
                                        : open_and_measure(argv[i], rules, &text)) &&
             ok;
    mem_free(text.bytes);
    return ok ? 0 : 1;
}
