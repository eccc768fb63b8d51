/* server/api/formats/llamacpp_embeddings.c - answers of POST /embedding, in the shape of
 * llama-server: a list with an object for each text, whose one row is its vector.
 *
 * With the pooling none there is a row for each token; these vectors are not normalised unless the
 * body says so (has_raw_tokens).
 */
#include "server/api/response/response_writer.h"

#include "server/api/formats/embedding.h"

static void begin_llamacpp_vectors(struct response_writer *a)
{
    a->has_raw_tokens = true;
}

static void whole_llamacpp_vectors(struct response_writer *a, struct buf *out)
{
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < a->n_choices; i++) {
        buf_printf(out, "%s{\"index\":%u,\"embedding\":[", i > 0 ? "," : "", i);
        if (a->choices[i].prompt->is_each)
            embedding_add_rows(a, i, out);
        else
            embedding_add(a, i, out);
        buf_add_str(out, "]}");
    }
    buf_add_char(out, ']');
}

const struct wire_format wire_llamacpp_embeddings = {
    .id_prefix = "embd-",
    .form = PARAMS_EMBED,
    .gives_tokens = true,
    .begin = begin_llamacpp_vectors,
    .whole = whole_llamacpp_vectors,
};
