/* server/api/constraint/constraint_cache.h - the constraints that clients ask for, compiled once
 * each.
 *
 * The cache keeps the latest constraints, found by owner, kind and text; texts are compared in
 * full, so none is taken for another. An evicted constraint lives on while requests use it.
 *
 * Thread: any; a mutex guards the list, and is not held while a constraint is compiled.
 * Memory: the trie of the vocabulary, and constraints up to the options' limits.
 * Errors: a 400 that names the field and the place in it, or a 500 without memory.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_CACHE_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/json/json.h"
#include "server/api/params/constraint_spec.h"
#include "server/http/error.h"

#define CONSTRAINT_MAX_TEXT ((size_t)256 << 10) /* bytes of a text with its triggers */

struct budget;
struct constraint_cache;
struct constraint;
struct tokenizer;

struct constraint_cache_options {
    const struct tokenizer *tokenizer; /* borrowed */
    uint32_t max_entries;
    size_t max_bytes;
};

struct constraint_cache_stats {
    uint64_t n_hits, n_compiled, n_refused;
    uint32_t n_entries;
    size_t bytes;
};

int constraint_cache_create(struct constraint_cache **out,
                            const struct constraint_cache_options *options);
void constraint_cache_destroy(struct constraint_cache **c);

/* Finds or compiles the constraint of the spec, which is not NONE; the caller gets a reference. 0,
 * or a negative ERR_* with *e filled. Compiling spends steps of the budget (NULL: no limit). */
int constraint_cache_get(struct constraint_cache *c, const struct constraint_spec *spec,
                         struct budget *budget, struct constraint **out, struct api_error *e);
struct constraint_cache_stats constraint_cache_stats(struct constraint_cache *c);

#endif
