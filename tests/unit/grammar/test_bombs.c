/* tests/unit/grammar/test_bombs.c - small texts that ask for much work: compiling each ends within
 * the steps that a request has, and masks and steps of what was compiled take a bounded time.
 *
 * Times are of the thread's CPU, and only a bound that a slow machine keeps under a sanitizer is
 * insisted on; steps are counted, and do not depend on the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/regex.h"
#include "core/grammar/token_trie.h"
#include "tests/fixtures/random.h"
#include "tests/fixtures/seconds.h"

#define MOST_COMPILE_MS 20000 /* a second on a slow core; sanitizers take ten times as long */
#define MOST_MASK_MS 3000
#define N_WORDS 30000
#define N_TOKENS 60 /* taken of each constraint */

static struct token_trie *trie;
static uint64_t rng = 5;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

static double now_ms(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID) * 1e3;
}

/* All bytes, runs of the letters that bombs are made of, and words. */
static int make_trie(void **state)
{
    static char bytes[256 + N_WORDS][24];
    static struct trie_text texts[256 + N_WORDS];
    static const char letters[] = "aaaaaaabbbxyz01 \"\"{}[],:\n";

    (void)state;
    for (int32_t i = 0; i < 256 + N_WORDS; i++) {
        const uint32_t n = i < 256 ? 1 : 2 + below(20);

        for (uint32_t k = 0; k < n; k++)
            bytes[i][k] = i < 256 ? (char)i
                          : i % 8 == 0 ? 'a'
                                       : letters[below(sizeof(letters) - 1)];
        texts[i] = (struct trie_text){bytes[i], n, i, false};
    }
    return token_trie_create(&trie, texts, 256 + N_WORDS, 256 + N_WORDS);
}

static int drop_trie(void **state)
{
    (void)state;
    token_trie_destroy(&trie);
    return 0;
}

/* ---- texts ---- */

static void repeat(struct buf *b, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++)
        buf_add_str(b, what);
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* rules are made from patterns */
static void add_number(struct buf *b, const char *format, uint32_t i, uint32_t k)
{
    char text[200];

    snprintf(text, sizeof(text), format, i, k);
    buf_add_str(b, text);
}

static void literal(struct buf *b)
{
    buf_add_str(b, "root ::= \"");
    repeat(b, 100000, "ab");
    buf_add_str(b, "\"");
}

static void ambiguous_alternatives(struct buf *b)
{
    buf_add_str(b, "root ::= ");
    for (uint32_t i = 0; i < 2000; i++)
        add_number(b, i > 0 ? " | \"aaaa%u\"" : "\"aaaa%u\"", i, 0);
}

static void forked_rules(struct buf *b)
{
    buf_add_str(b, "root ::= x0\n");
    for (uint32_t i = 0; i < 60; i++)
        add_number(b, "x%u ::= x%u", i, i + 1), add_number(b, " | x%u\n", i + 1, 0);
    buf_add_str(b, "x60 ::= \"a\"\n");
}

/* As above, and what comes back is told apart: 2^60 stacks. */
static void forked_stacks(struct buf *b)
{
    buf_add_str(b, "root ::= x0\n");
    for (uint32_t i = 0; i < 60; i++)
        add_number(b, "x%u ::= x%u \"a\"", i, i + 1), add_number(b, " | x%u \"b\"\n", i + 1, 0);
    buf_add_str(b, "x60 ::= \"a\"\n");
}

static void empty_forks(struct buf *b)
{
    buf_add_str(b, "root ::= ");
    repeat(b, 200, "(\"a\"? | \"b\"?) ");
}

static void all_optional(struct buf *b)
{
    buf_add_str(b, "root ::= ");
    repeat(b, 20000, "\"a\"? ");
}

static void alternatives_without_end(struct buf *b)
{
    buf_add_str(b, "root ::= \"a\"");
    repeat(b, 60000, "|\"a\"");
}

