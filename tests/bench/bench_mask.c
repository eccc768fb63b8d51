/* tests/bench/bench_mask.c - what a constraint costs: compiling it, and each token's mask.
 *
 *     bench_mask [vocabulary.gguf]
 *
 * Without a file the vocabulary is made up: 150,000 texts of letters, blanks, digits and marks, as
 * long as those of real ones. Texts are grown from random allowed tokens, every mask is timed, and
 * so is the choice of a token with and without it.
 */
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/lazy.h"
#include "core/grammar/regex.h"
#include "core/grammar/token_trie.h"
#include "core/runtime/sampler.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/fixtures/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MADE 150000
#define N_TOKENS 3000 /* of each constraint */

static uint64_t rng = 7;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

/* ---- vocabularies ---- */

static void make_text(char *out, uint32_t n)
{
    static const char letters[] = "etaoinshrdlcumwfgypbvkjxqzETAOINSHRDLCUMWFGYPBVKJXQZ";
    static const char marks[] = "\"\"\"\\{}[]:,.;()<>/=-_+*#@!?'0123456789\n\t";
    const uint32_t kind = below(10);

    for (uint32_t i = 0; i < n; i++)
        out[i] = kind == 0 || (kind == 1 && below(2) == 0) ? marks[below(sizeof(marks) - 1)]
                                                           : letters[below(below(52) + 1)];
    if (kind > 5)
        out[0] = ' ';
    for (uint32_t i = 0; kind == 9 && i + 3 <= n; i += 3) { /* and other scripts */
        out[i] = (char)0xE4;
        out[i + 1] = (char)(0x80 + below(64));
        out[i + 2] = (char)(0x80 + below(64));
    }
}

static struct token_trie *made_up(void)
{
    static char bytes[N_MADE][16];
    static struct trie_text texts[N_MADE];
    struct token_trie *trie;

    for (int32_t i = 0; i < N_MADE; i++) {
        const uint32_t n = i < 256 ? 1 : 2 + below(5) + below(6);

        make_text(bytes[i], n);
        if (i < 256)
            bytes[i][0] = (char)i;
        texts[i] = (struct trie_text){bytes[i], n, i, false};
    }
    return token_trie_create(&trie, texts, N_MADE, 0) == 0 ? trie : NULL;
}

static struct token_trie *from_file(const char *path)
{
    struct token_trie *trie = NULL;
    struct tokenizer *t = NULL; /* lives as long as the program: the trie points into it */
    struct gguf *g = NULL;
    char err[200] = "";

    if (gguf_open(&g, path, err, sizeof(err)) < 0 || tokenizer_create(&t, g, err, sizeof(err)) < 0)
        fprintf(stderr, "%s\n", err);
    else if (token_trie_of(&trie, t) < 0)
        fprintf(stderr, "out of memory\n");
    gguf_close(&g);
    return trie;
}

/* ---- constraints ---- */

enum notation { SCHEMA, GBNF, REGEX, LAZY /* GBNF behind "<tool_call>" */ };

static const struct {
    const char *name;
    enum notation notation;
    const char *text;
} cases[] = {
    {"schema: strings and numbers", SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"note\":{"
     "\"type\":[\"string\",\"null\"]}},\"required\":[\"name\",\"age\",\"tags\",\"note\"]}"},
    {"schema: lengths, enums, unions", SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"maxLength\":40},\"kind\":{"
     "\"enum\":[\"a\",\"bb\",\"ccc\"]},\"text\":{\"type\":\"string\",\"minLength\":20,"
     "\"maxLength\":200},\"v\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"string\"},{"
     "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"}},\"required\":[\"x\"]}]}},"
     "\"required\":[\"id\",\"kind\",\"text\",\"v\"]}"},
    {"schema: recursive", SCHEMA,
     "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},"
     "\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/node\"}}},\"required\":["
     "\"label\",\"children\"]}},\"$ref\":\"#/$defs/node\"}"},
    {"schema: patterns and formats", SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"d\":{\"type\":\"string\",\"format\":\"date-time\"},"
     "\"u\":{\"type\":\"string\",\"format\":\"uuid\"},\"p\":{\"type\":\"string\",\"pattern\":"
     "\"^[A-Z][a-z]+( [A-Z][a-z]+)*$\"}},\"required\":[\"d\",\"u\",\"p\"]}"},
    {"schema: any object", SCHEMA, "{\"type\":\"object\"}"},
    {"gbnf: lines of words", GBNF, "root ::= line+\nline ::= [^\\n]{1,80} \"\\n\""},
    {"regex: words", REGEX, "[a-z]+( [a-z]+)*\\."},
    {"lazy: a call, before it", LAZY, "root ::= \"<tool_call>\" [a-z]+ \"</tool_call>\""},
};

static void compile_lazy(struct grammar **g, const char *text, char *err, size_t err_len)
{
    static const struct grammar_trigger trigger = {TRIGGER_WORD, "<tool_call>", 11};
    struct grammar_builder *b;
    struct grammar_piece p;
    uint32_t root;

    if (grammar_builder_create(&b, NULL) < 0)
        return;
    root = grammar_rule(b, "");
    p = grammar_untriggered(b, &trigger, 1);
    grammar_define(b, root, grammar_then(b, p, grammar_gbnf(b, text, strlen(text))));
    grammar_builder_finish(b, g, err, err_len);
    grammar_builder_destroy(&b);
}

