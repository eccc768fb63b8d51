/* tests/unit/grammar/test_constraint.c - masks of tokens, against a recogniser that shares no code.
 *
 * Random expressions are written as GBNF and compiled, and matched naively as trees. Along random
 * texts every token of a random vocabulary is asked about: the mask must allow exactly those after
 * which the text can still be completed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/builder.h"
#include "core/grammar/constraint_impl.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/token_trie.h"
#include "tests/fixtures/random.h"

/* ---- random numbers ---- */

static uint64_t rng;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

/* ---- expressions ---- */

enum kind { WORD = 0, CLASS, SEQ, ALT, REPEAT, NEST, KINDS };

struct expr {
    enum kind kind;
    const char *word;   /* WORD: UTF-8; CLASS: its characters */
    struct expr *a, *b; /* SEQ, ALT; REPEAT and NEST: a */
    uint32_t min, max;  /* REPEAT; max UINT32_MAX = no limit */
    int rule;           /* written as a rule of its own: its number, or 0 */
};

static struct expr pool[256];
static size_t n_pool;
static int n_rules;

static struct expr *random_expr(int depth)
{
    static const char *const words[] = {"a",        "b",   "ab", "ba",
                                        "\xC3\xA9", "abc", "c",  "\xE2\x82\xAC"};
    static const char *const classes[] = {"a",        "ab",        "abc",
                                          "\xC3\xA9", "a\xC3\xA9", "c\xE2\x82\xAC"};
    struct expr *e = &pool[n_pool++];

    *e = (struct expr){.kind = depth == 0 ? (enum kind)below(2) : (enum kind)below(KINDS)};
    e->word = e->kind == WORD ? words[below(8)] : classes[below(6)];
    if (e->kind >= SEQ)
        e->a = random_expr(depth - 1);
    if (e->kind == SEQ || e->kind == ALT)
        e->b = random_expr(depth - 1);
    e->min = below(4) == 0 ? below(12) : below(3);
    e->max = below(3) == 0 ? UINT32_MAX : e->min + below(below(3) == 0 ? 40 : 4);
    if (e->max == 0)
        e->max = 1;
    e->rule = below(3) == 0 ? ++n_rules : 0;
    return e;
}

static void write_expr(struct buf *out, const struct expr *e, bool named);

static void write_body(struct buf *out, const struct expr *e)
{
    switch (e->kind) {
    case WORD:
        buf_printf(out, "\"%s\"", e->word);
        break;
    case CLASS:
        buf_printf(out, "[%s]", e->word);
        break;
    case SEQ:
    case ALT:
        buf_add_str(out, "(");
        write_expr(out, e->a, true);
        buf_add_str(out, e->kind == ALT ? " | " : " ");
        write_expr(out, e->b, true);
        buf_add_str(out, ")");
        break;
    case REPEAT:
        buf_add_str(out, "(");
        write_expr(out, e->a, true);
        if (e->max == UINT32_MAX)
            buf_printf(out, "){%u,}", e->min);
        else
            buf_printf(out, "){%u,%u}", e->min, e->max);
        break;
    case NEST: /* a rule of its own always: n ::= "<" (n | a)* ">" */
    case KINDS:
        buf_printf(out, "nest%d", (int)(e - pool));
        break;
    }
}

static void write_expr(struct buf *out, const struct expr *e, bool named)
{
    if (named && e->rule > 0)
        buf_printf(out, "rule%d", e->rule);
    else
        write_body(out, e);
}

static void write_grammar(struct buf *out, const struct expr *root)
{
    buf_add_str(out, "root ::= ");
    write_expr(out, root, false);
    buf_add_str(out, "\n");
    for (size_t i = 0; i < n_pool; i++) {
        if (pool[i].rule > 0) {
            buf_printf(out, "rule%d ::= ", pool[i].rule);
            write_body(out, &pool[i]);
            buf_add_str(out, "\n");
        }
        if (pool[i].kind == NEST) {
            buf_printf(out, "nest%zu ::= \"<\" (nest%zu | ", i, i);
            write_expr(out, pool[i].a, true);
            buf_add_str(out, ")* \">\"\n");
        }
    }
}

/* ---- the naive recogniser: from which places to which a tree can match ---- */

#define MAX_TEXT 48

struct match {
    uint64_t ends; /* bit i: a match can end before byte i */
    bool goes_on;  /* a match takes all of the text and wants more */
};