static void nullable_calls(struct buf *b)
{
    buf_add_str(b, "x ::= \"a\"?\nroot ::= ");
    repeat(b, 40000, "x ");
}

static void deep_rules(struct buf *b)
{
    buf_add_str(b, "root ::= x0\n");
    for (uint32_t i = 0; i < 8000; i++)
        add_number(b, "x%u ::= \"a\" x%u \"b\" | \"c\"\n", i, i + 1);
    buf_add_str(b, "x8000 ::= \"a\"\n");
}

static void palindromes(struct buf *b)
{
    buf_add_str(b, "root ::= x \"z\"\n"
                   "x ::= \"a\" x \"b\" | \"a\" x \"a\" | \"a\" x \"x\" | \"\"\n");
}

static void sums(struct buf *b)
{
    buf_add_str(b, "root ::= e\ne ::= t | t e | t e e\nt ::= \"a\" | \"a\" t | \"(\" e \")\"\n");
}

static void counted_in_counted(struct buf *b)
{
    buf_add_str(b, "root ::= ((((\"a\"{1,100}){1,100}){1,100} \"x\"?){0,1000})*\n");
}

static void many_loops(struct buf *b)
{
    buf_add_str(b, "v ::= \"a\" | \"b\" v | [x-z] v v\n");
    for (uint32_t i = 0; i < 200; i++)
        add_number(b, "r%u ::= (v \"%u\"){2,9000}\n", i, i);
    buf_add_str(b, "root ::= r0");
    for (uint32_t i = 1; i < 200; i++)
        add_number(b, " | r%u", i, 0);
}

static void names_that_collide(struct buf *b)
{
    for (uint32_t i = 0; i < 9000; i++)
        add_number(b, i == 0 ? "root ::= r1\n" : "r%u ::= \"a\" r%u\n", i, i + 1);
    buf_add_str(b, "r9000 ::= \"a\"\n");
}

static void wide_classes(struct buf *b)
{
    buf_add_str(b, "root ::= ");
    for (uint32_t i = 0; i < 100; i++) {
        buf_add_str(b, "[");
        for (uint32_t k = 0; k < 240; k++)
            add_number(b, "\\U%08X", 0x10000 + 0x37 * (k * 17 + i), 0);
        buf_add_str(b, "]");
    }
}

static void nested_groups(struct buf *b)
{
    buf_add_str(b, "root ::= ");
    repeat(b, 120, "(");
    buf_add_str(b, "\"a\"");
    repeat(b, 120, ")*");
}

/* ---- expressions ---- */

static void plain(struct buf *b, const char *text)
{
    buf_add_str(b, text);
}

static void regex_stars(struct buf *b) { plain(b, "(a|a)*(a*)*((a*)*)*(a|aa|aaa)*b"); }
static void regex_counts(struct buf *b) { plain(b, "((a{1,100}){1,100}){1,100}"); }
static void regex_more_counts(struct buf *b) { plain(b, "((a{0,100000}){0,100000}b?){0,100000}"); }
static void regex_dots(struct buf *b) { plain(b, "(.*a){50}(.*b){50}"); }
static void regex_window(struct buf *b) { plain(b, "[ab]*a[ab]{2000}"); }
static void regex_window_wide(struct buf *b) { plain(b, ".*a.{0,250}x.{0,250}y"); }

static void regex_optional(struct buf *b)
{
    repeat(b, 3000, "a?");
    repeat(b, 3000, "a");
}

static void regex_alternatives(struct buf *b)
{
    repeat(b, 100000, "a|");
    buf_add_str(b, "a");
}

static void regex_classes(struct buf *b)
{
    repeat(b, 4000, "[^a-z0-9\\W]");
}

static void regex_nested(struct buf *b)
{
    repeat(b, 120, "(a|");
    buf_add_str(b, "b");
    repeat(b, 120, ")*");
}

