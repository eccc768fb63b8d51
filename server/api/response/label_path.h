/* server/api/response/label_path.h - log-probabilities of a decision's options whose labels have
 * several tokens.
 *
 * The engine returns the log-probabilities of single tokens behind a prompt. The tokens of a label
 * are thus steps through prompts: the first prompt, which is without any token of the label, then
 * one more for each token but the last, which ends with the tokens so far (label_tree.h). The
 * log-probability of a label is the sum of its steps'. Where every label is one token, a prompt has
 * no paths, and its log-probabilities are the options'.
 *
 * Thread: any.
 * Memory: the prompt owns its paths.
 */
#ifndef SERVER_API_RESPONSE_LABEL_PATH_H
#define SERVER_API_RESPONSE_LABEL_PATH_H

#include <stdint.h>

#define LABEL_MAX_TOKENS 6

struct prompt;

struct label_step {
    uint32_t prompt; /* index of a prompt of the call */
    uint32_t label;  /* index of one of its labels */
};

struct label_path {
    uint32_t n;
    struct label_step steps[LABEL_MAX_TOKENS];
};

/* Write the log-probabilities of the options of question prompt i to out[DECISIONS_MAX_OPTIONS];
 * prompts: all prompts of the call. Return the number of options. */
uint32_t label_path_logprobs(const struct prompt *prompts, uint32_t i, float *out);

#endif
