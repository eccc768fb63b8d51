/* server/admin/vllm_pages.c - see vllm_pages.h.
 *
 * Each page is written into a buffer from the settings and the models in memory, under vLLM's
 * names. Routers read the pages once at their start to learn the block size and the sockets of KV
 * events, so nothing is cached.
 */
#include "server/admin/vllm_pages.h"

#include "core/base/version.h"
#include "core/json/json.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat.h"
#include "server/api/server_options.h"
#include "server/http/error.h"
#include "server/http/http_call.h"
#include "server/kv_events/kv_event_publisher.h"

#include <inttypes.h>
#include <string.h>

static void reply_vllm(struct http_call *call, struct buf *body)
{
    http_call_reply_page(call, "application/json", body);
}

void vllm_pages_load(struct http_call *call, uint64_t n_calls)
{
    struct buf b;

    buf_init(&b, 64);
    buf_printf(&b, "{\"server_load\":%" PRIu64 "}", n_calls);
    reply_vllm(call, &b);
}

/* ---- the tokenizer ---- */

/* Return the name of the class in transformers for a family of tokenizers. */
static const char *class_of(const struct tokenizer *t)
{
    static const char *const names[][2] = {{"llama", "LlamaTokenizerFast"},
                                           {"gpt2", "GPT2TokenizerFast"},
                                           {"bert", "BertTokenizerFast"},
                                           {"t5", "T5TokenizerFast"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i][0], tokenizer_model(t)) == 0)
            return names[i][1];
    return "PreTrainedTokenizerFast";
}

/* Add ,"bos_token":"<s>"; null if there is none. A token may contain any bytes. */
static void add_token(struct buf *b, const char *name, const struct tokenizer *t, int32_t id)
{
    const char *piece;
    size_t n;

    buf_printf(b, ",\"%s\":", name);
    if (id == TOKEN_NONE) {
        buf_add_str(b, "null");
        return;
    }
    piece = tokenizer_piece(t, id, &n);
    json_add_string(b, piece, n);
}

void vllm_pages_tokenizer_info(struct http_call *call, const struct server_model *m)
{
    const struct tokenizer *t = m->tokenizer;
    const char *template = chat_source(m->chat);
    struct buf b;

    buf_init(&b, (size_t)8 << 20);
    buf_add_str(&b, "{\"tokenizer_class\":");
    json_add_cstring(&b, class_of(t));
    add_token(&b, "bos_token", t, tokenizer_bos(t));
    add_token(&b, "eos_token", t, tokenizer_eos(t));
    buf_printf(&b, ",\"add_bos_token\":%s,\"model_max_length\":%u,\"vocab_size\":%d",
               tokenizer_adds_bos(t) ? "true" : "false", m->max_context, tokenizer_n_vocab(t));
    if (template != NULL) {
        buf_add_str(&b, ",\"chat_template\":");
        json_add_cstring(&b, template);
    }
    buf_add_char(&b, '}');
    reply_vllm(call, &b);
}

/* ---- the settings ---- */

/* Add {"model_config":{…},"cache_config":{…},"scheduler_config":{…}}. The blocks of running
 * requests are called num_gpu_blocks even on CPUs, as in vLLM; its num_cpu_blocks are for
 * swapping. */
static void add_config(struct buf *b, const struct server_model *m)
{
    buf_add_str(b, "{\"model_config\":{\"model\":");
    json_add_cstring(b, m->id);
    buf_add_str(b, ",\"served_model_name\":");
    json_add_cstring(b, m->id);
    buf_printf(b, ",\"max_model_len\":%u,\"quantization\":", m->max_context);
    json_add_cstring(b, m->ftype);
    buf_printf(b,
               "},\"cache_config\":{\"block_size\":%u,\"num_gpu_blocks\":%u,\"num_cpu_blocks\":0,"
               "\"enable_prefix_caching\":%s,\"cache_dtype\":\"%s\"},",
               m->block_tokens, m->n_blocks, m->shares_prefixes ? "true" : "false", m->kv_type);
    buf_printf(b,
               "\"scheduler_config\":{\"max_num_seqs\":%u,\"max_num_batched_tokens\":%u,"
               "\"long_prefill_token_threshold\":%u}}",
               m->max_sequences, m->max_batch_tokens, m->prefill_chunk);
}