static void regex_looks(struct buf *b) { plain(b, "(?=(.*a){30})(?=(.*b){30})(?!(.*c){30}).*"); }
static void regex_look_window(struct buf *b) { plain(b, "(?=.*a.{1000}b)(?!.*b.{1000}a).*"); }
static void regex_unfolded(struct buf *b) { plain(b, "(((\\ba|b\\b){64} ){64}c){64}"); }
static void regex_tempered(struct buf *b) { plain(b, "((?!(a|b)*c)(a|b(?=(a|c)*b)))*(a?){60}"); }

static void regex_properties(struct buf *b)
{
    repeat(b, 400, "\\p{L}");
}

static void regex_nested_looks(struct buf *b)
{
    repeat(b, 60, "(?!.*a.*b(?=");
    buf_add_str(b, "c");
    repeat(b, 60, "))x*");
}

/* ---- schemas ---- */

static void definitions(struct buf *b, uint32_t n, const char *fork, const char *last)
{
    buf_add_str(b, "{\"$ref\":\"#/$defs/x0\",\"$defs\":{");
    for (uint32_t i = 0; i < n; i++)
        add_number(b, fork, i, i + 1);
    add_number(b, "\"x%u\":", n, 0);
    buf_add_str(b, last);
    buf_add_str(b, "}}");
}

#define TWICE(what)                                                                                \
    "\"x%1$u\":{\"" what "\":[{\"$ref\":\"#/$defs/x%2$u\"},{\"$ref\":\"#/$defs/x%2$u\"}]},"

static void schema_any_of(struct buf *b)
{
    definitions(b, 40, TWICE("anyOf"), "{\"type\":\"null\"}");
}
static void schema_any_of_long(struct buf *b)
{
    definitions(b, 2500, TWICE("anyOf"), "{\"type\":\"object\"}");
}
static void schema_all_of(struct buf *b)
{
    definitions(b, 100, TWICE("allOf"), "{\"type\":\"object\",\"properties\":{\"a\":{}}}");
}
static void schema_one_of(struct buf *b)
{
    definitions(b, 40, TWICE("oneOf"), "{\"type\":\"null\"}");
}

static void schema_forked_properties(struct buf *b)
{
    definitions(b, 60,
                "\"x%1$u\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/x%2$u\"},"
                "\"b\":{\"$ref\":\"#/$defs/x%2$u\"}}},",
                "{\"type\":\"null\"}");
}

static void schema_forked_arrays(struct buf *b)
{
    definitions(b, 60,
                "\"x%1$u\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/x%2$u\"}},"
                "{\"$ref\":\"#/$defs/x%2$u\"}]},",
                "{\"type\":\"null\"}");
}

static void schema_cycle(struct buf *b)
{
    buf_add_str(b, "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/b\"},"
                   "{\"$ref\":\"#/$defs/b\"}]},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},"
                   "{\"type\":\"null\"}]}}}");
}

static void schema_recursive_all_of(struct buf *b)
{
    buf_add_str(b,
                "{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"}],\"$defs\":{"
                "\"a\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/a\"},\"m\":"
                "{\"$ref\":\"#/$defs/b\"}}},\"b\":{\"type\":\"object\",\"properties\":{\"n\":"
                "{\"$ref\":\"#/$defs/b\"},\"m\":{\"$ref\":\"#/$defs/a\"}}}}}");
}

static void schema_nested_unions(struct buf *b)
{
    for (uint32_t i = 0; i < 12; i++)
        buf_add_str(b, "{\"allOf\":[{\"anyOf\":[{\"minLength\":1},{\"maxLength\":9}]},");
    buf_add_str(b, "{\"type\":\"string\"}");
    repeat(b, 12, "]}");
}

