/* server/api/decisions/decision_labels.h - the labels under which a model answers a question: texts
 * that are one token each at the place where its answer begins, so that the next token decides.
 *
 * Labels come in sets: Yes and No, digits, letters, pairs of letters. Where no set has enough
 * labels of one token, letters or pairs are spelled: a label is then the sequence of its tokens
 * (label_tree.h).
 *
 * Whether a text is one token depends on the text before it, so it is found out by tokenizing both.
 * All prompts of a call end alike, with what the chat template writes before an answer. Where that
 * has a control token, the text from there on (the tail) decides, because tokenizers split texts at
 * control tokens; else the whole prompt does.
 *
 * Thread: any.
 * Memory: some kilobytes; the caller keeps the tail's texts.
 */
#ifndef SERVER_API_DECISIONS_DECISION_LABELS_H
#define SERVER_API_DECISIONS_DECISION_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/api/params/decision_set.h"
#include "server/api/response/label_path.h"

struct budget;
struct prompt;
struct tokenizer;

enum decision_label_kind {
    LABELS_CAPITALIZED = 0, /* "Yes", "No" */
    LABELS_WORDS,           /* "yes", "no" */
    LABELS_DIGITS,
    LABELS_LETTERS,         /* "A" .. "Z" */
    LABELS_PAIRS,           /* "AA" .. "ZZ", those that are one token */
    LABELS_SPELLED_LETTERS, /* "A" .. "Z", however many tokens each is */
    LABELS_SPELLED_PAIRS,   /* "AA" .. "ZZ", as well */
    N_LABELS_KINDS,
};

struct label_spelling { /* the tokens of a label */
    uint32_t n;
    int32_t ids[LABEL_MAX_TOKENS];
};

struct decision_label_set { /* a spelled set has texts and no ids */
    bool is_known;          /* the vocabulary was searched */
    uint32_t n;             /* labels of one token, from the first on */
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
/* Find a set of n labels for a kind of question; a spelled one if no other has n. ERR_NOMEM,
 * ERR_LIMIT. */
int decision_labels_find(struct decision_labels *l, enum decision_kind kind, uint32_t n,
                         enum decision_label_kind *out);
static inline bool decision_labels_are_spelled(enum decision_label_kind which)
{
    return which >= LABELS_SPELLED_LETTERS;
}

/* Write the tokens that the first n labels of a set have after this prompt to out[n]. ERR_NOENT: a
 * label has too many tokens, or changes those of the prompt; ERR_NOMEM, ERR_LIMIT. */
int decision_labels_spell(struct decision_labels *l, const struct prompt *prompt,
                          enum decision_label_kind which, uint32_t n, struct label_spelling *out);
/* True: the labels are one token each after this prompt too. ERR_NOMEM, ERR_LIMIT. */
int decision_labels_hold(struct decision_labels *l, const struct prompt *prompt,
                         enum decision_label_kind which, uint32_t n);

#endif
