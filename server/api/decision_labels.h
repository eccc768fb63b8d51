/* server/api/decision_labels.h - the labels under which a model answers a question: texts that are
 * one token each at the place where its answer begins, so that the next token decides.
 *
 * Labels come in sets: yes and no, digits, letters, pairs of letters. Whether a text is one token
 * depends on the text before it, so it is found out by tokenizing both. All prompts of a call end
 * alike, with what the chat template writes before an answer. Where that has a control token, the
 * text from there on (the tail) decides, because tokenizers split texts at control tokens; else the
 * whole prompt does.
 *
 * Thread: any.
 * Memory: some kilobytes; the caller keeps the tail's texts.
 */
#ifndef SERVER_API_DECISION_LABELS_H
#define SERVER_API_DECISION_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/api/params/decision_set.h"

struct budget;
struct prompt;
struct tokenizer;

enum decision_label_kind {
    LABELS_WORDS = 0,   /* "yes", "no" */
    LABELS_CAPITALIZED, /* "Yes", "No" */
    LABELS_DIGITS,
    LABELS_LETTERS, /* "A" .. "Z" */
    LABELS_PAIRS,   /* "AA" .. "ZZ", those that are one token */
    N_LABELS_KINDS,
};

struct decision_label_set {
    bool is_known; /* the vocabulary was searched */
    uint32_t n;    /* labels of one token, from the first on */
    char texts[DECISIONS_MAX_OPTIONS][4];
    int32_t ids[DECISIONS_MAX_OPTIONS];
};

struct decision_labels { /* zero, with the tokenizer set */
    const struct tokenizer *tokenizer;
    struct budget *budget; /* NULL: no limit */
    const char *tail;      /* [n_tail] end of every prompt */
    size_t n_tail;
    const int32_t *tail_ids; /* [n_tail_ids] */
    size_t n_tail_ids;
    bool has_control; /* the tail begins with a control token */
    struct decision_label_set sets[N_LABELS_KINDS];
};

/* Take the tail of a prompt, which lives as long as the labels. ERR_NOMEM, ERR_LIMIT (steps). */
int decision_labels_init(struct decision_labels *l, const struct prompt *prompt);
/* Find a set of n labels for a kind of question. Returns 0; ERR_NOENT: the vocabulary has none;
 * ERR_NOMEM, ERR_LIMIT. */
int decision_labels_find(struct decision_labels *l, enum decision_kind kind, uint32_t n,
                         enum decision_label_kind *out);
/* True: the labels are one token each after this prompt too. ERR_NOMEM, ERR_LIMIT. */
int decision_labels_hold(struct decision_labels *l, const struct prompt *prompt,
                         enum decision_label_kind which, uint32_t n);

#endif