static void schema_pattern_keys(struct buf *b)
{
    buf_add_str(b, "{\"patternProperties\":{");
    for (uint32_t i = 0; i < 6; i++)
        add_number(b, i > 0 ? ",\"(a|b)*%u(a|b){%u}\":{}" : "\"(a|b)*%u(a|b){%u}\":{}", i, 3 + i);
    buf_add_str(b, "},\"propertyNames\":{\"maxLength\":500},\"additionalProperties\":{}}");
}

static void schema_pattern_names(struct buf *b)
{
    buf_add_str(b, "{\"properties\":{");
    for (uint32_t i = 0; i < 900; i++)
        add_number(b, i > 0 ? ",\"%u-%x\":{}" : "\"%u-%x\":{}", i * 7919, i * 104729);
    buf_add_str(b, "},\"patternProperties\":{\"1.*2\":{},\"3.*4\":{}},\"minProperties\":3,"
                   "\"additionalProperties\":{}}");
}

static void schema_counted(struct buf *b)
{
    buf_add_str(b, "{\"minProperties\":60,\"properties\":{");
    for (uint32_t i = 0; i < 64; i++)
        add_number(b, i > 0 ? ",\"p%u\":{}" : "\"p%u\":{}", i, 0);
    buf_add_str(b, "}}");
}

static void schema_unique_sets(struct buf *b)
{
    buf_add_str(b,
                "{\"items\":{\"uniqueItems\":true,\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9,10]}}}");
}

static void schema_many_multiples(struct buf *b)
{
    buf_add_str(b, "{\"type\":\"array\",\"prefixItems\":[");
    for (uint32_t i = 0; i < 200; i++)
        add_number(b, i > 0 ? ",{\"multipleOf\":%u}" : "{\"multipleOf\":%u}", 201 + i, 0);
    buf_add_str(b, "]}");
}

static void deep_value(struct buf *b, uint32_t n, const char *last)
{
    repeat(b, n, "{\"a\":");
    buf_add_str(b, last);
    repeat(b, n, "}");
}

/* cJSON compares each member from both sides: 2^90 times here. */
static void schema_deep_values(struct buf *b)
{
    buf_add_str(b, "{\"oneOf\":[{\"const\":");
    deep_value(b, 90, "1");
    buf_add_str(b, "},{\"const\":");
    deep_value(b, 90, "2");
    buf_add_str(b, "}]}");
}

static void schema_big_enums(struct buf *b)
{
    buf_add_str(b, "{\"allOf\":[{\"enum\":[");
    for (uint32_t i = 0; i < 12000; i++)
        add_number(b, i > 0 ? ",%u" : "%u", i, 0);
    buf_add_str(b, "]},{\"enum\":[");
    for (uint32_t i = 12000; i-- > 0;)
        add_number(b, i > 0 ? "%u," : "%u", i, 0);
    buf_add_str(b, "]}]}");
}

static void schema_wide_merge(struct buf *b)
{
    for (int k = 0; k < 2; k++) {
        buf_add_str(b, k == 0 ? "{\"allOf\":[{\"properties\":{" : "}},{\"properties\":{");
        for (uint32_t i = 0; i < 9000; i++)
            add_number(b, i > 0 ? ",\"%u_%u\":{}" : "\"%u_%u\":{}", i, (uint32_t)k);
    }
    buf_add_str(b, "}}]}");
}

static void schema_many_required(struct buf *b)
{
    buf_add_str(b, "{\"type\":\"object\",\"properties\":{");
    for (uint32_t i = 0; i < 900; i++)
        add_number(b, i > 0 ? ",\"p%u\":{}" : "\"p%u\":{}", i, 0);
    buf_add_str(b, "},\"required\":[\"p899\"");
    repeat(b, 30000, ",\"p899\"");
    buf_add_str(b, "]}");
}

static void schema_optional(struct buf *b)
{
    buf_add_str(b, "{\"type\":\"object\",\"additionalProperties\":true,\"properties\":{");
    for (uint32_t i = 0; i < 999; i++)
        add_number(b, i > 0 ? ",\"some_property_%u\":{}" : "\"some_property_%u\":{}", i, 0);
    buf_add_str(b, "}}");
}