static const char *subject;
static uint32_t n_subject;

static struct match match(const struct expr *e, uint32_t at);

/* What is known of this subject already, by node and place. */
static struct {
    uint64_t subject;
    struct match m;
} known[256][64];
static uint64_t n_subjects;

static struct match match_all(const struct expr *e, uint64_t starts)
{
    struct match m = {0};

    for (uint32_t i = 0; i <= n_subject; i++)
        if (starts >> i & 1) {
            const struct match one = match(e, i);

            m.ends |= one.ends;
            m.goes_on |= one.goes_on;
        }
    return m;
}

static struct match match_word(const char *word, size_t n, uint32_t at)
{
    struct match m = {0};

    for (size_t i = 0; i < n; i++) {
        if (at + i == n_subject) {
            m.goes_on = true;
            return m;
        }
        if (subject[at + i] != word[i])
            return m;
    }
    m.ends = (uint64_t)1 << (at + n);
    return m;
}

static size_t char_len(char c)
{
    return (uint8_t)c < 0x80 ? 1 : (uint8_t)c < 0xE0 ? 2 : 3;
}

static struct match match_class(const struct expr *e, uint32_t at)
{
    struct match m = {0};

    for (const char *c = e->word; *c != '\0'; c += char_len(*c)) {
        const struct match one = match_word(c, char_len(*c), at);

        m.ends |= one.ends;
        m.goes_on |= one.goes_on;
    }
    return m;
}

static struct match match_repeat(const struct expr *e, uint32_t at)
{
    uint64_t now = (uint64_t)1 << at;
    struct match m = {.ends = e->min == 0 ? now : 0};

    for (uint32_t k = 1; now != 0 && k <= e->max && k <= e->min + MAX_TEXT; k++) {
        const struct match one = match_all(e->a, now);

        m.goes_on |= one.goes_on;
        if (k >= e->min)
            m.ends |= one.ends;
        now = one.ends;
    }
    return m;
}

static struct match match_nest(const struct expr *e, uint32_t at)
{
    const struct match open = match_word("<", 1, at);
    uint64_t inside = open.ends, before = 0;
    struct match m = {.goes_on = open.goes_on}, one;

    while (inside != before) {
        const uint64_t fresh = inside & ~before;

        before = inside;
        one = match_all(e, fresh);
        inside |= one.ends;
        m.goes_on |= one.goes_on;
        one = match_all(e->a, fresh);
        inside |= one.ends;
        m.goes_on |= one.goes_on;
    }
    for (uint32_t i = 0; i <= n_subject; i++)
        if (inside >> i & 1) {
            one = match_word(">", 1, i);
            m.ends |= one.ends;
            m.goes_on |= one.goes_on;
        }
    return m;
}

static struct match match_anew(const struct expr *e, uint32_t at)
{
    struct match m = {0}, first;

    switch (e->kind) {
    case WORD:
        return match_word(e->word, strlen(e->word), at);
    case CLASS:
        return match_class(e, at);
    case SEQ:
        first = match(e->a, at);
        m = match_all(e->b, first.ends);
        m.goes_on |= first.goes_on;
        return m;
    case ALT:
        first = match(e->a, at);
        m = match(e->b, at);
        return (struct match){first.ends | m.ends, first.goes_on || m.goes_on};
    case REPEAT:
        return match_repeat(e, at);
    case NEST:
        return at == n_subject ? (struct match){0, true} : match_nest(e, at);
    case KINDS:
        break;
    }
    return m;
}

static struct match match(const struct expr *e, uint32_t at)
{
    if (known[e - pool][at].subject != n_subjects) {
        known[e - pool][at].m = match_anew(e, at);
        known[e - pool][at].subject = n_subjects;
    }
    return known[e - pool][at].m;
}

static struct match match_text(const struct expr *e, const char *text, size_t n)
{
    subject = text;
    n_subject = (uint32_t)n;
    n_subjects++;
    return match(e, 0);
}

/* ---- vocabularies ---- */

#define MAX_VOCAB 4000

static struct vocab {
    char bytes[MAX_VOCAB][8];
    uint32_t len[MAX_VOCAB];
    int32_t n;
    struct token_trie *trie;
} vocab;

static void add_token(const char *bytes, uint32_t n)
{
    memcpy(vocab.bytes[vocab.n], bytes, n);
    vocab.len[vocab.n++] = n;
}

