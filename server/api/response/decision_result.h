/* server/api/response/decision_result.h - the probabilities of a question's options, from the
 * log-probabilities of their labels.
 *
 * The probability of an option is the softmax of its label's log-probability among the labels of
 * its question, divided by the question's temperature, and the mean over all orders in which the
 * options were listed. Confidence is 0
 * where all options are equally likely and 1 where one is certain: of a choice, how far the best
 * option is above an equal share; of a score, one minus the mean distance from the best level, as a
 * share of the mean distance from the middle that equally likely levels have (the formulas that
 * TypeSafe has published).
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_RESPONSE_DECISION_RESULT_H
#define SERVER_API_RESPONSE_DECISION_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/api/params/decision_set.h"

struct prompt;

struct decision_result { /* before the first order: decision_result_begin() */
    double probabilities[DECISIONS_MAX_OPTIONS]; /* by option; after all orders their sum is 1 */
    double label_mass;                           /* share of the labels among all tokens, 0 .. 1 */
    uint32_t best;      /* the likeliest option; of equal ones, the first */
    double temperature; /* divides log-probabilities; 0 counts as 1 */
    bool is_valid;      /* false: the model's numbers are not finite */
};

/* The result of a question before its first order. */
static inline struct decision_result decision_result_begin(const struct decision_question *q)
{
    return (struct decision_result){.is_valid = true, .temperature = q->temperature};
}

/* Add one of n_orders orders: logprobs[n], by option. */
void decision_result_add(struct decision_result *r, const float *logprobs, uint32_t n,
                         uint32_t n_orders);

/* Read the answer of a question from all its orders; prompts: those of the call, computed. */
void decision_result_read(struct decision_result *r, const struct decision_question *q,
                          const struct prompt *prompts);

double decision_result_confidence(const struct decision_result *r,
                                  const struct decision_question *q);
/* Return the mean of the levels' numbers, which begin at 0, by probability. */
double decision_result_score(const struct decision_result *r, uint32_t n_options);

#endif
