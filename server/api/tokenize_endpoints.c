/* server/api/tokenize_endpoints.c - see tokenize_endpoints.h. */
#include "server/api/tokenize_endpoints.h"

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/body_scan.h"
#include "server/api/engine_client.h"
#include "server/api/params/field.h"
#include "server/api/refusal.h"
#include "server/api/request_memory.h"
#include "server/api/template_endpoints.h"
#include "server/http/http_call.h"
#include "server/process/worker_pool.h"

#include <string.h>

#define INLINE_BODY ((size_t)8 << 10) /* as for completions, as the next */
#define LARGE_BODY ((size_t)1 << 20)

struct job {
    struct engine_client *engine;
    struct http_call *call; /* NULL once the client has gone */
    struct worker_job job;
    struct memory_share share;
    struct buf body, out;
    struct api_error error; /* status 0: `out` is the answer */
    void (*run)(struct job *j, const cJSON *body);
};

/* ---- /tokenize ---- */

static int read_flag(const cJSON *body, const char *name, bool *out, struct api_error *e)
{
    const cJSON *v = field_find(body, name);

    return v != NULL ? field_bool(v, name, out, e) : 0;
}

static void add_piece(struct buf *out, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = tokenizer_piece(t, id, &n);

    buf_printf(out, "{\"id\":%d,\"piece\":", id);
    if (json_is_utf8(piece, n)) {
        json_add_string(out, piece, n);
    } else {
        for (size_t i = 0; i < n; i++)
            buf_printf(out, "%c%u", i > 0 ? ',' : '[', (unsigned char)piece[i]);
        buf_add_char(out, ']');
    }
    buf_add_char(out, '}');
}

static void add_tokens(struct job *j, const struct token_list *list, bool with_pieces)
{
    buf_add_str(&j->out, "\"tokens\":[");
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0)
            buf_add_char(&j->out, ',');
        if (with_pieces)
            add_piece(&j->out, j->engine->model->tokenizer, list->ids[i]);
        else
            buf_printf(&j->out, "%d", list->ids[i]);
    }
    buf_add_str(&j->out, "]}");
}

static void encode(struct job *j, const cJSON *body)
{
    const cJSON *content = field_find(body, "content"), *prompt = field_find(body, "prompt");
    const bool is_vllm = content == NULL && prompt != NULL;
    const cJSON *text = is_vllm ? prompt : content;
    const char *name = is_vllm ? "prompt" : "content";
    bool add_special = is_vllm, parse_special = true, with_pieces = false;
    /* Bodies may be as large as the operator lets them; some 5 steps a byte are the most. */
    struct budget budget = {.steps_left = BUDGET_REQUEST_STEPS + 8 * (uint64_t)j->body.len,
                            .canceled = &j->job.canceled};
    struct token_list list = {0};
    unsigned flags;

    if (!cJSON_IsString(text)) {
        api_error_set(&j->error, 400, name, NULL, "'%s' must be a string", name);
        return;
    }
    if (read_flag(body, "add_special", &add_special, &j->error) < 0 ||
        read_flag(body, "add_special_tokens", &add_special, &j->error) < 0 ||
        read_flag(body, "parse_special", &parse_special, &j->error) < 0 ||
        read_flag(body, "with_pieces", &with_pieces, &j->error) < 0)
        return;
    flags =
        (add_special ? TOKENIZER_ADD_SPECIAL : 0u) | (parse_special ? TOKENIZER_PARSE_SPECIAL : 0u);
    /* A token stands for at least a byte; BOS, EOS and a prefix space may be added. */
    if (tokenizer_encode(j->engine->model->tokenizer, text->valuestring, strlen(text->valuestring),
                         flags, 4 * j->engine->server->max_body, &budget, &list) < 0) {
        if (budget_error(&budget) < 0)
            api_error_set(&j->error, 400, name, NULL, "'%s' takes too many steps to tokenize",
                          name);
        else
            api_error_no_memory(&j->error);
        return;
    }
    buf_add_char(&j->out, '{');
    if (is_vllm)
        buf_printf(&j->out, "\"count\":%zu,\"max_model_len\":%u,", list.n,
                   j->engine->model->max_context);
    add_tokens(j, &list, with_pieces);
    token_list_release(&list);
}

/* ---- /detokenize ---- */