static void schema_one_of_objects(struct buf *b)
{
    buf_add_str(b, "{\"oneOf\":[");
    for (uint32_t i = 0; i < 250; i++) {
        add_number(b, i > 0 ? ",{\"type\":\"object\",\"required\":[" :
                              "{\"type\":\"object\",\"required\":[", i, 0);
        for (uint32_t k = 0; k < 40; k++)
            add_number(b, k > 0 ? ",\"k%u\"" : "\"k%u\"", k, 0);
        add_number(b, "],\"properties\":{\"k0\":{\"const\":%u}", i, 0);
        for (uint32_t k = 1; k < 20; k++)
            add_number(b, ",\"k%u\":{}", k, 0);
        buf_add_str(b, "}}");
    }
    buf_add_str(b, "]}");
}

static void schema_patterns(struct buf *b)
{
    buf_add_str(b, "{\"anyOf\":[");
    for (uint32_t i = 0; i < 250; i++)
        add_number(b, i > 0 ? ",{\"type\":\"string\",\"pattern\":\"a.*b.*%u\"}"
                            : "{\"type\":\"string\",\"pattern\":\"a.*b.*%u\"}", i, 0);
    buf_add_str(b, "]}");
}

static void schema_counts(struct buf *b)
{
    buf_add_str(b, "{\"type\":\"array\",\"minItems\":99999,\"maxItems\":100000,\"items\":{\"type\":"
                   "\"array\",\"minItems\":90000,\"items\":{\"type\":\"string\","
                   "\"minLength\":90000,"
                   "\"maxLength\":99999}}}");
}

static void schema_references(struct buf *b)
{
    buf_add_str(b, "{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#/$defs/x5999\"}");
    for (uint32_t i = 0; i < 4000; i++)
        add_number(b, ",{\"$ref\":\"#/$defs/x%u\"}", 5999 - i, 0);
    buf_add_str(b, "],\"$defs\":{\"x\":{}");
    for (uint32_t i = 0; i < 6000; i++)
        add_number(b, ",\"x%u\":{\"type\":\"null\"}", i, 0);
    buf_add_str(b, "}}");
}

/* ---- all of them ---- */

enum notation { GBNF, REGEX, SCHEMA };

struct bomb {
    const char *name;
    enum notation notation;
    void (*write)(struct buf *b);
    int rc; /* 0, or 1: it may be refused */
};

