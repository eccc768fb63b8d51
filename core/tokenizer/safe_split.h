/* core/tokenizer/safe_split.h - where a text may be cut before it is tokenized, without changing
 * its tokens.
 *
 * A safe split is between two characters that are adjacent in no piece of the vocabulary. The
 * tokens of the two sides, each tokenized alone, are those of the whole text:
 * - Merges (SentencePiece, BPE). Every join gives the bytes of a piece. One across a safe split
 *   would hold both characters, and no piece does: so none crosses it. The next join is the best by
 *   score or rank, and of equals the leftmost. Joins on one side neither make nor take away pairs
 *   on the other, so those of each side come in the same order, with the other or without.
 * - The best way (unigram). Every way has the end of a piece at the safe split, since none lies
 *   across: the best one is the best up to it and the best from it on. The sum up to it is part of
 *   all sums behind it. Where sums are exact, that changes no comparison, ties included; where they
 *   are rounded, it may, and there are no safe splits (unigram.c). That unknown characters in a row
 *   are one token is seen to by the encoder, which remembers the last one across a safe split.
 * Merges begin with characters, the best way steps over them, and a byte that is no UTF-8 is one by
 * itself: both ways of cutting give the same ones, since no safe split is before a byte that
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

/* ERR_NOMEM. The vocabulary is fully loaded; it is not needed afterwards. */
int safe_splits_create(struct safe_splits **out, const struct vocab *v);
void safe_splits_destroy(struct safe_splits **safe_splits);

/* The first safe split behind `from`, which is 0 or a safe split, or n if there is none; NULL for
 * `s`: there are none. */
size_t safe_splits_next(const struct safe_splits *s, const char *text, size_t n, size_t from);

#endif
