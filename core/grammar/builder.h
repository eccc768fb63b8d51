/* core/grammar/builder.h - builds a grammar piece by piece.
 *
 * A piece is a run of nodes with one entry and one exit. Each function makes a new piece and uses
 * up the pieces that it is given: every piece is used exactly once. Pieces are joined in the order
 * in which they were made, so a parser of a notation calls these as it reads. The first error
 * sticks: all functions do nothing afterwards, and grammar_builder_finish() reports it.
 *
 * Thread: one owner.
 * Memory: bounded by GRAMMAR_MAX_NODES and GRAMMAR_MAX_RULES.
 * Errors: ERR_LIMIT (too large, or no steps left), ERR_CANCELED, ERR_NOMEM, ERR_INVAL, each with a
 * sentence from finish().
 */
#ifndef CORE_GRAMMAR_BUILDER_H
#define CORE_GRAMMAR_BUILDER_H

#include "core/base/budget.h"
#include "core/grammar/grammar.h"

struct grammar_builder;

struct grammar_piece {
    uint32_t from;       /* the piece's nodes are from .. to - 1 */
    uint32_t to;
    uint32_t start, end; /* `end` is a JUMP that leads nowhere yet */
};

struct char_range { /* code points, both ends included */
    uint32_t from, to;
};

/* Creates an empty builder. Each node that is made and each search spends steps of the budget,
 * which is borrowed; NULL: no limit. */
int grammar_builder_create(struct grammar_builder **out, struct budget *budget);
void grammar_builder_destroy(struct grammar_builder **b);

/* Returns the first error so far, or 0. */
int grammar_builder_error(const struct grammar_builder *b);
/* Makes the builder fail with a sentence of the caller's, unless it has failed before. */
void grammar_builder_fail(struct grammar_builder *b, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the sentence of the error, or "". grammar_builder_retell() replaces the sentence; the
 * error code stays. */
const char *grammar_builder_sentence(const struct grammar_builder *b);
void grammar_builder_retell(struct grammar_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Spends `n` steps of the budget for work that the caller is about to do; the builder fails when
 * none are left. Returns the error so far, or 0. */
int grammar_builder_spend(struct grammar_builder *b, uint64_t n);
struct budget *grammar_builder_budget(const struct grammar_builder *b);

struct grammar_piece grammar_empty(struct grammar_builder *b);
struct grammar_piece grammar_bytes(struct grammar_builder *b, const void *bytes, size_t n);
struct grammar_piece grammar_text(struct grammar_builder *b, const char *text);
struct grammar_piece grammar_one_of(struct grammar_builder *b, const struct byte_set *set);
/* Makes a piece for one character of any of the ranges, as UTF-8. Surrogates and numbers beyond
 * U+10FFFF are left out; ERR_INVAL if no character remains. */
struct grammar_piece grammar_chars(struct grammar_builder *b, const struct char_range *ranges,
                                   size_t n);
struct grammar_piece grammar_call(struct grammar_builder *b, uint32_t rule);

/* Makes a piece for p followed by q; for p or q. */
struct grammar_piece grammar_then(struct grammar_builder *b, struct grammar_piece p,
                                  struct grammar_piece q);
struct grammar_piece grammar_or(struct grammar_builder *b, struct grammar_piece p,
                                struct grammar_piece q);
/* Makes a piece for min to max times p; max may be GRAMMAR_NO_LIMIT. p must be the piece made
 * last. */
struct grammar_piece grammar_repeat(struct grammar_builder *b, struct grammar_piece p, uint32_t min,
                                    uint32_t max);
/* Makes a piece for min to max times a rule. All repetitions of one rule share its nodes, whatever
 * their counts. */
struct grammar_piece grammar_repeat_rule(struct grammar_builder *b, uint32_t rule, uint32_t min,
                                         uint32_t max);

/* Makes a piece for one of the texts (bytes; sorted in place); common beginnings share nodes. */
struct text_ref {
    const char *bytes;
    size_t n;
};
struct grammar_piece grammar_choice(struct grammar_builder *b, struct text_ref *texts, size_t n);

/* Makes a rule; texts begin with the first one that is made. `name`, which is copied, appears in
 * errors. */
uint32_t grammar_rule(struct grammar_builder *b, const char *name);
void grammar_define(struct grammar_builder *b, uint32_t rule, struct grammar_piece p);
bool grammar_is_defined(const struct grammar_builder *b, uint32_t rule);

/* Checks that all rules are defined and makes the grammar. 0, or a negative ERR_* with a sentence.
 * The caller still destroys the builder. */
int grammar_builder_finish(struct grammar_builder *b, struct grammar **out, char *err,
                           size_t err_len);

#endif