static const struct bomb bombs[] = {
    {"gbnf: a literal of 200 KB", GBNF, literal, 1},
    {"gbnf: 2,000 ambiguous alternatives", GBNF, ambiguous_alternatives, 1},
    {"gbnf: rules that fork", GBNF, forked_rules, 0},
    {"gbnf: rules that fork, and come back apart", GBNF, forked_stacks, 1},
    {"gbnf: empty forks", GBNF, empty_forks, 0},
    {"gbnf: 20,000 options", GBNF, all_optional, 1},
    {"gbnf: 60,000 alternatives", GBNF, alternatives_without_end, 1},
    {"gbnf: 40,000 calls of what may be empty", GBNF, nullable_calls, 1},
    {"gbnf: 8,000 rules within each other", GBNF, deep_rules, 1},
    {"gbnf: palindromes", GBNF, palindromes, 1},
    {"gbnf: sums", GBNF, sums, 1},
    {"gbnf: counts within counts", GBNF, counted_in_counted, 1},
    {"gbnf: 200 loops over one rule", GBNF, many_loops, 1},
    {"gbnf: 9,000 rules", GBNF, names_that_collide, 1},
    {"gbnf: wide classes", GBNF, wide_classes, 1},
    {"gbnf: nested groups", GBNF, nested_groups, 1},
    {"regex: stars", REGEX, regex_stars, 0},
    {"regex: counts", REGEX, regex_counts, 1},
    {"regex: more counts", REGEX, regex_more_counts, 1},
    {"regex: dots", REGEX, regex_dots, 1},
    {"regex: a window", REGEX, regex_window, 1},
    {"regex: a wide window", REGEX, regex_window_wide, 1},
    {"regex: options", REGEX, regex_optional, 1},
    {"regex: alternatives", REGEX, regex_alternatives, 1},
    {"regex: classes", REGEX, regex_classes, 1},
    {"regex: nested", REGEX, regex_nested, 1},
    {"regex: looks", REGEX, regex_looks, 1},
    {"regex: a window to look at", REGEX, regex_look_window, 1},
    {"regex: looks unfolded", REGEX, regex_unfolded, 1},
    {"regex: tempered", REGEX, regex_tempered, 1},
    {"regex: properties", REGEX, regex_properties, 1},
    {"regex: nested looks", REGEX, regex_nested_looks, 1},
    {"schema: anyOf twice the next, 40", SCHEMA, schema_any_of, 0},
    {"schema: anyOf twice the next, 2,500", SCHEMA, schema_any_of_long, 1},
    {"schema: allOf twice the next", SCHEMA, schema_all_of, 0},
    {"schema: oneOf twice the next", SCHEMA, schema_one_of, 1},
    {"schema: properties twice the next", SCHEMA, schema_forked_properties, 0},
    {"schema: arrays of the next, or the next", SCHEMA, schema_forked_arrays, 1},
    {"schema: a cycle", SCHEMA, schema_cycle, 1},
    {"schema: a recursive allOf", SCHEMA, schema_recursive_all_of, 1},
    {"schema: nested unions", SCHEMA, schema_nested_unions, 1},
    {"schema: deep values", SCHEMA, schema_deep_values, 0},
    {"schema: big enums", SCHEMA, schema_big_enums, 1},
    {"schema: wide merge", SCHEMA, schema_wide_merge, 1},
    {"schema: many required", SCHEMA, schema_many_required, 1},
    {"schema: 999 optional properties", SCHEMA, schema_optional, 1},
    {"schema: oneOf 250 objects", SCHEMA, schema_one_of_objects, 1},
    {"schema: 250 patterns", SCHEMA, schema_patterns, 1},
    {"schema: counts", SCHEMA, schema_counts, 1},
    {"schema: keys by patterns", SCHEMA, schema_pattern_keys, 1},
    {"schema: names and patterns", SCHEMA, schema_pattern_names, 1},
    {"schema: counted members", SCHEMA, schema_counted, 1},
    {"schema: sets of items", SCHEMA, schema_unique_sets, 1},
    {"schema: many multiples", SCHEMA, schema_many_multiples, 1},
    {"schema: references", SCHEMA, schema_references, 1},
};

static int make_grammar(struct grammar **g, enum notation notation, const struct buf *text,
                        struct budget *budget, char *err, size_t err_len)
{
    cJSON *schema;
    int rc;

    if (notation == GBNF)
        return grammar_from_gbnf(g, text->data, text->len, budget, err, err_len);
    if (notation == REGEX)
        return grammar_from_regex(g, text->data, text->len, budget, err, err_len);
    schema = cJSON_Parse(text->data);
    assert_non_null(schema);
    rc = schema_to_grammar(g, schema, budget, err, err_len);
    cJSON_Delete(schema);
    return rc;
}

