/* server/api/response/decision_result.c - see decision_result.h.
 *
 * All sums are of doubles in the order of the options, with maths_exp(), so that a result has the
 * same bits on every machine.
 */
#include "server/api/response/decision_result.h"

#include "core/base/maths.h"
#include "server/api/response/label_path.h"

#include <math.h>

void decision_result_add(struct decision_result *r, const float *logprobs, uint32_t n,
                         uint32_t n_orders)
{
    const double temperature = r->temperature > 0 ? r->temperature : 1;
    float top = logprobs[0];
    double sum = 0, mass = 0;

    for (uint32_t i = 1; i < n; i++)
        top = logprobs[i] > top ? logprobs[i] : top;
    for (uint32_t i = 0; i < n; i++) {
        sum += maths_exp(((double)logprobs[i] - (double)top) / temperature);
        mass += maths_exp((double)logprobs[i]);
        r->is_valid = r->is_valid && isfinite(logprobs[i]);
    }
    r->best = 0;
    for (uint32_t i = 0; i < n; i++) {
        r->probabilities[i] +=
            maths_exp(((double)logprobs[i] - (double)top) / temperature) / sum / n_orders;
        if (r->probabilities[i] > r->probabilities[r->best])
            r->best = i;
    }
    r->label_mass += mass / n_orders;
}

void decision_result_read(struct decision_result *r, const struct decision_question *q,
                          const struct prompt *prompts)
{
    float logprobs[DECISIONS_MAX_OPTIONS];

    *r = decision_result_begin(q);
    for (uint32_t k = 0; k < q->n_orders; k++) {
        const uint32_t n = label_path_logprobs(prompts, q->first_prompt + k, logprobs);

        decision_result_add(r, logprobs, n, q->n_orders);
    }
}

static double within(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double choice_confidence(const struct decision_result *r, uint32_t n)
{
    return within((n * r->probabilities[r->best] - 1) / (n - 1));
}

static double score_confidence(const struct decision_result *r, uint32_t n)
{
    double spread = 0, equal = 0;

    for (uint32_t i = 0; i < n; i++) {
        spread += r->probabilities[i] * fabs((double)i - r->best);
        equal += fabs(i - (n - 1) / 2.0) / n;
    }
    return within(1 - spread / equal);
}

double decision_result_confidence(const struct decision_result *r,
                                  const struct decision_question *q)
{
    if (q->n_options == 1)
        return 1;
    return q->kind == DECISION_SCORE ? score_confidence(r, q->n_options)
                                     : choice_confidence(r, q->n_options);
}

double decision_result_score(const struct decision_result *r, uint32_t n_options)
{
    double sum = 0;

    for (uint32_t i = 0; i < n_options; i++)
        sum += r->probabilities[i] * i;
    return sum;
}
