/* server/api/formats/cohere_embed.c - answers of POST /v2/embed, in the shape of Cohere, and the
 * errors of its API.
 *
 * A vector has length one, and is written in each of the forms that the body asks for; a form is a
 * row of the table. int8 keeps a vector's direction, not its length: each vector has a scale of its
 * own, so that the same text has the same numbers in every call.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"
#include "server/api/formats/embedding.h"
#include "server/api/params/field.h"

#include <inttypes.h>
#include <math.h>

#define MOST_INT8 127
#define SIGNED_OFFSET 128 /* an unsigned byte minus this is the signed one */

static void begin_cohere_vectors(struct response_writer *a)
{
    (void)a;
}

static void add_cohere_float(const float *x, uint32_t n, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        buf_add_char(out, i > 0 ? ',' : '[');
        json_add_float(out, x[i]);
    }
    buf_add_char(out, ']');
}

static void add_bytes(const float *x, uint32_t n, int offset, struct buf *out)
{
    double most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    for (uint32_t i = 0; i < n; i++) {
        const long byte = most > 0 ? lround((double)x[i] * MOST_INT8 / most) : 0;

        buf_printf(out, "%c%ld", i > 0 ? ',' : '[', byte + offset);
    }
    buf_add_char(out, ']');
}

static void add_int8(const float *x, uint32_t n, struct buf *out)
{
    add_bytes(x, n, 0, out);
}

static void add_uint8(const float *x, uint32_t n, struct buf *out)
{
    add_bytes(x, n, SIGNED_OFFSET, out);
}

/* n is a multiple of 8. */
static void add_bits(const float *x, uint32_t n, int offset, struct buf *out)
{
    for (uint32_t i = 0; i < n; i += 8) {
        int byte = 0;

        for (uint32_t k = 0; k < 8; k++)
            byte = byte << 1 | (x[i + k] >= 0);
        buf_printf(out, "%c%d", i > 0 ? ',' : '[', byte - offset);
    }
    buf_add_char(out, ']');
}

static void add_binary(const float *x, uint32_t n, struct buf *out)
{
    add_bits(x, n, SIGNED_OFFSET, out);
}

static void add_ubinary(const float *x, uint32_t n, struct buf *out)
{
    add_bits(x, n, 0, out);
}

static const struct cohere_form {
    enum embedding_type type;
    const char *name;
    void (*add)(const float *x, uint32_t n, struct buf *out);
} forms[] = {
    {EMBEDDING_FLOAT, "float", add_cohere_float},
    {EMBEDDING_INT8, "int8", add_int8},
    {EMBEDDING_UINT8, "uint8", add_uint8},
    {EMBEDDING_BINARY, "binary", add_binary},
    {EMBEDDING_UBINARY, "ubinary", add_ubinary},
    {EMBEDDING_BASE64, "base64", embedding_add_float32},
};

/* The vectors were scaled before: they are written once for each form. */
static void add_form(const struct response_writer *a, const struct cohere_form *form, uint32_t n,
                     struct buf *out)
{
    buf_printf(out, "\"%s\":[", form->name);
    for (uint32_t i = 0; i < a->n_choices && embedding_is_wanted(a, out); i++) {
        if (i > 0)
            buf_add_char(out, ',');
        form->add(a->choices[i].prompt->pooled, n, out);
    }
    buf_add_char(out, ']');
}

static void add_forms(struct response_writer *a, struct buf *out)
{
    bool is_first = true;
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->n_choices; i++)
        embedding_scale(a, i, &n);
    for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
        if ((a->params->embedding_types & forms[k].type) == 0)
            continue;
        if (!is_first)
            buf_add_char(out, ',');
        is_first = false;
        add_form(a, &forms[k], n, out);
    }
}

static void whole_cohere_vectors(struct response_writer *a, struct buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"embeddings\":{", a->id);
    add_forms(a, out);
    buf_add_char(out, '}');
    buf_add(out, a->echo->data, a->echo->len);
    buf_printf(out,
               ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{"
               "\"input_tokens\":%" PRIu64 "}},\"response_type\":\"embeddings_by_type\"}",
               a->usage.prompt);
}

/* Write the texts as they came; `inputs` are not repeated. */
static int echo_texts(const cJSON *body, struct buf *echo)
{
    const cJSON *texts = field_find(body, "texts");

    if (texts == NULL)
        return 0;
    buf_add_str(echo, ",\"texts\":[");
    for (const cJSON *it = texts->child; it != NULL; it = it->next) {
        if (it != texts->child)
            buf_add_char(echo, ',');
        json_add_cstring(echo, it->valuestring);
    }
    buf_add_char(echo, ']');
    return echo->err;
}

void cohere_error(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "{\"message\":");
    json_add_cstring(out, e->message);
    buf_add_char(out, '}');
}

const struct wire_format wire_cohere_embed = {
    .id_prefix = "embd-",
    .form = PARAMS_COHERE_EMBED,
    .echo = echo_texts,
    .begin = begin_cohere_vectors,
    .whole = whole_cohere_vectors,
};