static void make_vocab(int32_t n)
{
    static const char alphabet[] = "abc<>\xC3\xA9\xE2\x82\xAC";
    static struct trie_text texts[MAX_VOCAB];
    char bytes[8];

    vocab.n = 0;
    for (size_t i = 0; i + 1 < sizeof(alphabet); i++)
        add_token(alphabet + i, 1);
    while (vocab.n < n) {
        const uint32_t len = 2 + below(6);

        for (uint32_t i = 0; i < len; i++)
            bytes[i] = alphabet[below(below(2) == 0 ? 2 : 10)];
        add_token(bytes, len);
    }
    for (int32_t i = 0; i < vocab.n; i++)
        texts[i] = (struct trie_text){vocab.bytes[i], vocab.len[i], i, false};
    assert_int_equal(token_trie_create(&vocab.trie, texts, (size_t)vocab.n, 0), 0);
}

/* ---- the comparison ---- */

static struct constraint_scratch *scratch;
#define MAX_BITS 8192
static uint32_t bits[MAX_BITS / 32 + 1];

static uint32_t n_masks, n_cut;

static bool is_allowed(int32_t id)
{
    return bits[id >> 5] >> (id & 31) & 1;
}

/* Every token, and the end: as the recogniser says? Where the mask ran out of steps tokens may be
 * missing, but none may be wrong. Returns an allowed token, or -1. */
static int32_t check_mask(const struct expr *e, const struct constraint_state *s, const char *text,
                          size_t n, const char *gbnf)
{
    const bool may_end = constraint_mask(s, scratch, bits, (uint32_t)vocab.n);
    const bool is_cut = scratch->walk->work > CONSTRAINT_MAX_WORK;
    char longer[MAX_TEXT + 8];
    int32_t picked = -1;
    uint32_t n_allowed = 0;

    n_masks++;
    n_cut += is_cut;
    memcpy(longer, text, n);
    if (may_end != (match_text(e, text, n).ends >> n & 1))
        fail_msg("end after '%.*s' of\n%s", (int)n, text, gbnf);
    for (int32_t id = 0; id < vocab.n; id++) {
        struct match m;
        bool fits;

        memcpy(longer + n, vocab.bytes[id], vocab.len[id]);
        m = match_text(e, longer, n + vocab.len[id]);
        fits = m.goes_on || (m.ends >> (n + vocab.len[id]) & 1) != 0;
        if (is_allowed(id) ? !fits : fits && !(is_cut && vocab.len[id] > 1))
            fail_msg("'%.*s' then '%.*s' is %s, of\n%s", (int)n, text, (int)vocab.len[id],
                     vocab.bytes[id], is_allowed(id) ? "allowed" : "forbidden", gbnf);
        if (is_allowed(id) && below(++n_allowed) == 0)
            picked = id;
    }
    return picked;
}

static void compare_along_a_text(const struct expr *e, const struct constraint *c, const char *gbnf)
{
    struct constraint_state *s = malloc(constraint_state_bytes());
    char text[MAX_TEXT];
    size_t n = 0;

    constraint_state_init(s, c);
    for (;;) {
        const int32_t id = check_mask(e, s, text, n, gbnf);
        enum constraint_status status;

        if (id < 0 || n + vocab.len[id] + 8 > MAX_TEXT)
            break;
        if (s->n_readings > CONSTRAINT_MAX_READINGS / 4)
            break; /* so ambiguous that readings may be left out */
        status = constraint_advance(s, scratch, vocab.bytes[id], vocab.len[id]);
        memcpy(text + n, vocab.bytes[id], vocab.len[id]);
        n += vocab.len[id];
        assert_int_not_equal(status, CONSTRAINT_BROKEN);
        assert_int_equal(status == CONSTRAINT_DONE, !match_text(e, text, n).goes_on);
    }
    free(s);
}

static bool takes_something(const struct expr *e)
{
    return match_text(e, "", 0).goes_on;
}

static uint32_t n_refused;

