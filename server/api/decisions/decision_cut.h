/* server/api/decisions/decision_cut.h - the prompt of a question as Laya's models were trained
 * with: long questions and options are cut.
 *
 * The prompt is a token, the question, a separator, the options with a marker before each, a
 * separator, the input, and a separator. An option keeps up to 48 tokens; if question and options
 * together have more than max_head_tokens, options are cut to equal shares (of 3 tokens at least),
 * and the question to the rest (of 8 at least). The input is never cut.
 *
 * Thread: any.
 * Memory: works in place.
 */
#ifndef SERVER_API_DECISIONS_DECISION_CUT_H
#define SERVER_API_DECISIONS_DECISION_CUT_H

#include <stdint.h>

struct token_list;

struct decision_layout {
    int32_t marker, separator;
    uint32_t n_options;       /* 1 .. DECISIONS_MAX_OPTIONS */
    uint32_t max_head_tokens; /* of question, options and markers */
};

/* ERR_INVAL: the prompt has another form. */
int decision_cut(struct token_list *ids, const struct decision_layout *layout);

#endif
