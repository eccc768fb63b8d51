/* core/tokenizer/split_pattern.h - the subset of regular expressions that tokenizers cut words
 * with.
 *
 * A pattern is a list of alternatives, of which the first that matches wins. An alternative is a
 * few steps in a row: characters of a set, repeated greedily; one of some endings such as 's; the
 * end of the spaces. That is simple enough for a matcher of its own, several times faster than a
 * library for regular expressions and with bounded work: no step that can fail comes after two that
 * repeat without limit, and if an alternative fails on a run of characters, the memo remembers that
 * for all positions of the run. So cutting a text looks at each character a fixed number of times.
 *
 * The notation is Perl's: | ? * + {n} {m,n}, sets such as [^\r\n\p{L}] with ranges, \s \d \p{X}
 * (a general category, one letter or two, or Han), \x{2F}, and [...&&[^\p{Han}]]; (?i:'s|'t) lists
 * endings in either case, (?!\S) looks ahead, $ is the end. \s is Unicode's White_Space.
 *
 * Thread: a pattern is read-only after creation; a memo belongs to one thread.
 * Memory: one block each.
 * Errors: ERR_FORMAT: not in the notation; ERR_LIMIT: too many steps, sets or ranges; ERR_NOMEM.
 */
#ifndef CORE_TOKENIZER_SPLIT_PATTERN_H
#define CORE_TOKENIZER_SPLIT_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define SPLIT_NONE SIZE_MAX
#define SPLIT_MAX_CHOICES 32

struct split_pattern;

/* Results of one pattern on one text; all zero: none yet. */
struct split_memo {
    size_t dead[SPLIT_MAX_CHOICES]; /* alternative i matches nowhere before this position */
    uint64_t steps;                 /* characters looked at, for tests; never zeroed here */
};

int split_pattern_create(struct split_pattern **out, const char *source);
void split_pattern_destroy(struct split_pattern **p);
/* Forget the results. Called when the text, or its end, changes. */
void split_memo_forget(const struct split_pattern *p, struct split_memo *memo);

/* Return the end of the match that begins at `from`, or SPLIT_NONE; text[0..n) is valid UTF-8 and
 * from < n. No match is empty. */
size_t split_pattern_match(const struct split_pattern *p, struct split_memo *memo, const char *text,
                           size_t n, size_t from);

/* Return the first position >= `from` where a match could begin, or n. Only ASCII characters are
 * ruled out. */
size_t split_pattern_skip(const struct split_pattern *p, struct split_memo *memo, const char *text,
                          size_t n, size_t from);

#endif
