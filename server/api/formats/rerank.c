/* server/api/formats/rerank.c - answers of POST /v1/rerank: documents in the order of how well they
 * fit a query, in the shape of Jina and vLLM, of llama-server, of Cohere, or of
 * text-embeddings-inference, whose bodies have `texts`.
 *
 * Every document has a score (scores.c); they are sorted by it, and those with equal scores keep
 * the order of the request. `top_n` cuts the list afterwards, so it saves no work of the engine.
 */
#include "server/api/response/response_writer.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/formats/embedding.h"
#include "server/api/formats/scores.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEARCH_UNIT 100 /* documents in one of Cohere's search units */

struct ranked {
    uint32_t index;
    double score;
};

static void begin_rerank(struct response_writer *a)
{
    (void)a;
}

/* The best document comes first; of equal ones, the earlier. */
static int compare_scores(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Score and sort the documents; those after the client has gone have none. NULL: no memory. */
static struct ranked *rank(struct response_writer *a, struct buf *out)
{
    const uint32_t n = a->params->n_documents;
    struct ranked *list = mem_calloc(n, sizeof(*list));

    scores_begin(a);
    for (uint32_t i = 0; list != NULL && i < n && embedding_is_wanted(a, out); i++)
        list[i] = (struct ranked){i, scores_of(a, i)};
    if (list != NULL)
        qsort(list, n, sizeof(*list), compare_scores);
    return list;
}

static void add_rerank_result(const struct response_writer *a, const struct ranked *r,
                              struct buf *out)
{
    const bool is_plain = a->params->is_texts;
    const char *text = scores_document(a, r->index);

    buf_printf(out, "{\"index\":%u,\"%s\":", r->index, is_plain ? "score" : "relevance_score");
    json_add_float(out, (float)r->score);
    if (text != NULL) {
        buf_add_str(out, is_plain ? ",\"text\":" : ",\"document\":{\"text\":");
        json_add_cstring(out, text);
        if (!is_plain)
            buf_add_char(out, '}');
    }
    buf_add_char(out, '}');
}

static void add_results(struct response_writer *a, struct buf *out)
{
    const struct params *p = a->params;
    const uint32_t n = p->top_n > 0 && p->top_n < p->n_documents ? p->top_n : p->n_documents;
    struct ranked *list = rank(a, out);

    if (list == NULL) {
        out->err = ERR_NOMEM;
        return;
    }
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_rerank_result(a, &list[i], out);
    }
    buf_add_char(out, ']');
    mem_free(list);
}

static void add_answer(struct response_writer *a, struct buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"list\",\"model\":", a->id);
    json_add_cstring(out, a->model);
    buf_printf(out, ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64
                    "},\"results\":",
               a->usage.prompt, a->usage.prompt);
    add_results(a, out);
}

static void whole_rerank(struct response_writer *a, struct buf *out)
{
    if (a->params->is_texts) {
        add_results(a, out);
        return;
    }
    add_answer(a, out);
    buf_add_char(out, '}');
}

static void whole_with_meta(struct response_writer *a, struct buf *out)
{
    const uint32_t n = (a->params->n_documents + SEARCH_UNIT - 1) / SEARCH_UNIT;

    if (a->params->is_texts) {
        add_results(a, out);
        return;
    }
    add_answer(a, out);
    buf_printf(out, ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{"
                    "\"search_units\":%u},\"tokens\":{\"input_tokens\":%" PRIu64 "}}}",
               n, a->usage.prompt);
}

const struct wire_format wire_rerank = {
    .id_prefix = "rerank-",
    .form = PARAMS_RERANK,
    .gives_documents = true,
    .begin = begin_rerank,
    .whole = whole_rerank,
};

const struct wire_format wire_llamacpp_rerank = {
    .id_prefix = "rerank-",
    .form = PARAMS_RERANK,
    .begin = begin_rerank,
    .whole = whole_rerank,
};

const struct wire_format wire_cohere_rerank = {
    .id_prefix = "rerank-",
    .form = PARAMS_RERANK,
    .begin = begin_rerank,
    .whole = whole_with_meta,
};
