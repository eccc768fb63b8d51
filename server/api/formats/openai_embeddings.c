/* server/api/formats/openai_embeddings.c - answers of POST /v1/embeddings: a vector of length one
 * for a text.
 *
 * The engine has left the sum of the pooled states with the prompt. Its direction is the answer,
 * cut to the dimensions that are wanted: so a mean need not be divided. Sums are taken in double
 * and in one order, so equal texts have equal vectors, bit for bit.
 */
#include "server/api/response/response_writer.h"

#include "core/base/base64.h"
#include "core/base/json.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static void begin(struct response_writer *a)
{
    (void)a;
}

static void add_floats(struct buf *out, const float *x, uint32_t n)
{
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        json_add_float(out, x[i]);
    }
    buf_add_char(out, ']');
}

/* Little-endian floats, as this machine has them. */
static void add_base64(struct buf *out, const float *x, uint32_t n)
{
    buf_add_char(out, '"');
    base64_add(out, x, n * sizeof(*x));
    buf_add_char(out, '"');
}

/* The first n numbers with a length of one; a zero vector stays one. */
static void normalise(float *x, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n && sum > 0; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

static void whole(struct response_writer *a, struct buf *out)
{
    const uint32_t n = a->params->dimensions > 0 ? a->params->dimensions : a->n_embd;

    buf_add_str(out, "{\"object\":\"list\",\"model\":");
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        float *x = a->choices[i].prompt->pooled;

        normalise(x, n);
        buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "",
                   i);
        if (a->params->as_base64)
            add_base64(out, x, n);
        else
            add_floats(out, x, n);
        buf_add_char(out, '}');
    }
    buf_printf(out, "],\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
               (unsigned long long)a->usage.prompt, (unsigned long long)a->usage.prompt);
}

const struct wire_format wire_openai_embeddings = {
    .id_prefix = "embd-",
    .form = PARAMS_EMBED,
    .begin = begin,
    .whole = whole,
};
