/* core/tokenizer/pretokenizer.h - cuts text into the words that byte-level BPE encodes one by one.
 *
 * Each family of models has its rules, named by tokenizer.ggml.pre (pretokenizer_rules.inc lists
 * them). Rules are up to six patterns, applied in turn: the first splits the text, each later one
 * the pieces of the one before. Text between two matches is a piece, too.
 *
 * Thread: struct pretokenizer is read-only after creation; a struct pretokenizer_run belongs to one
 *         thread.
 * Memory: through mem.h.
 */
#ifndef CORE_TOKENIZER_PRETOKENIZER_H
#define CORE_TOKENIZER_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pretokenizer;
struct pretokenizer_run;

enum pretokenizer_traits {
    PRETOKENIZER_WHOLE_WORDS = 1u << 0, /* a word that is a token is taken without merges */
    PRETOKENIZER_ADD_BOS = 1u << 1,     /* texts begin with BOS unless the file says otherwise */
    PRETOKENIZER_RAW = 1u << 2,         /* pieces are UTF-8 with U+2581 for spaces */
    PRETOKENIZER_ADD_SEP = 1u << 3,     /* a pair of texts has a separator after the first one's end
                                         * token, unless the file says otherwise */
    PRETOKENIZER_NFC = 1u << 4,         /* texts are in NFC, unless the file says otherwise */
};

/* Return the number of the rules called `name`, or -1. */
int pretokenizer_find(const char *name, size_t n);
unsigned pretokenizer_traits(int number);
bool pretokenizer_same_rules(int a, int b);
/* Return name number `i` of the list of rules; NULL after the last. */
const char *pretokenizer_name(size_t i);

/* Create the pretokenizer of rules `number`. ERR_NOMEM; ERR_INTERNAL: the list itself is wrong. */
int pretokenizer_create(struct pretokenizer **out, int number);
void pretokenizer_destroy(struct pretokenizer **p);

int pretokenizer_run_create(struct pretokenizer_run **out,
                            const struct pretokenizer *p); /* borrows p */
void pretokenizer_run_destroy(struct pretokenizer_run **run);

/* Begin to cut text[0..n), valid UTF-8, which is borrowed. */
void pretokenizer_begin(struct pretokenizer_run *run, const char *text, size_t n);
/* Return the end of the word that begins where the last one ended. Must not be called at the end of
 * the text. */
size_t pretokenizer_next(struct pretokenizer_run *run);
/* Return the number of characters looked at so far, in all texts: tests check by it that work is
 * linear. */
uint64_t pretokenizer_steps(const struct pretokenizer_run *run);

#endif