static void decode(struct job *j, const cJSON *body)
{
    const struct tokenizer *t = j->engine->model->tokenizer;
    const cJSON *tokens = field_find(body, "tokens");
    const int32_t n_vocab = tokenizer_n_vocab(t);
    struct detok d;
    struct buf text;

    if (!cJSON_IsArray(tokens)) {
        api_error_set(&j->error, 400, "tokens", NULL, "'tokens' must be an array of token ids");
        return;
    }
    buf_init(&text, HTTP_MAX_REPLY / 8);
    detok_init(&d, t, true);
    d.show_control = true;
    for (const cJSON *it = tokens->child; it != NULL; it = it->next) {
        if (!field_is_int(it, 0, n_vocab - 1)) {
            api_error_set(&j->error, 400, "tokens", NULL,
                          "'tokens' must hold token ids between 0 and %d", n_vocab - 1);
            break;
        }
        detok_feed(&d, (int32_t)it->valuedouble, &text);
    }
    detok_finish(&d, &text);
    buf_add_str(&j->out, field_find(body, "model") != NULL ? "{\"prompt\":" : "{\"content\":");
    json_add_string(&j->out, text.data, text.len);
    buf_add_char(&j->out, '}');
    if (text.err < 0)
        j->out.err = text.err;
    buf_release(&text);
}

/* ---- both ---- */

static void run(struct job *j)
{
    const char *why = NULL;
    cJSON *body = NULL;
    const int rc = json_parse(j->body.data, j->body.len, &body, &why);

    if (rc < 0)
        api_error_set(&j->error, rc == ERR_NOMEM ? 500 : 400, NULL, NULL, "%s", why);
    else if (!cJSON_IsObject(body))
        api_error_set(&j->error, 400, NULL, NULL, "the body must be a JSON object");
    else
        j->run(j, body);
    cJSON_Delete(body);
}

static void answer(struct job *j)
{
    if (j->call != NULL && j->error.status != 0)
        refusal_reply_error(j->engine, j->call, &j->error);
    else if (j->call != NULL)
        http_call_reply(j->call, 200, "application/json", &j->out);
    buf_release(&j->out);
    buf_release(&j->body);
    request_memory_release(&j->share);
    j->engine->n_jobs--;
    mem_free(j);
}

static void on_work(struct worker_job *job)
{
    struct job *j = list_entry(job, struct job, job);

    if (!atomic_load(&job->canceled))
        run(j);
    if (j->body.len > LARGE_BODY)
        mem_trim();
}

static void after_work(struct worker_job *job)
{
    struct job *j = list_entry(job, struct job, job);

    answer(j);
}

static void on_gone(void *ud)
{
    struct job *j = ud;

    j->call = NULL;
    worker_job_cancel(&j->job);
}

/* Long bodies are done by the pool; when too many wait for it, the call is refused. */
static bool post(struct job *j)
{
    j->job.work = on_work;
    j->job.done = after_work;
    if (worker_pool_post(j->engine->text_pool, &j->job) == 0)
        return true;
    api_error_set(&j->error, 429, NULL, "queue_full", "too many requests are being prepared");
    return false;
}

/* Beside the JSON: a byte may become a token in the list, and a number in the answer. */
static uint64_t memory_of(const struct body_scan *scan)
{
    return request_memory_of_body(scan) + 12 * (uint64_t)scan->n_bytes;
}

static void start(struct engine_client *engine, struct http_call *call,
                  const struct body_scan *scan, void (*what)(struct job *j, const cJSON *body))
{
    struct job *j = mem_calloc(1, sizeof(*j));

    if (j == NULL) {
        refusal_send_no_memory(engine, call);
        return;
    }
    *j = (struct job){.engine = engine, .call = call, .run = what};
    engine->n_jobs++;
    j->body = http_call_take_body(call);
    buf_init(&j->out, HTTP_MAX_REPLY);
    http_call_on_gone(call, on_gone, j);
    if (request_memory_set(engine->memory, &j->share, memory_of(scan), &j->error) < 0)
        engine->metrics->rejections[REJECTION_MEMORY]++;
    else if (j->body.len <= INLINE_BODY)
        run(j);
    else if (post(j))
        return;
    answer(j);
}

void tokens_encode(struct engine_client *engine, struct http_call *call,
                   const struct body_scan *scan)
{
    if (scan->has_messages)
        template_endpoints_tokenize(engine, call, scan);
    else
        start(engine, call, scan, encode);
}

void tokens_decode(struct engine_client *engine, struct http_call *call,
                   const struct body_scan *scan)
{
    start(engine, call, scan, decode);
}
