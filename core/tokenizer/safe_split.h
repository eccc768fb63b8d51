/* core/tokenizer/safe_split.h - finds places where a text may be cut before it is tokenized,
 * without changing its tokens.
 *
 * A safe split lies between two characters that are adjacent in no piece of the vocabulary. The
 * tokens of the two sides, each tokenized alone, are those of the whole text:
 * - Merges (SentencePiece, BPE). Every join gives the bytes of a piece. A join across a safe split
 *   would hold both characters, and no piece does, so no join crosses it. The next join is the best
 *   by score or rank, and of equal ones the leftmost. Joins on one side neither make nor remove
 *   pairs on the other, so each side has the same joins in the same order, with the other side or
 *   without.
 * - The best way (unigram). Every way has the end of a piece at the safe split, since no piece lies
 *   across: the best way is the best one up to the split and the best one from it. The sum up to
 *   the split is part of all later sums. If sums are exact, that changes no comparison, ties
 *   included; if they are rounded it may, and then there are no safe splits (unigram.c). Unknown
 *   characters in a row are one token: the encoder remembers across a safe split that the last one
 *   was unknown.
 * Merges begin with characters, the best way steps over them, and a byte that is not UTF-8 counts
 * as one: a text and its parts have the same characters, since no safe split is before a byte that
 * continues a character (10xxxxxx).
 *
 * For ASCII two bytes decide. Pairs with other characters are looked up by a hash: pairs with equal
 * hashes cost a safe split, never a token. A piece that is not UTF-8 (byte-level BPE) may begin or
 * end within a character: its bytes count for all characters that end or begin with them.
 *
 * Thread: read-only once created.
 * Memory: 16 KiB, and half a byte to a byte for each byte of the pieces, at most 1 MiB.
 */
#ifndef CORE_TOKENIZER_SAFE_SPLIT_H
#define CORE_TOKENIZER_SAFE_SPLIT_H

#include <stddef.h>

struct safe_splits;
struct vocab;

/* Create the safe splits of a fully loaded vocabulary, which is not needed afterwards.
 * ERR_NOMEM. */
int safe_splits_create(struct safe_splits **out, const struct vocab *v);
void safe_splits_destroy(struct safe_splits **safe_splits);

/* Return the first safe split after `from`, which is 0 or a safe split, or n if there is none. s
 * NULL: returns n. */
size_t safe_splits_next(const struct safe_splits *s, const char *text, size_t n, size_t from);

#endif