/* What took longest of masks and steps along a random text, in ms. */
static double walk(struct constraint *c)
{
    struct constraint_state *s = malloc(constraint_state_bytes());
    uint32_t *bits = calloc(trie->n_vocab / 32 + 1, sizeof(*bits));
    struct constraint_scratch *scratch;
    enum constraint_status status = CONSTRAINT_OPEN;
    double most = 0;

    assert_int_equal(constraint_scratch_create(&scratch), 0);
    constraint_state_init(s, c);
    for (int i = 0; i < N_TOKENS && status == CONSTRAINT_OPEN; i++) {
        const uint32_t from = below(trie->n_vocab);
        const double start = now_ms();
        uint32_t id = trie->n_vocab;

        constraint_mask(s, scratch, bits, trie->n_vocab);
        for (uint32_t k = 0; k < trie->n_vocab && id == trie->n_vocab; k++)
            if (bits[(from + k) % trie->n_vocab >> 5] >> ((from + k) % trie->n_vocab & 31) & 1)
                id = (from + k) % trie->n_vocab;
        if (id == trie->n_vocab)
            break;
        status = constraint_take(s, scratch, (int32_t)id);
        if (now_ms() - start > most)
            most = now_ms() - start;
    }
    assert_int_not_equal(status, CONSTRAINT_BROKEN); /* it was allowed */
    constraint_scratch_destroy(&scratch);
    free(bits);
    free(s);
    return most;
}

static void try_bomb(const struct bomb *bomb)
{
    struct budget budget = {.steps_left = BUDGET_REQUEST_STEPS};
    struct constraint *c = NULL;
    struct grammar *g = NULL;
    char err[300] = "";
    struct buf text;
    double start, took, masks = 0;
    int rc;

    buf_init(&text, 1u << 20);
    bomb->write(&text);
    assert_true(text.err == 0 && text.len <= 256 << 10);
    alarm(120);
    start = now_ms();
    rc = make_grammar(&g, bomb->notation, &text, &budget, err, sizeof(err));
    if (rc == 0)
        rc = constraint_create(&c, g, trie, &budget, err, sizeof(err));
    took = now_ms() - start;
    if (rc == 0)
        masks = walk(c);
    else
        grammar_destroy(&g);
    alarm(0);
    printf("note: %-46s %7.1f ms, %5.1f M steps, mask and step %6.1f ms: %s\n", bomb->name, took,
           (double)(BUDGET_REQUEST_STEPS - budget.steps_left) / 1e6, masks, rc == 0 ? "ok" : err);
    fflush(stdout);
    if (took > MOST_COMPILE_MS || masks > MOST_MASK_MS || (rc < 0 && bomb->rc == 0))
        fail_msg("%s: rc %d, %s", bomb->name, rc, err);
    assert_true(rc == 0 || err[0] != '\0');
    constraint_unref(&c);
    buf_release(&text);
}

/* A budget in which nothing is left, or whose owner has left. */
static void try_without_steps(const struct bomb *bomb, struct budget budget)
{
    struct constraint *c = NULL;
    struct grammar *g = NULL;
    char err[300] = "";
    struct buf text;
    int rc;

    buf_init(&text, 1u << 20);
    bomb->write(&text);
    rc = make_grammar(&g, bomb->notation, &text, &budget, err, sizeof(err));
    if (rc == 0)
        rc = constraint_create(&c, g, trie, &budget, err, sizeof(err));
    if (budget.err < 0) {
        assert_int_equal(rc, budget.err);
        assert_null(c);
    }
    if (budget.err == ERR_LIMIT)
        assert_non_null(strstr(err, "too many steps"));
    if (rc < 0)
        grammar_destroy(&g);
    constraint_unref(&c);
    buf_release(&text);
}

static void without_steps_everything_ends(void **state)
{
    const atomic_bool canceled = true;
    (void)state;

    for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
        try_without_steps(&bombs[i], (struct budget){.steps_left = UINT64_MAX,
                                                     .canceled = &canceled});
        for (uint64_t most = 1; most < 3000000; most *= 7)
            try_without_steps(&bombs[i], (struct budget){.steps_left = most});
    }
}

static void bombs_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++)
        try_bomb(&bombs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bombs_end),
        cmocka_unit_test(without_steps_everything_ends),
    };
    return cmocka_run_group_tests(tests, make_trie, drop_trie);
}
