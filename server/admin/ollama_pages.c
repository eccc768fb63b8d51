/* server/admin/ollama_pages.c - see ollama_pages.h.
 *
 * Each page is written into a buffer from the list of models and the metadata of their files that
 * was read when they were loaded; no file is read here. Clients of Ollama compare names with the
 * tag ":latest", so it is appended to names without a tag.
 */
#include "server/admin/ollama_pages.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/admin/info.h"
#include "server/api/api_request.h"
#include "server/api/chat/chat.h"
#include "server/api/infill.h"
#include "server/api/params/field.h"
#include "server/api/response/response_writer.h"
#include "server/api/server_options.h"
#include "server/http/error.h"
#include "server/http/http_call.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#define OLLAMA_VERSION "0.12.11" /* the last version that added a field that is supported here */

static void reply_ollama(struct http_call *call, struct buf *body)
{
    http_call_reply_page(call, "application/json", body);
}

/* ---- a model ---- */

static void add_ollama_name(struct buf *b, const struct server_model *m)
{
    json_add_cstring(b, m->id);
    if (strchr(m->id, ':') == NULL && b->err == 0) {
        b->len--; /* remove the closing quote */
        buf_add_str(b, ":latest\"");
    }
}

/* Add ,"modified_at":"2026-01-02T03:04:05Z". */
static void add_time(struct buf *b, const char *name, int64_t unix_s)
{
    const time_t when = (time_t)unix_s;
    struct tm tm;
    char text[32];

    gmtime_r(&when, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_printf(b, ",\"%s\":\"%s\"", name, text);
}

/* Add 64 hex digits derived from the file's name and size; its contents are not read for a list. */
static void add_digest(struct buf *b, const struct server_model *m)
{
    const uint64_t parts[] = {m->size, m->n_params, XXH3_64bits(m->ftype, strlen(m->ftype)),
                              XXH3_64bits(m->id, strlen(m->id))};

    buf_add_str(b, ",\"digest\":\"");
    for (uint64_t i = 0; i < 4; i++)
        buf_printf(b, "%016" PRIx64, XXH3_64bits_withSeed(parts, sizeof(parts), i));
    buf_add_char(b, '"');
}

/* Add a count like "7.6B" or "494.03M". */
static void add_parameters(struct buf *b, uint64_t n)
{
    if (n >= 1000000000)
        buf_printf(b, "\"%.1fB\"", (double)n / 1e9);
    else if (n >= 1000000)
        buf_printf(b, "\"%.2fM\"", (double)n / 1e6);
    else
        buf_printf(b, "\"%.2fK\"", (double)n / 1e3);
}

static void add_details(struct buf *b, const struct server_model *m)
{
    buf_add_str(b, ",\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":");
    json_add_cstring(b, m->arch);
    buf_add_str(b, ",\"families\":[");
    json_add_cstring(b, m->arch);
    buf_add_str(b, "],\"parameter_size\":");
    add_parameters(b, m->n_params);
    buf_add_str(b, ",\"quantization_level\":");
    json_add_cstring(b, m->ftype);
    buf_printf(b, ",\"context_length\":%u,\"embedding_length\":%u}", m->max_context, m->n_embd);
}

/* Begin {"name":…,"model":…,"size":…. */
static void open_model(struct buf *b, const struct server_model *m)
{
    buf_add_str(b, "{\"name\":");
    add_ollama_name(b, m);
    buf_add_str(b, ",\"model\":");
    add_ollama_name(b, m);
    buf_printf(b, ",\"size\":%" PRIu64, m->size);
    add_digest(b, m);
    add_details(b, m);
}

/* ---- lists ---- */

static void add_listed(struct buf *b, const struct server_model *m)
{
    open_model(b, m);
    add_time(b, "modified_at", m->created);
    buf_add_char(b, ',');
    info_add_capabilities(b, m);
    buf_add_char(b, '}');
}

/* The expiry of a model that is never unloaded, in Unix seconds: clients need a time, and some
 * count its nanoseconds in 64 bits, which ends in 2262. */
#define YEAR_2262 9214646400

static void add_loaded(struct buf *b, const struct server_model *m)
{
    open_model(b, m);
    add_time(b, "expires_at", m->leaves_at > 0 ? m->leaves_at : YEAR_2262);
    buf_printf(b, ",\"size_vram\":0,\"context_length\":%u}", m->max_context);
}

static bool is_any(const struct server_model *m)
{
    (void)m;
    return true;
}

static bool is_loaded(const struct server_model *m)
{
    return m->tokenizer != NULL;
}

static void list(struct http_call *call, const struct server_model *const *models, uint32_t n,
                 bool (*is_listed)(const struct server_model *m),
                 void (*add)(struct buf *b, const struct server_model *m))
{
    const char *comma = "";
    struct buf b;

    buf_init(&b, (size_t)1 << 20);
    buf_add_str(&b, "{\"models\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (!is_listed(models[i]))
            continue;
        buf_add_str(&b, comma);
        add(&b, models[i]);
        comma = ",";
    }
    buf_add_str(&b, "]}");
    reply_ollama(call, &b);
}

void ollama_pages_tags(struct http_call *call, const struct server_model *const *models, uint32_t n)
{
    list(call, models, n, is_any, add_listed);
}

void ollama_pages_ps(struct http_call *call, const struct server_model *const *models, uint32_t n)
{
    list(call, models, n, is_loaded, add_loaded);
}

/* ---- small ones ---- */

void ollama_pages_version(struct http_call *call)
{
    struct buf b;

    buf_init(&b, 64);
    buf_add_str(&b, "{\"version\":\"" OLLAMA_VERSION "\"}");
    reply_ollama(call, &b);
}

void ollama_pages_running(struct http_call *call)
{
    struct buf b;

    buf_init(&b, 64);
    buf_add_str(&b, "Ollama is running");
    http_call_reply(call, 200, "text/plain; charset=utf-8", &b);
}

void ollama_pages_refuse(struct http_call *call)
{
    struct api_error e;

    api_error_set(&e, 400, NULL, NULL,
                  "this server does not pull, push, create, copy or delete models: the settings "
                  "'model' and 'alias' list their files and names");
    http_call_reply_error(call, &e);
}

/* ---- show ---- */

/* Add "general.architecture":…,"llama.context_length":…. */
static void add_info(struct buf *b, const struct server_model *m)
{
    buf_add_str(b, ",\"model_info\":{\"general.architecture\":");
    json_add_cstring(b, m->arch);
    buf_printf(b, ",\"general.parameter_count\":%" PRIu64, m->n_params);
    buf_printf(b,
               ",\"%s.context_length\":%u,\"%s.embedding_length\":%u,\"%s.vocab_size\":%u,"
               "\"tokenizer.ggml.model\":",
               m->arch, m->n_ctx_train, m->arch, m->n_embd, m->arch, m->n_vocab);
    json_add_cstring(b, tokenizer_model(m->tokenizer));
    if (tokenizer_bos(m->tokenizer) != TOKEN_NONE)
        buf_printf(b, ",\"tokenizer.ggml.bos_token_id\":%d", tokenizer_bos(m->tokenizer));
    if (tokenizer_eos(m->tokenizer) != TOKEN_NONE)
        buf_printf(b, ",\"tokenizer.ggml.eos_token_id\":%d", tokenizer_eos(m->tokenizer));
    buf_add_char(b, '}');
}

/* Add the defaults of requests as the lines of a Modelfile's parameters. */
static void add_defaults(struct buf *b, const struct server_model *m)
{
    struct params p;
    struct buf text;

    params_set_defaults(&p, PARAMS_OLLAMA_CHAT, m->sampling);
    buf_init(&text, 1024);
    buf_printf(&text, "num_ctx %u\ntemperature %g\ntop_k %d\ntop_p %g\nmin_p %g\nrepeat_penalty %g",
               m->max_context, (double)p.sampling.temperature, p.sampling.top_k,
               (double)p.sampling.top_p, (double)p.sampling.min_p,
               (double)p.sampling.repetition_penalty);
    buf_add_str(b, ",\"parameters\":");
    json_add_string(b, text.data, text.len);
    if (text.err < 0)
        b->err = text.err;
    buf_release(&text);
    params_release(&p);
}

static void add_modelfile(struct buf *b, const struct server_model *m)
{
    struct buf text;

    buf_init(&text, 1024);
    buf_printf(&text, "FROM %s\n", m->id);
    buf_add_str(b, "{\"modelfile\":");
    json_add_string(b, text.data, text.len);
    if (text.err < 0)
        b->err = text.err;
    buf_release(&text);
}

static void show_model(struct buf *b, const struct server_model *m)
{
    add_modelfile(b, m);
    add_defaults(b, m);
    buf_add_str(b, ",\"template\":");
    json_add_cstring(b, chat_source(m->chat));
    add_details(b, m);
    add_info(b, m);
    buf_add_char(b, ',');
    info_add_capabilities(b, m);
    add_time(b, "modified_at", m->created);
    buf_add_char(b, '}');
}

/* Answer /api/show. Older clients send `name` in place of `model`. */
static int show(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    const char *name = field_text(body, "model");

    if (name == NULL || name[0] == '\0')
        name = field_text(body, "name");
    if (name == NULL || name[0] == '\0')
        return api_error_set(&p->error, 400, "model", NULL, "'model' is required");
    if (!params_is_model(model->id, model->aliases, name))
        return api_error_no_model(&p->error, name);
    show_model(&p->echo, model);
    return 0;
}

const struct wire_format wire_ollama_show = {.answer = show};
