/* core/grammar/constraint.h - computes the tokens of a vocabulary that a grammar allows next: the
 * masks of constrained decoding.
 *
 * A constraint is a grammar, a trie of the vocabulary and data that was computed from them before
 * the first token: for each place of the grammar at which many tokens fit, the tokens that fit
 * whatever is on the stack below, and those that leave the rule, by their remaining bytes. A state
 * belongs to one text and has its readings that are still possible, each a node and a stack. A mask
 * is then the union of precomputed sets, and a walk over the few tokens that depend on the stack.
 *
 * For every text whose tokens were all allowed:
 *   - it can be completed: a reading that cannot end within CONSTRAINT_MAX_DEPTH is dropped;
 *   - some token or the end is allowed, if the vocabulary has a token for each single byte that the
 *     grammar cannot do without (else creation fails);
 *   - the mask depends on the grammar, the vocabulary and the tokens so far only.
 * To bound the cost of a mask, two things may be left out: readings beyond the first
 * CONSTRAINT_MAX_READINGS, and, in a mask that would take more than CONSTRAINT_MAX_WORK steps,
 * tokens of several bytes.
 *
 * Thread: a constraint is read-only and counted; a state and a scratch belong to one thread.
 * Memory: a state has a fixed size, a constraint at most CONSTRAINT_MAX_BYTES beside its grammar.
 * Errors: creation writes a sentence without a subject ("it is ..."), for a caller to complete.
 */
#ifndef CORE_GRAMMAR_CONSTRAINT_H
#define CORE_GRAMMAR_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONSTRAINT_MAX_WORK 200000
#define CONSTRAINT_MAX_BYTES ((size_t)64 << 20)
#define CONSTRAINT_FORCED 128 /* bytes that constraint_forced() looks ahead at most */

struct budget;
struct constraint;
struct constraint_state;
struct constraint_scratch;
struct grammar;
struct token_trie;

/* Creates a constraint with one reference. It owns the grammar; after a failure the caller still
 * does. The trie and the budget are borrowed; the budget may be NULL. ERR_LIMIT, ERR_CANCELED,
 * ERR_UNSUPPORTED (the vocabulary cannot spell the grammar's texts), ERR_NOMEM. */
int constraint_create(struct constraint **out, struct grammar *g /* takes */,
                      const struct token_trie *trie, struct budget *budget, char *err,
                      size_t err_len);
struct constraint *constraint_ref(struct constraint *c);
void constraint_unref(struct constraint **c); /* NULL is allowed; the last one frees */
size_t constraint_bytes(const struct constraint *c);
uint32_t constraint_n_places(const struct constraint *c); /* places whose tokens are precomputed */

/* Creates the working memory of masks and steps; each thread that computes them has its own. */
int constraint_scratch_create(struct constraint_scratch **out);
void constraint_scratch_destroy(struct constraint_scratch **s);

/* Returns how many steps the latest call took, which depends on the grammar. */
uint32_t constraint_work(const struct constraint_scratch *s);

/* Returns the bytes of a state; the caller provides the memory, aligned as any pointer. A state
 * holds no reference: the constraint must outlive it. States may be copied byte by byte. */
size_t constraint_state_bytes(void);
void constraint_state_init(struct constraint_state *s, const struct constraint *c);

/* Sets bit `id` of bits[0 .. n_vocab / 32] for each token that may come next and clears all others;
 * n_vocab is the trie's or more. Returns whether the text may end here. */
bool constraint_mask(const struct constraint_state *s, struct constraint_scratch *w, uint32_t *bits,
                     uint32_t n_vocab);
/* True: the token may come next, as text. Costs less than a mask. */
bool constraint_allows(const struct constraint_state *s, struct constraint_scratch *w, int32_t id);
/* True: a lazy grammar (lazy.h) has not completed any trigger yet. Its mask then also allows the
 * tokens that are not text. */
bool constraint_is_waiting(const struct constraint_state *s);

/* Finds the bytes that must follow because the grammar allows no others; returns how many. If only
 * white space is optional the result is a guess: a space if this text had one after the same byte
 * the last time (after commas and colons from the beginning), else none. */
uint32_t constraint_forced(const struct constraint_state *s, struct constraint_scratch *w,
                           uint8_t bytes[CONSTRAINT_FORCED]);
/* Spells the bytes with the longest tokens, at most `most`; returns how many. They are a guess:
 * other tokens may spell the bytes too, and the last of those may reach beyond them. */
uint32_t constraint_spell(const struct constraint_state *s, const uint8_t *bytes, uint32_t n,
                          int32_t *ids, uint32_t most);
/* Returns the bytes of a token, or the name of a control token as a grammar spells it; valid as
 * long as the vocabulary and the trie. NULL: the token spells nothing here. */
const char *constraint_text(const struct constraint_state *s, int32_t id, uint32_t *len);

enum constraint_status {
    CONSTRAINT_OPEN = 0, /* more text may follow */
    CONSTRAINT_DONE,     /* the text is complete, and nothing may follow */
    CONSTRAINT_BROKEN,   /* the token was not allowed; the state is as it was */
};
/* Advances the state by these bytes, or by a token; a token that the mask allows never breaks.
 * Before a trigger, a token that is not text stands for its name; if the name cannot follow, the
 * text begins anew after it. Elsewhere it must be a control token that the grammar asks for
 * (token_trie.h). */
enum constraint_status constraint_advance(struct constraint_state *s, struct constraint_scratch *w,
                                          const char *bytes, size_t n);
enum constraint_status constraint_take(struct constraint_state *s, struct constraint_scratch *w,
                                       int32_t id);
/* True: the text may end here. */
bool constraint_may_end(const struct constraint_state *s, struct constraint_scratch *w);

#endif
