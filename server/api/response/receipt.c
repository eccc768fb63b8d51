/* server/api/response/receipt.c - keeps the parts of a receipt, and writes it at the end.
 *
 * A request's body is copied and minified when it is accepted, since nothing keeps it until the
 * end. The members from "quire" to "defaults" are the same for all answers of a model and are
 * written once, when it is loaded (`origin`). receipt_add() then only appends texts and digests.
 */
#include "server/api/response/receipt.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "core/model/adapter.h"
#include "server/http/http_call.h"
#include "server/api/response/digest.h"

#include <inttypes.h>
#include <string.h>

int receipt_take_body(struct receipt_source *s, const struct buf *body)
{
    buf_init(&s->body, HTTP_MAX_REPLY);
    if (buf_add(&s->body, body->data, body->len) < 0)
        return ERR_NOMEM;
    cJSON_Minify(s->body.data); /* it was parsed: minifying cannot fail */
    s->body.len = strlen(s->body.data);
    return 0;
}

void receipt_release(struct receipt_source *s)
{
    buf_release(&s->body);
}

static void add_adapter(const struct receipt_source *s, struct buf *out)
{
    if (s->adapter == NULL)
        return;
    buf_add_str(out, ",\"adapter\":{\"name\":");
    json_add_cstring(out, s->adapter_name);
    buf_add_str(out, ",\"scale\":");
    json_add_float(out, s->adapter_scale);
    buf_printf(out, ",\"numbers\":\"%016" PRIx64 "%016" PRIx64 "\"}", s->adapter->id[1],
               s->adapter->id[0]);
}

static void add_digest(struct buf *out, const char *name, const int32_t *ids, size_t n)
{
    char digest[DIGEST_TEXT];

    if (digest_tokens(ids, n, digest) < 0)
        out->err = ERR_INTERNAL;
    else
        buf_printf(out, ",\"%s\":\"%s\"", name, digest);
}

static void add_receipt_choice(const struct receipt_choice *c, struct buf *out)
{
    buf_printf(out, "{\"index\":%u,\"seed\":\"%" PRIu64 "\",\"prompt_tokens\":%zu", c->index,
               c->seed, c->n_prompt);
    add_digest(out, "prompt", c->prompt, c->n_prompt);
    add_digest(out, "answer", c->answer, c->n_answer);
    buf_add_str(out, ",\"tokens\":[");
    for (size_t i = 0; i < c->n_answer; i++)
        buf_printf(out, "%s%d", i > 0 ? "," : "", c->answer[i]);
    buf_printf(out, "],\"finish_reason\":\"%s\"", c->finish);
    for (uint32_t i = 0; i < c->n_labels; i++) {
        buf_add_str(out, i > 0 ? "," : ",\"labels\":[");
        json_add_float(out, c->labels[i]);
    }
    buf_add_str(out, c->n_labels > 0 ? "]}" : "}");
}

void receipt_add(const struct receipt_source *s, const char *endpoint,
                 const struct receipt_choice *choices, uint32_t n, struct buf *out)
{
    buf_printf(out, "{\"receipt\":%d,%s", RECEIPT_VERSION, s->origin);
    add_adapter(s, out);
    buf_printf(out, ",\"endpoint\":\"%s\",\"time\":%" PRId64 ",\"request\":", endpoint, s->time);
    buf_add(out, s->body.data, s->body.len);
    buf_add_str(out, ",\"choices\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_receipt_choice(&choices[i], out);
    }
    buf_add_str(out, "]}");
}
