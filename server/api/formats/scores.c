/* server/api/formats/scores.c - answers of POST /score, in the shape of vLLM; and the scores of all
 * wire formats (scores.h).
 *
 * A cross-encoder reads query and document in one prompt, and its score is one of its labels. Any
 * other model has embedded each text as a prompt of its own: the queries come first, so document i
 * is prompt n_queries + i, and the score is the cosine of the two vectors, or MaxSim if each token
 * has a vector (late interaction).
 */
#include "server/api/formats/scores.h"

#include "core/base/maths.h"
#include "core/json/json.h"
#include "server/api/formats/embedding.h"
#include "server/api/response/response_writer.h"

#include <inttypes.h>
#include <math.h>

static double dot(const float *x, const float *y, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* The cosine does not depend on the vectors' lengths, so a mean need not be divided. */
static double cosine(const float *x, const float *y, uint32_t n)
{
    const double length = sqrt(dot(x, x, n)) * sqrt(dot(y, y, n));

    return length > 0 ? dot(x, y, n) / length : 0;
}

/* The softmax of several numbers needs their largest and a sum; one number gets a sigmoid
 * instead. */
struct shares {
    double top, sum;
};

static struct shares shares_of(const float *x, uint32_t n)
{
    struct shares s = {n == 1 ? 0 : (double)x[0], n == 1 ? 1 : 0};

    for (uint32_t i = 1; i < n; i++)
        s.top = (double)x[i] > s.top ? (double)x[i] : s.top;
    for (uint32_t i = 0; i < n && n > 1; i++)
        s.sum += maths_exp((double)x[i] - s.top);
    return s;
}

static double share(const struct shares *s, double x, uint32_t n)
{
    return n == 1 ? 1 / (1 + maths_exp(-x)) : maths_exp(x - s->top) / s->sum;
}

void scores_of_labels(const struct response_writer *a, const struct prompt *prompt, float *out)
{
    scores_of_outputs(a, prompt->labels, a->labels.n, out);
}

void scores_of_outputs(const struct response_writer *a, const float *x, uint32_t n, float *out)
{
    const struct shares s = shares_of(x, n);

    for (uint32_t i = 0; i < n; i++)
        out[i] = a->params->without_activation ? x[i] : (float)share(&s, (double)x[i], n);
}

static double of_cross(const struct response_writer *a, const struct prompt *prompt)
{
    const uint32_t n = a->labels.n;
    const struct shares s = shares_of(prompt->labels, n);
    const double x = (double)prompt->labels[a->labels.yes];

    return a->params->without_activation ? x : share(&s, x, n);
}

/* ---- late interaction ---- */

#define LANES 8 /* sums that a compiler can keep in vectors; their order is part of the result */

static double dot_in_lanes(const float *x, const float *y, uint32_t n)
{
    double sums[LANES] = {0};
    const uint32_t whole = n / LANES * LANES;

    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t k = 0; k < LANES; k++)
            sums[k] += (double)x[i + k] * (double)y[i + k];
    for (uint32_t i = whole; i < n; i++)
        sums[i - whole] += (double)x[i] * (double)y[i];
    for (uint32_t k = 1; k < LANES; k++)
        sums[0] += sums[k];
    return sums[0];
}

static double max_sim(const struct prompt *query, const struct prompt *document)
{
    const uint32_t n = query->width;
    double sum = 0;

    for (uint32_t i = 0; i < query->n_pooled && document->n_pooled > 0; i++) {
        const float *x = query->pooled + (size_t)i * n;
        double best = dot_in_lanes(x, document->pooled, n);

        for (uint32_t k = 1; k < document->n_pooled; k++) {
            const double d = dot_in_lanes(x, document->pooled + (size_t)k * n, n);

            best = d > best ? d : best;
        }
        sum += best;
    }
    return sum;
}

void scores_begin(struct response_writer *a)
{
    for (uint32_t i = 0; i < a->n_choices; i++)
        if (a->choices[i].prompt->is_each)
            embedding_scale_tokens(a, i);
}

double scores_of(const struct response_writer *a, uint32_t i)
{
    const struct params *p = a->params;
    const uint32_t query = p->n_queries > 1 ? i : 0;

    if (a->labels.is_cross)
        return of_cross(a, a->choices[i].prompt);
    if (a->choices[query].prompt->is_each)
        return max_sim(a->choices[query].prompt, a->choices[p->n_queries + i].prompt);
    return cosine(a->choices[query].prompt->pooled, a->choices[p->n_queries + i].prompt->pooled,
                  a->choices[query].prompt->width);
}

const char *scores_document(const struct response_writer *a, uint32_t i)
{
    const uint32_t at = a->labels.is_cross ? i : a->params->n_queries + i;

    return a->params->return_documents ? a->choices[at].prompt->text : NULL;
}

static void begin_scores(struct response_writer *a)
{
    (void)a;
}

static void whole_scores(struct response_writer *a, struct buf *out)
{
    scores_begin(a);
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%" PRId64 ",\"model\":", a->id,
               a->created);
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->params->n_documents && embedding_is_wanted(a, out); i++) {
        buf_printf(out, "%s{\"index\":%u,\"object\":\"score\",\"score\":", i > 0 ? "," : "", i);
        json_add_float(out, (float)scores_of(a, i));
        buf_add_char(out, '}');
    }
    buf_printf(out, "],\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64
                    ",\"completion_tokens\":0}}",
               a->usage.prompt, a->usage.prompt);
}

const struct wire_format wire_score = {
    .id_prefix = "score-",
    .form = PARAMS_SCORE,
    .begin = begin_scores,
    .whole = whole_scores,
};