static uint32_t compare_random_grammar(int depth)
{
    struct constraint *c;
    struct grammar *g;
    struct expr *e;
    struct buf gbnf;
    char err[200];
    uint32_t n_places;
    int rc;

    n_pool = 0;
    n_rules = 0;
    e = random_expr(depth);
    if (!takes_something(e))
        return 0;
    buf_init(&gbnf, 1 << 20);
    write_grammar(&gbnf, e);
    rc = grammar_from_gbnf(&g, gbnf.data, gbnf.len, NULL, err, sizeof(err));
    if (rc < 0)
        fail_msg("%s\n%s", err, gbnf.data);
    rc = constraint_make(&c, g, vocab.trie, below(2) * 50, NULL, err, sizeof(err));
    if (rc < 0) { /* a tangle of counts within counts may be refused, and hardly ever is */
        assert_non_null(strstr(err, "too many alternatives"));
        assert_true(++n_refused < 10);
        grammar_destroy(&g);
        buf_release(&gbnf);
        return 0;
    }
    for (int i = 0; i < 4; i++)
        compare_along_a_text(e, c, gbnf.data);
    n_places = constraint_n_places(c);
    constraint_unref(&c);
    buf_release(&gbnf);
    return n_places;
}

static uint32_t n_times(uint32_t usual)
{
    const char *ops = getenv("QUIRE_OPS");

    return ops != NULL ? (uint32_t)strtoul(ops, NULL, 10) : usual;
}

static void random_grammars_agree_with_a_recogniser(void **state)
{
    uint32_t n_places = 0;
    (void)state;

    rng = 1;
    make_vocab(500);
    for (uint32_t i = 0; i < n_times(120); i++)
        n_places += compare_random_grammar(1 + (int)below(5));
    printf("note: %u places\n", n_places);
    assert_true(n_places > 100 && n_cut < n_masks / 20);
    token_trie_destroy(&vocab.trie);
}

static void large_vocabularies_agree_as_well(void **state)
{
    uint32_t n_places = 0;
    (void)state;

    rng = 2;
    make_vocab(MAX_VOCAB);
    for (uint32_t i = 0; i < n_times(20); i++)
        n_places += compare_random_grammar(3 + (int)below(3));
    printf("note: %u places\n", n_places);
    assert_true(n_places > 20);
    token_trie_destroy(&vocab.trie);
}

/* ---- counts ---- */

#define COUNTED_SHORT 10
#define COUNTED_LONG 100

/* All words of a and b up to 10, long rows of a, and the same with a c behind them. */
static size_t counted_vocab(char (*bytes)[COUNTED_LONG + 2], struct trie_text *texts)
{
    size_t n = 0;

    for (uint32_t len = 1; len <= COUNTED_LONG; len++)
        for (uint32_t word = 0; word < (len <= COUNTED_SHORT ? 1u << len : 1u); word++)
            for (uint32_t c = 0; c < 2; c++, n++) {
                for (uint32_t i = 0; i < len; i++)
                    bytes[n][i] = "ab"[i < 32 && (word >> i & 1)];
                bytes[n][len] = 'c';
                texts[n] = (struct trie_text){bytes[n], len + c, (int32_t)n, false};
            }
    bytes[n][0] = 'c';
    texts[n] = (struct trie_text){bytes[n], 1, (int32_t)n, false};
    return n + 1;
}

/* A token of k letters fits where k are left; one with a c where the count is reached, too. */
static void check_count(const struct constraint_state *s, uint32_t n,
                        char (*bytes)[COUNTED_LONG + 2], const uint32_t *len, size_t n_vocab,
                        uint32_t min, uint32_t max)
{
    assert_false(constraint_mask(s, scratch, bits, (uint32_t)n_vocab));
    for (size_t id = 0; id < n_vocab; id++) {
        const bool ends = bytes[id][len[id] - 1] == 'c';
        const uint32_t after = n + len[id] - ends;

        if (is_allowed((int32_t)id) != (after <= max && (!ends || after >= min)))
            fail_msg("after %u letters, token %.*s", n, (int)len[id], bytes[id]);
    }
}

static void counts_are_kept_to_the_end(void **state)
{
    static char bytes[2 * (2 << COUNTED_SHORT) + 2 * COUNTED_LONG][COUNTED_LONG + 2];
    static struct trie_text texts[sizeof(bytes) / sizeof(bytes[0])];
    static uint32_t len[sizeof(bytes) / sizeof(bytes[0])];
    static const char gbnf[] = "root ::= [ab]{30,90} \"c\"";
    struct constraint_state *s = malloc(constraint_state_bytes());
    const size_t n_vocab = counted_vocab(bytes, texts);
    struct token_trie *trie;
    struct constraint *c;
    struct grammar *g;
    char err[200];
    (void)state;

    assert_true(n_vocab > 2 * PLACE_FEW && n_vocab <= MAX_BITS);
    for (size_t i = 0; i < n_vocab; i++)
        len[i] = texts[i].n;
    assert_int_equal(token_trie_create(&trie, texts, n_vocab, 0), 0);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&c, g, trie, NULL, err, sizeof(err)), 0);
    assert_true(constraint_n_places(c) > 0);
    constraint_state_init(s, c);
    for (uint32_t n = 0; n <= 90; n++) {
        check_count(s, n, bytes, len, n_vocab, 30, 90);
        assert_int_equal(constraint_advance(s, scratch, n < 90 ? "b" : "c", 1),
                         n < 90 ? CONSTRAINT_OPEN : CONSTRAINT_DONE);
    }
    constraint_unref(&c);
    token_trie_destroy(&trie);
    free(s);
}

