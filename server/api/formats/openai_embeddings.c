/* server/api/formats/openai_embeddings.c - answers of POST /v1/embeddings: a vector of length one
 * for a text, or of a late interaction model one for each token, as vLLM has it; and the vectors of
 * all wire formats (embedding.h).
 *
 * The engine has left the sum of the pooled states with the prompt. The answer is the direction of
 * that sum, cut to the wanted dimensions, so a mean need not be divided. Sums are taken in double
 * and in one order, so equal texts have equal vectors, bit for bit.
 */
#include "server/api/response/response_writer.h"

#include "core/base/base64.h"
#include "core/base/err.h"
#include "core/base/maths.h"
#include "core/base/mem.h"
#include "core/formats/gguf/blocks.h"
#include "core/json/json.h"
#include "server/api/formats/embedding.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NUMBERS_AT_ONCE 768 /* a multiple of 3: pieces of base64 then need no padding */

static void begin_embeddings(struct response_writer *a)
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

/* Write a number in the type and byte order of the body. Returns how many bytes. */
static size_t put_vector_number(const struct params *p, float x, unsigned char *to)
{
    const size_t n = p->number_type == NUMBER_FLOAT32 ? 4 : 2;
    uint32_t bits;

    if (p->number_type == NUMBER_FLOAT16)
        bits = block_f32_to_f16(x);
    else if (p->number_type == NUMBER_BFLOAT16)
        bits = block_f32_to_bf16(x);
    else
        memcpy(&bits, &x, sizeof(bits));
    for (size_t i = 0; i < n; i++)
        to[p->big_endian ? n - 1 - i : i] = (unsigned char)(bits >> 8 * i);
    return n;
}

static void add_base64(struct buf *out, const struct params *p, const float *x, size_t n)
{
    unsigned char bytes[4 * NUMBERS_AT_ONCE];

    buf_add_char(out, '"');
    for (size_t from = 0; from < n; from += NUMBERS_AT_ONCE) {
        const size_t end = n - from < NUMBERS_AT_ONCE ? n : from + NUMBERS_AT_ONCE;
        size_t len = 0;

        for (size_t i = from; i < end; i++)
            len += put_vector_number(p, x[i], bytes + len);
        base64_add(out, bytes, len);
    }
    buf_add_char(out, '"');
}

/* Scale the first n numbers to a length of one; a zero vector stays one. */
static void normalise(float *x, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n && sum > 0; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

/* Scale by the p-norm; p = 0: the largest number becomes 32760; p = -1: the sum becomes the mean
 * where the pooling is a mean. */
static void scale(const struct response_writer *a, const struct choice *c, float *x, uint32_t n)
{
    const bool is_raw = a->has_raw_tokens && c->prompt->is_each && !a->params->has_normalize;
    const int32_t p = is_raw ? -1 : a->params->embd_normalize;
    double by = 0;

    if (p == 2) {
        normalise(x, n);
        return;
    }
    for (uint32_t i = 0; i < n && p == 0; i++)
        by = fabs((double)x[i]) > by * 32760 ? fabs((double)x[i]) / 32760 : by;
    for (uint32_t i = 0; i < n && p > 0; i++)
        by += maths_pow(fabs((double)x[i]), p);
    if (p > 0)
        by = maths_pow(by, 1.0 / p);
    if (p < 0)
        by = a->has_mean && !c->prompt->is_each ? (double)c->prompt->ids.n : 1;
    for (uint32_t i = 0; i < n && by > 0; i++)
        x[i] = (float)((double)x[i] / by);
}

bool embedding_is_wanted(const struct response_writer *a, struct buf *out)
{
    if (a->canceled != NULL && atomic_load_explicit(a->canceled, memory_order_relaxed))
        out->err = ERR_CANCELED;
    return out->err >= 0;
}

void embedding_add_float32(const float *x, uint32_t n, struct buf *out)
{
    const struct params plain = {.number_type = NUMBER_FLOAT32};

    add_base64(out, &plain, x, n);
}

void embedding_add_numbers(const struct response_writer *a, const float *x, uint32_t n,
                           struct buf *out)
{
    if (!embedding_is_wanted(a, out))
        return;
    if (a->params->as_base64)
        add_base64(out, a->params, x, n);
    else
        add_floats(out, x, n);
}

static uint32_t n_wanted(const struct response_writer *a, uint32_t i)
{
    return a->params->dimensions > 0 ? a->params->dimensions : a->choices[i].prompt->width;
}

const float *embedding_scale(struct response_writer *a, uint32_t i, uint32_t *n)
{
    float *x = a->choices[i].prompt->pooled;

    *n = n_wanted(a, i);
    scale(a, &a->choices[i], x, *n);
    return x;
}

void embedding_add(struct response_writer *a, uint32_t i, struct buf *out)
{
    uint32_t n;
    const float *x = embedding_scale(a, i, &n);

    embedding_add_numbers(a, x, n, out);
}

/* Cut and scale each vector, and move them together, so that there are no gaps between them. */
static const float *pack(struct response_writer *a, uint32_t i)
{
    struct prompt *prompt = a->choices[i].prompt;
    const uint32_t n = n_wanted(a, i);

    for (uint32_t k = 0; k < prompt->n_pooled; k++) {
        const size_t row = prompt->n_skipped + k;
        float *x = prompt->pooled + (size_t)k * n;

        memmove(x, prompt->pooled + row * prompt->width, n * sizeof(*x));
        scale(a, &a->choices[i], x, n);
    }
    return prompt->pooled;
}

static void add_vector_rows(const struct response_writer *a, const float *x, uint32_t n_rows,
                            uint32_t n, struct buf *out)
{
    for (uint32_t k = 0; k < n_rows; k++) {
        if (k > 0)
            buf_add_char(out, ',');
        embedding_add_numbers(a, x + (size_t)k * n, n, out);
    }
}

void embedding_scale_tokens(struct response_writer *a, uint32_t i)
{
    pack(a, i);
}

void embedding_add_rows(struct response_writer *a, uint32_t i, struct buf *out)
{
    add_vector_rows(a, pack(a, i), a->choices[i].prompt->n_pooled, n_wanted(a, i), out);
}

void embedding_add_matrix(const struct response_writer *a, const float *x, uint32_t n_rows,
                          uint32_t n, struct buf *out)
{
    if (a->params->as_base64) {
        add_base64(out, a->params, x, (size_t)n_rows * n);
        return;
    }
    buf_add_char(out, '[');
    add_vector_rows(a, x, n_rows, n, out);
    buf_add_char(out, ']');
}

void embedding_add_tokens(struct response_writer *a, uint32_t i, struct buf *out)
{
    embedding_add_matrix(a, pack(a, i), a->choices[i].prompt->n_pooled, n_wanted(a, i), out);
}

static void whole_embeddings(struct response_writer *a, struct buf *out)
{
    buf_add_str(out, "{\"object\":\"list\",\"model\":");
    json_add_cstring(out, a->model);
    buf_add_str(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "",
                   i);
        if (a->choices[i].prompt->is_each)
            embedding_add_tokens(a, i, out);
        else
            embedding_add(a, i, out);
        buf_add_char(out, '}');
    }
    buf_printf(out, "],\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
               (unsigned long long)a->usage.prompt, (unsigned long long)a->usage.prompt);
}

const struct wire_format wire_openai_embeddings = {
    .id_prefix = "embd-",
    .form = PARAMS_EMBED,
    .begin = begin_embeddings,
    .whole = whole_embeddings,
};
