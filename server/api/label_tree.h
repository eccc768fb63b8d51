/* server/api/label_tree.h - the prompts that decide between labels of several tokens.
 *
 * Labels that begin with the same tokens share the prompts that end with these tokens: the prompts
 * are the inner nodes of a tree whose edges are tokens. The question's own prompt is the root, and
 * the others are appended to the prompts of the call. Each prompt has one label token for each of
 * its edges, and each option a path (response/label_path.h).
 *
 * Thread: any.
 * Memory: the prompts own what is added.
 */
#ifndef SERVER_API_LABEL_TREE_H
#define SERVER_API_LABEL_TREE_H

#include <stdint.h>

#include "server/api/decisions/decision_labels.h"

struct api_request;

/* Add the prompts for n options, whose labels have the tokens spelled[n], to question prompt i.
 * *n_tokens counts the tokens of all prompts of the call. Returns 0; ERR_NOENT: all tokens of a
 * label are the first ones of another label; ERR_LIMIT: the call would have more than
 * DECISIONS_MAX_PROMPTS prompts or max_tokens tokens; ERR_NOMEM. */
int label_tree_grow(struct api_request *p, uint32_t i, const struct label_spelling *spelled,
                    uint32_t n, uint64_t max_tokens, uint64_t *n_tokens);

#endif