/* ---- limits ---- */

static const char *bytes_only(struct token_trie **trie)
{
    static char all[256];
    struct trie_text texts[256];

    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        texts[i] = (struct trie_text){all + i, 1, i, false};
    }
    assert_int_equal(token_trie_create(trie, texts, 256, 0), 0);
    return all;
}

/* A grammar with ever more readings: the mask keeps its bound, and what it allows goes on. */
static void ambiguity_is_bounded(void **state)
{
    static const char *const tangled[] = {
        "root ::= x+ \"!\"\nx ::= \"a\" x \"b\" | \"a\" x \"c\" | \"a\" x | \"a\"",
        "root ::= (([ab]{0,30} [ab]{0,30}){1,30} \"!\")",
        "root ::= \"(\" root \")\" | \"(\" root | \"x\"",
    };
    struct constraint_state *s = malloc(constraint_state_bytes());
    struct token_trie *trie;
    char err[200];
    (void)state;

    bytes_only(&trie);
    rng = 3;
    for (size_t i = 0; i < 3; i++) {
        struct constraint *c;
        struct grammar *g;
        int rc;

        assert_int_equal(
            grammar_from_gbnf(&g, tangled[i], strlen(tangled[i]), NULL, err, sizeof(err)), 0);
        rc = constraint_create(&c, g, trie, NULL, err, sizeof(err));
        if (rc < 0) { /* refusing it is an answer */
            assert_int_equal(rc, ERR_LIMIT);
            grammar_destroy(&g);
            continue;
        }
        constraint_state_init(s, c);
        for (int n = 0; n < 600; n++) {
            uint32_t n_allowed = 0;
            char byte = 0;

            constraint_mask(s, scratch, bits, 256);
            for (int id = 0; id < 256; id++)
                if (is_allowed(id) && below(++n_allowed) == 0)
                    byte = (char)id;
            if (n_allowed == 0)
                break;
            assert_true(s->n_readings <= CONSTRAINT_MAX_READINGS);
            assert_int_not_equal(constraint_advance(s, scratch, &byte, 1), CONSTRAINT_BROKEN);
        }
        constraint_unref(&c);
    }
    token_trie_destroy(&trie);
    free(s);
}

/* A vocabulary without some bytes: what cannot be spelled is never begun. */
static void unspellable_ways_are_not_taken(void **state)
{
    struct trie_text texts[] = {{"a", 1, 0, false}, {"b", 1, 1, false}, {"ac", 2, 2, false}};
    static const char gbnf[] = "root ::= \"a\" \"c\" \"c\" | \"a\" \"b\"";
    static const char never[] = "root ::= \"c\"";
    struct constraint_state *s = malloc(constraint_state_bytes());
    struct token_trie *trie;
    struct constraint *c;
    struct grammar *g;
    char err[200];
    (void)state;

    assert_int_equal(token_trie_create(&trie, texts, 3, 0), 0);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&c, g, trie, NULL, err, sizeof(err)), 0);
    constraint_state_init(s, c);
    assert_false(constraint_mask(s, scratch, bits, 3));
    assert_int_equal(bits[0], 1);
    assert_int_equal(constraint_take(s, scratch, 0), CONSTRAINT_OPEN);
    assert_int_equal(constraint_take(s, scratch, 2), CONSTRAINT_BROKEN);
    assert_int_equal(constraint_take(s, scratch, 1), CONSTRAINT_DONE);
    constraint_unref(&c);
    assert_int_equal(grammar_from_gbnf(&g, never, strlen(never), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&c, g, trie, NULL, err, sizeof(err)), ERR_UNSUPPORTED);
    grammar_destroy(&g);
    token_trie_destroy(&trie);
    free(s);
}

