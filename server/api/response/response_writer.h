/* server/api/response/response_writer.h - the bytes of a completion's answer: one JSON object, or
 * the frames of a stream.
 *
 * All endpoints answer the same choices; a wire format says in which JSON. The
 * fields of its bodies are those that params_fields.inc gives its form. The completion calls
 * `frame` whenever a choice has something new or has ended, and `close` when all have; or `whole`
 * at the end. An error in a buffer of a choice becomes an error of the output, so that no answer is
 * sent in part.
 *
 * Thread: any.
 * Memory: an answer owns its heads; what is rendered is appended to `out`; rendering a choice
 *         empties what it carried.
 */
#ifndef SERVER_API_RESPONSE_RESPONSE_WRITER_H
#define SERVER_API_RESPONSE_RESPONSE_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/api/params/params.h"
#include "server/api/response/choice.h"
#include "server/http/error.h"

struct api_request;
struct receipt_source;
struct response_writer;
struct server_model;

struct wire_format {
    const char *id_prefix;
    const char *stream_type; /* Content-Type of its streams; NULL: text/event-stream */
    enum params_form form; /* 0: the body is no request, `answer` reads it */
    /* Where bodies of several forms are taken: the wire format of this one. NULL: there is one
     * form. */
    const struct wire_format *(*pick)(const cJSON *body);
    /* What the answer has to repeat of a checked body goes to `echo`; NULL: nothing. 0 or
     * ERR_NOMEM. */
    int (*echo)(const cJSON *body, struct buf *echo);
    bool keeps_text; /* the prompts' text is wanted later */
    bool gives_tokens;    /* a vector for each token has a place in the answer */
    bool gives_documents; /* so is that of documents, unless the body says otherwise */
    /* Calls that need no engine: append the answer to p->echo, by the thread that has parsed the
     * body; NULL: it is answered by the functions below. 0, or ERR_* with p->error filled. */
    int (*answer)(struct api_request *p, const struct server_model *model, const cJSON *body);
    bool must_fit; /* beside `answer`: what a completion would be refused for is an error too */
    uint32_t answer_bytes; /* that such an answer takes for each byte of the body, at most */
    /* Append to a->head what every object of the answer begins with, and to a->frame_head the same
     * for the frames of a stream where that differs. */
    void (*begin)(struct response_writer *a);
    void (*whole)(struct response_writer *a, struct buf *out);
    void (*frame)(struct response_writer *a, struct choice *c, struct buf *out);
    void (*close)(struct response_writer *a, struct buf *out);
    /* The end of a stream that failed. */
    void (*failure)(const struct api_error *e, struct buf *out);
};

#define RESPONSE_NUMBER_BYTES 16 /* of a number in an answer and its comma, at most */
#define RESPONSE_BASE64_BYTES 6  /* the same of a number in base64 */

struct response_labels { /* of the model's classifier */
    uint32_t n;          /* 0: there is none */
    char *const *names;  /* [n], borrowed; NULL: they have none */
    bool is_cross;       /* label `yes` says how well two texts fit that are read as one */
    uint32_t yes;
};

struct response_usage { /* tokens */
    uint64_t prompt, completion, cached, thinking;
    uint64_t prediction, predicted; /* tokens of a prediction, and those that came true */
};

struct response_writer {
    const struct wire_format *wire_format;
    const char *model; /* borrowed */
    char id[48];       /* "cmpl-…" */
    int64_t created;   /* Unix seconds */
    struct buf head, frame_head;
    struct choice *choices; /* [n_choices], borrowed */
    uint32_t n_choices;
    uint32_t n_blocks;         /* for wire formats that number the parts of a stream */
    uint32_t open_block;       /* what the last of them is, 0 = it was closed */
    uint32_t n_events;         /* for wire formats that number those */
    struct buf probs;          /* of the open text of a stream, for the same */
    struct buf piece, items;   /* for wire formats that repeat everything at the end of a stream */
    const struct params *params; /* borrowed */
    uint32_t n_embd;
    struct response_labels labels;
    bool has_raw_tokens;         /* vectors of tokens are as they are, unless it was told how */
    bool has_mean;               /* an embedding is a sum, of which the mean counts */
    const struct receipt_source *receipt; /* borrowed; NULL: none is wanted */
    const struct buf *echo;    /* what `echo` left for the answer; borrowed */
    struct choice *current;    /* whose frame is written; NULL: no one's */
    bool include_usage;        /* in a stream */
    const atomic_bool *canceled; /* or NULL: set by any thread when nobody wants the answer */
    struct response_usage usage; /* complete before close() and whole() */
};

/* With a new id and the time of now. 0 or ERR_*; response_release() in both cases. */
int response_init(struct response_writer *a, const struct wire_format *wire_format,
                  const char *model, struct choice *choices, uint32_t n_choices);
