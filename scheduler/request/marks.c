/* scheduler/request/marks.c - see marks.h.
 *
 * All sums are of doubles in the order of the marks, with maths_exp() and maths_log(), so that a
 * result has the same bits on every machine.
 */
#include "scheduler/request/marks.h"

#include "core/base/maths.h"

#include <math.h>
#include <stddef.h>

static double score_of(const struct marks *m, uint32_t i)
{
    const uint32_t n = m->n_out / 2;
    const float *query = m->outs + (size_t)(m->n - 1) * m->n_out;
    const float *key = m->outs + (size_t)i * m->n_out + n;
    double sum = 0;

    if (m->read == MARKS_EACH)
        return (double)m->outs[(size_t)i * m->n_out];
    for (uint32_t k = 0; k < n; k++)
        sum += (double)query[k] * (double)key[k];
    return sum / sqrt((double)n);
}

void marks_settle(const struct marks *m)
{
    const uint32_t n = m->read == MARKS_POINTER ? m->n - 1 : m->n;
    double top = score_of(m, 0), sum = 0;

    for (uint32_t i = 1; i < n; i++)
        top = fmax(top, score_of(m, i));
    for (uint32_t i = 0; i < n; i++)
        sum += maths_exp(score_of(m, i) - top);
    for (uint32_t i = 0; i < n; i++)
        m->logprobs[m->at[i].option] = (float)(score_of(m, i) - top - maths_log(sum));
}