static struct constraint *compile(size_t i, const struct token_trie *trie)
{
    const char *text = cases[i].text;
    struct constraint *c = NULL;
    struct grammar *g = NULL;
    char err[200] = "";
    cJSON *schema;

    if (cases[i].notation == SCHEMA) {
        schema = cJSON_Parse(text);
        schema_to_grammar(&g, schema, NULL, err, sizeof(err));
        cJSON_Delete(schema);
    } else if (cases[i].notation == LAZY) {
        compile_lazy(&g, text, err, sizeof(err));
    } else if (cases[i].notation == GBNF) {
        grammar_from_gbnf(&g, text, strlen(text), NULL, err, sizeof(err));
    } else {
        grammar_from_regex(&g, text, strlen(text), NULL, err, sizeof(err));
    }
    if (g == NULL || constraint_create(&c, g, trie, NULL, err, sizeof(err)) < 0)
        fprintf(stderr, "%s: %s\n", cases[i].name, err);
    return c;
}

/* ---- timing ---- */

struct times {
    double mask_us[N_TOKENS];
    double sum, pick_us, plain_us;
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct bench {
    struct kern_table kern;
    struct sampler_scratch sampler;
    struct constraint_scratch *scratch;
    struct constraint_state *state;
    uint32_t *bits;
    float *logits;
    uint32_t n_vocab;
};

static double us_since(uint64_t from)
{
    return (double)(clock_ns() - from) / 1e3;
}

static void time_mask(struct bench *b, struct times *t, int i)
{
    const uint64_t from = clock_ns();

    constraint_mask(b->state, b->scratch, b->bits, b->n_vocab);
    t->mask_us[i] = us_since(from);
    t->sum += t->mask_us[i];
}

static enum constraint_status time_pick(struct bench *b, struct times *t, int i)
{
    struct sampling how = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .n_top = -1};
    struct batch_output o = {.sampling = &how, .pos = (uint32_t)i};
    uint64_t from = clock_ns();

    how.seed = rng;
    sampler_pick(&b->kern, &b->sampler, b->logits, NULL, 0, &o);
    t->plain_us += us_since(from);
    o.constraint = b->state;
    from = clock_ns();
    sampler_pick(&b->kern, &b->sampler, b->logits, NULL, 0, &o);
    t->pick_us += us_since(from);
    return o.is_broken ? CONSTRAINT_BROKEN : o.is_complete ? CONSTRAINT_DONE : CONSTRAINT_OPEN;
}

static void run_case(struct bench *b, size_t i, const struct token_trie *trie)
{
    static struct times t;
    const uint64_t from = clock_ns();
    struct constraint *c = compile(i, trie);
    const double compile_ms = us_since(from) / 1e3;

    if (c == NULL)
        return;
    t = (struct times){.sum = 0};
    constraint_state_init(b->state, c);
    for (int k = 0; k < N_TOKENS; k++) {
        below(1);
        time_mask(b, &t, k);
        if (time_pick(b, &t, k) != CONSTRAINT_OPEN)
            constraint_state_init(b->state, c);
    }
    qsort(t.mask_us, N_TOKENS, sizeof(t.mask_us[0]), compare);
    printf("  %-32s %7.1f %6.1f %5u   %6.1f %6.1f %6.1f %6.1f   %6.1f\n", cases[i].name, compile_ms,
           (double)constraint_bytes(c) / (1 << 20), constraint_n_places(c), t.sum / N_TOKENS,
           t.mask_us[N_TOKENS / 2], t.mask_us[N_TOKENS * 99 / 100], t.mask_us[N_TOKENS - 1],
           (t.pick_us - t.plain_us) / N_TOKENS);
    constraint_unref(&c);
}

int main(int argc, char **argv)
{
    const uint64_t from = clock_ns();
    struct token_trie *trie = argc > 1 ? from_file(argv[1]) : made_up();
    struct bench b = {.n_vocab = trie != NULL ? trie->n_vocab : 0};

    if (trie == NULL || sampler_scratch_create(&b.sampler, b.n_vocab) < 0 ||
        constraint_scratch_create(&b.scratch) < 0)
        return 1;
    printf("mask: %u tokens, trie of %u nodes in %.0f ms\n", b.n_vocab, trie->n_nodes,
           us_since(from) / 1e3);
    printf("  %-32s %7s %6s %5s   %27s   %6s\n", "", "compile", "", "", "us a mask", "us more");
    printf("  %-32s %7s %6s %5s   %6s %6s %6s %6s   %6s\n", "", "ms", "MiB", "known", "mean",
           "median", "99 %", "most", "a pick");
    kern_init(&b.kern, kern_isa_best());
    b.state = mem_alloc(constraint_state_bytes());
    b.bits = mem_calloc(b.n_vocab / 32 + 1, sizeof(*b.bits));
    b.logits = mem_aligned(b.n_vocab, sizeof(*b.logits));
    for (uint32_t i = 0; i < b.n_vocab; i++)
        b.logits[i] = (float)below(1000) / 100.0f;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        run_case(&b, i, trie);
    mem_free(b.state);
    mem_free(b.bits);
    mem_free(b.logits);
    sampler_scratch_release(&b.sampler);
    constraint_scratch_destroy(&b.scratch);
    token_trie_destroy(&trie);
    return 0;
}