/* An id as response_init() draws one. */
void response_draw_id(const struct wire_format *wire_format, char *out, size_t size);
/* Before an answer begins: its id is this behind the format's prefix, cut to fit. */
int response_set_request_id(struct response_writer *a, const char *request_id);
/* It is called as the answer that it goes on with; "" and 0 change nothing. 0 or ERR_*. */
int response_set_identity(struct response_writer *a, const char *id, int64_t created);
void response_release(struct response_writer *a);

extern const struct wire_format wire_openai_completions; /* /v1/completions */
extern const struct wire_format wire_openai_chat;        /* /v1/chat/completions */
extern const struct wire_format wire_openai_embeddings;  /* /v1/embeddings: no stream */
extern const struct wire_format wire_openai_responses;   /* /v1/responses */
extern const struct wire_format wire_anthropic_messages; /* /v1/messages */
extern const struct wire_format wire_llamacpp_embeddings; /* /embedding: no stream */
extern const struct wire_format wire_rerank;             /* /v1/rerank: none of these has one */
extern const struct wire_format wire_llamacpp_rerank;    /* /v1/reranking */
extern const struct wire_format wire_cohere_rerank;      /* /v2/rerank */
extern const struct wire_format wire_classify;           /* /classify */
extern const struct wire_format wire_pooling;            /* /pooling */
extern const struct wire_format wire_score;              /* /score */
extern const struct wire_format wire_llamacpp;           /* /completion */
extern const struct wire_format wire_llamacpp_infill;    /* /infill */

extern const struct wire_format wire_ollama_chat;        /* /api/chat */
extern const struct wire_format wire_ollama_generate;    /* /api/generate */
extern const struct wire_format wire_ollama_embed;       /* /api/embed: no stream */
extern const struct wire_format wire_ollama_embeddings;  /* /api/embeddings: no stream */

/* The same without a text: the model is there. */
extern const struct wire_format wire_ollama_load_chat, wire_ollama_load_generate;
extern const struct wire_format wire_ollama_load_embed, wire_ollama_load_embeddings;

/* {…}: llama-server's names for how tokens are chosen, and when it is enough. */
void llamacpp_settings(const struct params *p, uint64_t seed, struct buf *out);

/* The response {…} of wire_openai_responses; with its items and usage when it is over, which it is
 * for whoever has called whole() or close(). */
void responses_add(const struct response_writer *a, bool is_over, struct buf *out);
/* Members of the request that a response repeats, and warnings of tools that are left out; see
 * wire_format.echo. */
int responses_add_echo(const cJSON *body, struct buf *echo);

/* Anthropic's error object, for the routes of wire_anthropic_messages. */
void anthropic_messages_error(const struct api_error *e, struct buf *out);

/* Ollama's error object, for the routes of wire_ollama_…. */
void ollama_error(const struct api_error *e, struct buf *out);

/* ---- what wire formats share ---- */

/* OpenAI's: {"id":…,"object":…,"created":…,"model":…,"system_fingerprint":…,"choices":[ */
void response_add_head(const struct response_writer *a, const char *object, struct buf *out);
/* What follows the choices of a frame. */
void response_end_choices(const struct response_writer *a, struct buf *out);
/* ,"timings":{…} as llama-server has them */
void response_add_rates(struct buf *out, const struct choice *c);
/* ,"prompt_progress":{…} where it is wanted and there is some */
void response_add_progress(const struct response_writer *a, struct buf *out, struct choice *c);
/* The end of OpenAI's stream that failed. */
void response_add_failure(const struct api_error *e, struct buf *out);

/* "data: …\n\n" around what is rendered in between. */
void response_begin_frame(const struct response_writer *a, struct buf *out);
void response_end_frame(struct buf *out);

/* Twelve random bytes as hex. */
void response_random_hex(char out[25]);

/* ,"finish_reason":"stop" */
void response_add_finish(struct buf *out, const struct choice *c);
/* ,"token_ids":[…],"prompt_token_ids":… and, at the end, ,"timings":{…}, where they are wanted */
void response_add_extras(struct buf *out, struct choice *c);
/* ,"prompt_logprobs":[…], where they are wanted */
void response_add_prompt_scores(struct buf *out, const struct choice *c);
/* "usage":{…}, with the thoughts' part when there may be any */
void response_add_usage(struct buf *out, const struct response_usage *u, bool has_thoughts);
/* ,"receipt":{…} of an answer that is complete, where it is wanted */
void response_add_receipt(const struct response_writer *a, struct buf *out);
/* The end of a stream of OpenAI's: the usage and the receipt where they are wanted, and [DONE]. */
void response_close_stream(const struct response_writer *a, bool has_thoughts, struct buf *out);
/* An error of the choice is one of the output. Then the choice is empty. */
void response_pass_choice(struct buf *out, struct choice *c);

#endif