/* A control token is its name between two bytes that no text has: where the grammar wants it
 * nothing else is allowed, and where it wants the letters the token is not. */
static void control_tokens_are_no_text(void **state)
{
    struct trie_text texts[] = {{"<", 1, 0, false},    {"f", 1, 1, false},
                                {">", 1, 2, false},    {"\xff", 1, 3, false},
                                {"<f>", 3, 4, true},   {"\xff<f>\xff", 5, 4, false},
                                {"<f>>", 4, 5, true},  {"\xff<f>>\xff", 6, 5, false},
                                {"\xff<", 2, 6, false}};
    struct constraint_state *s = malloc(constraint_state_bytes());
    struct grammar_builder *b;
    struct token_trie *trie;
    struct constraint *c;
    struct grammar *g;
    char err[200];
    uint32_t root;
    (void)state;

    assert_int_equal(token_trie_create(&trie, texts, 9, 7), 0);
    assert_int_equal(token_trie_mark_at(trie, "<f>1"), 3);
    assert_int_equal(token_trie_mark_at(trie, "<f>>"), 4);
    assert_int_equal(token_trie_mark_at(trie, "f>"), 0);
    assert_int_equal(grammar_builder_create(&b, NULL), 0);
    root = grammar_rule(b, "root");
    grammar_define(b, root,
                   grammar_then(b, grammar_bytes(b, "\xff<f>\xff", 5), grammar_text(b, "<f>")));
    assert_int_equal(grammar_builder_finish(b, &g, err, sizeof(err)), 0);
    grammar_builder_destroy(&b);
    assert_int_equal(constraint_create(&c, g, trie, NULL, err, sizeof(err)), 0);
    constraint_state_init(s, c);
    assert_false(constraint_mask(s, scratch, bits, 7));
    assert_int_equal(bits[0], 1 << 4);
    assert_int_equal(constraint_advance(s, scratch, "\xff<f>\xff", 5), CONSTRAINT_OPEN);
    assert_false(constraint_mask(s, scratch, bits, 7));
    assert_int_equal(bits[0], 1 << 0);
    assert_int_equal(constraint_take(s, scratch, 4), CONSTRAINT_BROKEN);
    assert_int_equal(constraint_take(s, scratch, 0), CONSTRAINT_OPEN);
    constraint_unref(&c);
    token_trie_destroy(&trie);
    free(s);
}

/* States are plain memory: a copy goes its own way. */
static void states_are_copied(void **state)
{
    static const char gbnf[] = "root ::= \"a\"{3} | \"b\"";
    struct constraint_state *s = malloc(constraint_state_bytes());
    struct constraint_state *copy = malloc(constraint_state_bytes());
    struct token_trie *trie;
    struct constraint *c;
    struct grammar *g;
    char err[200];
    (void)state;

    bytes_only(&trie);
    assert_int_equal(grammar_from_gbnf(&g, gbnf, strlen(gbnf), NULL, err, sizeof(err)), 0);
    assert_int_equal(constraint_create(&c, g, trie, NULL, err, sizeof(err)), 0);
    constraint_state_init(s, c);
    memcpy(copy, s, constraint_state_bytes());
    assert_int_equal(constraint_advance(s, scratch, "aa", 2), CONSTRAINT_OPEN);
    assert_int_equal(constraint_advance(copy, scratch, "b", 1), CONSTRAINT_DONE);
    assert_int_equal(constraint_advance(s, scratch, "b", 1), CONSTRAINT_BROKEN);
    assert_int_equal(constraint_advance(s, scratch, "a", 1), CONSTRAINT_DONE);
    assert_true(constraint_may_end(s, scratch));
    constraint_unref(&c);
    token_trie_destroy(&trie);
    free(copy);
    free(s);
}

static int set_up(void **state)
{
    (void)state;
    return constraint_scratch_create(&scratch);
}

static int tear_down(void **state)
{
    (void)state;
    constraint_scratch_destroy(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_agree_with_a_recogniser),
        cmocka_unit_test(large_vocabularies_agree_as_well),
        cmocka_unit_test(counts_are_kept_to_the_end),
        cmocka_unit_test(ambiguity_is_bounded),
        cmocka_unit_test(unspellable_ways_are_not_taken),
        cmocka_unit_test(control_tokens_are_no_text),
        cmocka_unit_test(states_are_copied),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
