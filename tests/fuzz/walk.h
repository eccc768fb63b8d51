/* tests/fuzz/walk.h - what fuzz targets of grammars share: a small vocabulary, and texts that are
 * grown from allowed tokens.
 *
 * The vocabulary has all bytes, so that at every point a token is allowed or the text may end.
 *
 * Thread: one. Memory: the trie lives as long as the process.
 */
#ifndef TESTS_FUZZ_WALK_H
#define TESTS_FUZZ_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/grammar/grammar.h"
#include "core/grammar/token_trie.h"
#include "tests/fuzz/target.h"

#define WALK_STEPS 2000000 /* of a budget: sanitizers make each ten times as long */
#define WALK_MOST 16       /* tokens of one text: a mask may take 5 ms, and ten times that here */

static inline const struct token_trie *walk_trie(void)
{
    static const char *const words[] = {"aa",   "ab",  "aaa",    "bc",   "abc",   "{\"", "\":",
                                        "\",",  "\"}", "[[",     "]]",   "true",  "null", "false",
                                        "12",   "0.",  "-1",     "1e1",  ", ",    ": ",   "\"a\":",
                                        "\xc3\xa9", "\\u", "\\n", "\xf0\x9f", "xyz", "  ", "\n\n"};
    enum { N_WORDS = sizeof(words) / sizeof(words[0]) };
    static struct token_trie *trie;
    static char bytes[256];
    static struct trie_text texts[256 + N_WORDS];

    if (trie != NULL)
        return trie;
    for (int32_t i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (struct trie_text){&bytes[i], 1, i, false};
    }
    for (int32_t i = 0; i < N_WORDS; i++)
        texts[256 + i] = (struct trie_text){words[i], (uint32_t)strlen(words[i]), 256 + i, false};
    require(token_trie_create(&trie, texts, 256 + N_WORDS, 256 + N_WORDS) == 0);
    return trie;
}

/* The k-th allowed token, k modulo their number; -1: none is. */
static inline int32_t walk_pick(const uint32_t *bits, uint32_t n_vocab, uint32_t k)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_vocab; i++)
        n += bits[i >> 5] >> (i & 31) & 1;
    if (n == 0)
        return -1;
    k %= n;
    for (uint32_t i = 0;; i++)
        if ((bits[i >> 5] >> (i & 31) & 1) && k-- == 0)
            return (int32_t)i;
}

/* A text whose tokens are picked by choices[0 .. n - 1], then at random; true: it may end there. */
static inline bool walk_grow(const struct constraint *c, const uint8_t *choices, size_t n,
                             struct buf *text)
{
    const struct token_trie *trie = walk_trie();
    struct constraint_state *s = mem_calloc(1, constraint_state_bytes());
    uint32_t *bits = mem_calloc(trie->n_vocab / 32 + 1, sizeof(*bits)), random = 12345;
    enum constraint_status status = CONSTRAINT_OPEN;
    struct constraint_scratch *scratch;
    bool may_end = false;

    require(s != NULL && bits != NULL && constraint_scratch_create(&scratch) == 0);
    constraint_state_init(s, c);
    for (size_t i = 0; i < WALK_MOST && status == CONSTRAINT_OPEN; i++) {
        int32_t id;

        random = random * 1664525 + 1013904223;
        may_end = constraint_mask(s, scratch, bits, trie->n_vocab);
        require(may_end == constraint_may_end(s, scratch));
        id = walk_pick(bits, trie->n_vocab, i < n ? choices[i] : random >> 8);
        require(id >= 0 || may_end);
        if (id < 0)
            break;
        status = constraint_take(s, scratch, id);
        require(status != CONSTRAINT_BROKEN);
        buf_add(text, trie->text[id], trie->len[id]);
        may_end = constraint_may_end(s, scratch);
        require(status != CONSTRAINT_DONE || may_end);
    }
    constraint_scratch_destroy(&scratch);
    mem_free(bits);
    mem_free(s);
    return may_end;
}

/* The grammar, of which `rc` says whether there is one, as a constraint; NULL: it is refused, in
 * words. */
static inline struct constraint *walk_constraint(int rc, struct grammar *g, struct budget *budget,
                                                 const char *why)
{
    struct constraint *c = NULL;
    char err[300] = "";

    if (rc == 0) {
        rc = constraint_create(&c, g, walk_trie(), budget, err, sizeof(err));
        why = err;
        if (rc < 0)
            grammar_destroy(&g);
    } else {
        require(g == NULL);
    }
    require(rc == 0 ? c != NULL : c == NULL && why[0] != '\0');
    require(budget->err == 0 || rc == budget->err);
    return c;
}

/* Any bytes in a notation; behind a NUL, choices of tokens. What is accepted is walked: what a mask
 * allows is never refused afterwards. */
static inline void walk_notation(const uint8_t *data, size_t n,
                                 int (*read)(struct grammar **out, const char *text, size_t n,
                                             struct budget *budget, char *err, size_t err_len))
{
    const uint8_t *nul = memchr(data, 0, n);
    const size_t n_text = nul != NULL ? (size_t)(nul - data) : n;
    struct budget budget = {.steps_left = WALK_STEPS};
    char *own = mem_dup(data, n_text); /* the sanitizer sees a read past the end */
    struct grammar *g = NULL;
    struct constraint *c;
    struct buf text;
    char err[300] = "";
    int rc;

    rc = read(&g, own, n_text, &budget, err, sizeof(err));
    c = walk_constraint(rc, g, &budget, err);
    buf_init(&text, 1u << 20);
    if (c != NULL)
        walk_grow(c, data + n_text, n - n_text, &text);
    buf_release(&text);
    constraint_unref(&c);
    mem_free(own);
}

#endif
