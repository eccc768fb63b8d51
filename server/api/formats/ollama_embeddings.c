/* server/api/formats/ollama_embeddings.c - answers of POST /api/embed, and of /api/embeddings, its
 * older shape: one text, whose vector is as the model gives it.
 *
 * A body without a text only asks for the model to be loaded. So the `pick` functions look at the
 * body before its fields are read, and give it the wire format of ollama_load.c then.
 */
#include "server/api/response/response_writer.h"

#include "core/json/json.h"
#include "server/api/formats/embedding.h"
#include "server/api/formats/ollama.h"
#include "server/api/params/field.h"

#include <inttypes.h>

static void begin_ollama_vectors(struct response_writer *a)
{
    (void)a; /* there is one object */
}

static void whole_ollama_vectors(struct response_writer *a, struct buf *out)
{
    uint64_t us = 0;

    buf_add_str(out, "{\"model\":");
    if (a->echo->len > 0)
        buf_add(out, a->echo->data, a->echo->len);
    else
        json_add_cstring(out, a->model);
    buf_add_str(out, ",\"embeddings\":[");
    for (uint32_t i = 0; i < a->n_choices; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        embedding_add(a, i, out);
        us = a->choices[i].total_us > us ? a->choices[i].total_us : us;
    }
    buf_printf(out,
               "],\"total_duration\":%" PRIu64 ",\"load_duration\":0,\"prompt_eval_count\":%" PRIu64
               "}",
               us * 1000, a->usage.prompt);
}

static void older(struct response_writer *a, struct buf *out)
{
    buf_add_str(out, "{\"embedding\":");
    embedding_add(a, 0, out);
    buf_add_char(out, '}');
}

static const struct wire_format embed = {.id_prefix = "",
                                         .form = PARAMS_OLLAMA_EMBED,
                                         .echo = ollama_echo,
                                         .begin = begin_ollama_vectors,
                                         .whole = whole_ollama_vectors};
static const struct wire_format embeddings = {.id_prefix = "",
                                              .form = PARAMS_OLLAMA_EMBEDDINGS,
                                              .begin = begin_ollama_vectors,
                                              .whole = older};

/* Is there no text? Then the body asks for the model to be loaded. */
static bool is_nothing(const cJSON *v)
{
    return v == NULL || (cJSON_IsString(v) && v->valuestring[0] == '\0') ||
           (cJSON_IsArray(v) && v->child == NULL);
}

static const struct wire_format *pick_embed(const cJSON *body)
{
    return is_nothing(field_find(body, "input")) ? &wire_ollama_load_embed : &embed;
}

static const struct wire_format *pick_embeddings(const cJSON *body)
{
    const cJSON *prompt = field_find(body, "prompt");

    return is_nothing(prompt) && !cJSON_IsArray(prompt) ? &wire_ollama_load_embeddings
                                                        : &embeddings;
}

const struct wire_format wire_ollama_embed = {.id_prefix = "",
                                              .form = PARAMS_OLLAMA_EMBED,
                                              .pick = pick_embed,
                                              .begin = begin_ollama_vectors,
                                              .whole = whole_ollama_vectors};
const struct wire_format wire_ollama_embeddings = {.id_prefix = "",
                                                   .form = PARAMS_OLLAMA_EMBEDDINGS,
                                                   .pick = pick_embeddings,
                                                   .begin = begin_ollama_vectors,
                                                   .whole = older};