static void add_configs(struct buf *b, const struct server_model *const *models, uint32_t n)
{
    buf_add_char(b, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            buf_add_char(b, ',');
        add_config(b, models[i]);
    }
    buf_add_char(b, ']');
}

/* Add the object, or its text as a string. */
static void add_first(struct buf *b, const struct server_model *m, bool as_text)
{
    struct buf text;

    if (!as_text) {
        add_config(b, m);
        return;
    }
    buf_init(&text, (size_t)64 << 10);
    add_config(&text, m);
    json_add_string(b, text.data, text.len);
    if (text.err < 0)
        b->err = text.err;
    buf_release(&text);
}

void vllm_pages_server_info(struct http_call *call, const struct server_model *const *models,
                            uint32_t n)
{
    const char *format = http_call_query(call, "config_format");
    const bool as_text = format == NULL || strcmp(format, "text") == 0;
    struct api_error e;
    struct buf b;

    if (!as_text && strcmp(format, "json") != 0) {
        api_error_set(&e, 400, "config_format", NULL, "'config_format' must be text or json");
        http_call_reply_error(call, &e);
        return;
    }
    buf_init(&b, (size_t)1 << 20);
    buf_add_str(&b, "{\"vllm_config\":");
    add_first(&b, models[0], as_text);
    buf_add_str(&b, ",\"vllm_env\":{},\"system_env\":{\"quire_version\":");
    json_add_cstring(&b, quire_version());
    buf_add_str(&b, ",\"isa\":");
    json_add_cstring(&b, models[0]->isa);
    buf_add_str(&b, "},\"models\":");
    add_configs(&b, models, n);
    buf_add_char(&b, '}');
    reply_vllm(call, &b);
}

/* ---- for routers ---- */

void vllm_pages_get_server_info(struct http_call *call, const struct server_model *m)
{
    struct buf b;

    buf_init(&b, (size_t)64 << 10);
    buf_add_str(&b, "{\"model_id\":");
    json_add_cstring(&b, m->id);
    buf_printf(&b, ",\"kv_block_size\":%u,\"num_gpu_blocks\":%u,\"max_model_len\":%u",
               m->block_tokens, m->n_blocks, m->max_context);
    buf_printf(&b, ",\"max_num_seqs\":%u,\"version\":", m->max_sequences);
    json_add_cstring(&b, quire_version());
    buf_add_char(&b, '}');
    reply_vllm(call, &b);
}

static void add_source(struct buf *b, const struct kv_event_source *s)
{
    buf_add_str(b, "\"0\":{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":");
    json_add_cstring(b, s->endpoint);
    buf_add_str(b, ",\"replay_endpoint\":");
    if (s->replay_endpoint != NULL)
        json_add_cstring(b, s->replay_endpoint);
    else
        buf_add_str(b, "null");
    buf_printf(b, ",\"buffer_steps\":%u,\"hwm\":%u,\"topic\":", s->buffer_steps, s->hwm);
    json_add_cstring(b, s->topic);
    buf_add_char(b, '}');
}

void vllm_pages_kv_event_sources(struct http_call *call, const struct server_model *m)
{
    struct buf b;

    buf_init(&b, (size_t)64 << 10);
    buf_add_char(&b, '{');
    if (m->kv_events != NULL && m->shares_prefixes) {
        const struct kv_event_source source = kv_event_publisher_source(m->kv_events);

        add_source(&b, &source);
    }
    buf_add_char(&b, '}');
    reply_vllm(call, &b);
}
