/* server/api/constraint/constraint_compile.h - compiles a request's constraint.
 *
 * Thread: any.
 * Memory: scratch in proportion to the text; the caller owns the constraint.
 */
#ifndef SERVER_API_CONSTRAINT_CONSTRAINT_COMPILE_H
#define SERVER_API_CONSTRAINT_CONSTRAINT_COMPILE_H

#include <stddef.h>

#include "server/api/params/constraint_spec.h"
#include "server/http/error.h"

#define CONSTRAINT_MAX_CHOICES 10000

struct budget;
struct constraint;
struct token_trie;

/* Checks that the value has the JSON type that its kind requires. 0, or a negative ERR_* with *e
 * filled. */
int constraint_check_spec(const struct constraint_spec *w, struct api_error *e);

/* Compiles a spec that was checked. `trie` is the vocabulary, which is borrowed; the budget may be
 * NULL. ERR_* with a sentence without a subject. */
int constraint_compile(struct constraint **out, const struct constraint_spec *w,
                       const struct token_trie *trie, struct budget *budget, char *err,
                       size_t err_len);

#endif
