/* server/api/params/decision_set.h - the questions of a call that asks a model to decide: about one
 * input, each with a closed list of options.
 *
 * params_decisions.c fills it from the bodies of OpenAI's /v1/decisions and of TypeSafe's
 * /v1/systemone; api_request_decisions.c makes prompts of it, and formats/decisions.c the answers.
 *
 * A question is asked once for each order of its options: in order k the options stand rotated, or,
 * where their order means something, as they are or reversed. The answer is the mean of all orders.
 *
 * Thread: any.
 * Memory: the arrays are the set's; texts and `given` belong to the conversation of the params,
 *         which keeps copies of the body's values. `state` and `raw` point into the body's tree,
 *         which lives until the prompts are made.
 */
#ifndef SERVER_API_PARAMS_DECISION_SET_H
#define SERVER_API_PARAMS_DECISION_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json/json.h"

#define DECISIONS_MAX_QUESTIONS 400
#define DECISIONS_MAX_OPTIONS 255  /* of a question */
#define DECISIONS_MAX_ORDERS 64    /* of a question's options */
#define DECISIONS_MAX_PROMPTS 2048 /* orders of all questions */

enum decision_kind {
    DECISION_YES_NO, /* a statement: the options are yes and no */
    DECISION_CHOICE,
    DECISION_SCORE, /* ordered levels, numbered from 0 */
};

struct decision_option {
    const char *name;   /* as the model reads it; NULL: the label alone stands for it */
    const char *detail; /* NULL: none */
    const cJSON *given; /* the value as it was written, for the answer; NULL for yes and no */
    const cJSON *raw;   /* TypeSafe's: the description in the body's tree, or NULL */
};

struct decision_question {
    enum decision_kind kind;
    const char *name;   /* NULL: none */
    const char *text;   /* what is asked; NULL: nothing but the options */
    const cJSON *raw;   /* TypeSafe's: `text` in the body's tree, or NULL */
    double temperature; /* divides the scores of the options; 0 counts as 1 */
    uint32_t first_option, n_options;
    uint32_t first_prompt, n_orders;
};

struct decision_set {                    /* zero is empty */
    struct decision_question *questions; /* [n_questions] */
    struct decision_option *options;     /* [n_options] of all questions */
    uint32_t n_questions, n_options;
    const cJSON *state;    /* TypeSafe's: the input in the body's tree; or NULL */
    uint32_t permutations; /* orders of each question's options that are asked for; 0 counts as 1 */
};

void decision_set_release(struct decision_set *s);

/* Append a question without options, or an option of the last question. NULL: no memory. Pointers
 * are valid until the next one is added. */
struct decision_question *decision_set_add(struct decision_set *s, enum decision_kind kind);
struct decision_option *decision_set_add_option(struct decision_set *s);

/* Number the prompts of all questions; returns how many there are. All options are known. */
uint32_t decision_set_count_prompts(struct decision_set *s);
/* The question that prompt i asks; *order is the order of its options. */
const struct decision_question *decision_set_of_prompt(const struct decision_set *s, uint32_t i,
                                                       uint32_t *order);
/* The index of the option that stands at `place` in an order; both are below n_options. */
uint32_t decision_option_at(const struct decision_question *q, uint32_t order, uint32_t place);

#endif
