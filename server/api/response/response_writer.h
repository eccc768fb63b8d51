/* server/api/response/response_writer.h - the bytes of a completion's answer: one JSON object, or
 * the frames of a stream.
 *
 * All endpoints answer the same choices; a wire format writes them as its API's JSON. The fields of
 * its bodies are those that params_fields.inc gives its form. The completion calls `frame` whenever
 * a choice has new output or has ended, and `close` when all have ended; or `whole` at the end. An
 * error in a buffer of a choice becomes an error of the output, so that no answer is sent in part.
 *
 * Thread: any.
 * Memory: an answer owns its heads; rendered text is appended to `out`; rendering a choice
 *         empties it.
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
    const char *endpoint;    /* the path that receipts of its answers name; NULL: it has none */
    const char *stream_type; /* Content-Type of streams; NULL: text/event-stream */
    enum params_form form; /* 0: the body is not a request, `answer` reads it */
    /* Chooses the wire format of a body, if the route takes several forms; NULL: there is one
     * form. */
    const struct wire_format *(*pick)(const cJSON *body);
    /* Writes the parts of a checked body that the answer repeats to `echo`; NULL: none. 0 or
     * ERR_NOMEM. */
    int (*echo)(const cJSON *body, struct buf *echo);
    bool keeps_text; /* the prompts' text is needed later */
    bool gives_tokens;    /* the answer can hold a vector for each token */
    bool gives_documents; /* the answer returns documents, unless the body says otherwise */
    /* Answers a call that needs no engine: appends the answer to p->echo, on the thread that has
     * parsed the body; NULL: the functions below answer. 0, or ERR_* with p->error filled. */
    int (*answer)(struct api_request *p, const struct server_model *model, const cJSON *body);
    bool must_fit; /* with `answer`: prompts that a completion would refuse are errors too */
    uint32_t answer_bytes; /* most bytes of such an answer for each byte of the body */
    /* Appends to a->head the beginning of every object of the answer, and to a->frame_head that of
     * a stream's frames if it differs. */
    void (*begin)(struct response_writer *a);
    void (*whole)(struct response_writer *a, struct buf *out);
    void (*frame)(struct response_writer *a, struct choice *c, struct buf *out);
    void (*close)(struct response_writer *a, struct buf *out);
    /* Writes the end of a stream that failed. */
    void (*failure)(const struct api_error *e, struct buf *out);
};

#define RESPONSE_NUMBER_BYTES 16 /* most bytes of a number in an answer and its comma */
#define RESPONSE_BASE64_BYTES 6  /* most bytes of a number in base64 */

struct response_labels { /* labels of the model's classifier */
    uint32_t n;          /* of a text; 0: there is none */
    char *const *names;  /* [n], borrowed; NULL: they have none */
    bool is_cross;       /* label `yes` rates how well two texts fit that are read together */
    uint32_t yes;
};

struct response_usage { /* tokens */
    uint64_t prompt, completion, cached, thinking;
    uint64_t prediction, predicted; /* tokens of a prediction, and those that were accepted */
    bool has_breakpoints; /* the body has cache breakpoints; else the numbers below are 0 */
    uint64_t pinned;      /* tokens at the prompt's beginning that stay cached for a time */
    uint64_t pinned_new[2]; /* those of them that were not cached before, by their time: at most 30
                             * minutes, or longer */
};

struct response_writer {
    const struct wire_format *wire_format;
    const char *model; /* borrowed */
    char id[48];       /* "cmpl-…" */
    int64_t created;   /* Unix seconds */
    struct buf head, frame_head;
    struct choice *choices; /* [n_choices], borrowed */
    uint32_t n_choices;
    uint32_t n_blocks;         /* parts of a stream, for wire formats that number them */
    uint32_t open_block;       /* kind of the last part, 0 = it was closed */
    uint32_t n_events;         /* events, for wire formats that number them */
    struct buf probs;          /* log-probabilities of a stream's open text, for those formats */
    struct buf piece, items;   /* for wire formats that repeat everything at the end of a stream */
    const struct params *params; /* borrowed */
    struct response_labels labels;
    bool has_raw_tokens;         /* vectors of tokens are not normalized unless the body says so */
    bool has_mean;               /* an embedding is a sum, to be divided by the tokens */
    const struct receipt_source *receipt; /* borrowed; NULL: no receipt is wanted */
    const struct buf *echo;    /* text that wire_format.echo wrote; borrowed */
    struct choice *current;    /* the choice whose frame is written, or NULL */
    bool include_usage;        /* a stream reports its usage */
    const atomic_bool *canceled; /* set by any thread when the client has gone; may be NULL */
    struct response_usage usage; /* complete before close() and whole() */
};

/* Begins an answer with a new id and the present time. 0 or ERR_*; the caller calls
 * response_release() in both cases. */
int response_init(struct response_writer *a, const struct wire_format *wire_format,
                  const char *model, struct choice *choices, uint32_t n_choices);
/* Draws an id as response_init() does. */
void response_draw_id(const struct wire_format *wire_format, char *out, size_t size);
/* Sets the id before the answer begins: the format's prefix and request_id, cut to fit. */
int response_set_request_id(struct response_writer *a, const char *request_id);
/* Gives the answer the identity of the one that it resumes; "" and 0 change nothing. 0 or ERR_*. */
int response_set_identity(struct response_writer *a, const char *id, int64_t created);
void response_release(struct response_writer *a);

extern const struct wire_format wire_openai_completions; /* /v1/completions */
extern const struct wire_format wire_openai_chat;        /* /v1/chat/completions */
extern const struct wire_format wire_openai_embeddings;  /* /v1/embeddings: no stream */
extern const struct wire_format wire_openai_responses;   /* /v1/responses */
extern const struct wire_format wire_anthropic_messages; /* /v1/messages */
extern const struct wire_format wire_llamacpp_embeddings; /* /embedding: no stream */
extern const struct wire_format wire_rerank;             /* /v1/rerank: no stream */
extern const struct wire_format wire_llamacpp_rerank;    /* /v1/reranking: no stream */
extern const struct wire_format wire_cohere_rerank;      /* /v2/rerank: no stream */
extern const struct wire_format wire_cohere_embed;       /* /v2/embed: no stream */
extern const struct wire_format wire_classify;           /* /classify: no stream */
extern const struct wire_format wire_pooling;            /* /pooling: no stream */
extern const struct wire_format wire_score;              /* /score: no stream */
extern const struct wire_format wire_generative_scoring; /* /generative_scoring: no stream */
extern const struct wire_format wire_openai_decisions;   /* /v1/decisions: no stream */
extern const struct wire_format wire_systemone;          /* /v1/systemone: no stream */
extern const struct wire_format wire_llamacpp;           /* /completion */
extern const struct wire_format wire_llamacpp_infill;    /* /infill */

extern const struct wire_format wire_ollama_chat;        /* /api/chat */
extern const struct wire_format wire_ollama_generate;    /* /api/generate */
extern const struct wire_format wire_ollama_embed;       /* /api/embed: no stream */
extern const struct wire_format wire_ollama_embeddings;  /* /api/embeddings: no stream */

/* Ollama's answers to calls without a text, which only load the model. */
extern const struct wire_format wire_ollama_load_chat, wire_ollama_load_generate;
extern const struct wire_format wire_ollama_load_embed, wire_ollama_load_embeddings;

/* Appends {…}: the settings of sampling and stopping under llama-server's names. */
void llamacpp_settings(const struct params *p, uint64_t seed, struct buf *out);

/* Appends the response {…} of wire_openai_responses, with its items and usage if it is over; it is
 * over once whole() or close() is called. */
void responses_add(const struct response_writer *a, bool is_over, struct buf *out);
/* Appends the members of the request that a response repeats, and warnings of tools that are left
 * out; see wire_format.echo. */
int responses_add_echo(const cJSON *body, struct buf *echo);

/* Appends Anthropic's error object, for the routes of wire_anthropic_messages. */
void anthropic_messages_error(const struct api_error *e, struct buf *out);

/* Appends Cohere's error object, for the routes of wire_cohere_…. */
void cohere_error(const struct api_error *e, struct buf *out);

/* Appends Ollama's error object, for the routes of wire_ollama_…. */
void ollama_error(const struct api_error *e, struct buf *out);

/* ---- shared by wire formats ---- */

/* Appends OpenAI's {"id":…,"object":…,"created":…,"model":…,"system_fingerprint":…,"choices":[ */
void response_add_head(const struct response_writer *a, const char *object, struct buf *out);
/* Appends the end of a frame, after its choices. */
void response_end_choices(const struct response_writer *a, struct buf *out);
/* Appends ,"timings":{…} as llama-server has them. */
void response_add_rates(struct buf *out, const struct choice *c);
/* Appends ,"prompt_progress":{…} if it is wanted and there is progress. */
void response_add_progress(const struct response_writer *a, struct buf *out, struct choice *c);
/* Appends the end of an OpenAI stream that failed. */
void response_add_failure(const struct api_error *e, struct buf *out);

/* Append "data: …" and "\n\n" around the text that is rendered in between. */
void response_begin_frame(const struct response_writer *a, struct buf *out);
void response_end_frame(struct buf *out);

/* Writes twelve random bytes as hex. */
void response_random_hex(char out[25]);

/* Appends ,"finish_reason":"stop". */
void response_add_finish(struct buf *out, const struct choice *c);
/* Appends ,"token_ids":[…],"prompt_token_ids":… and, at the end, ,"timings":{…}, if they are
 * wanted. */
void response_add_extras(struct buf *out, struct choice *c);
/* Appends ,"prompt_logprobs":[…], if they are wanted. */
void response_add_prompt_scores(struct buf *out, const struct choice *c);
/* Appends "usage":{…}, with the thoughts' part if there may be thoughts. */
void response_add_usage(struct buf *out, const struct response_usage *u, bool has_thoughts);
/* Appends ,"receipt":{…} of a complete answer, if it is wanted. */
void response_add_receipt(const struct response_writer *a, struct buf *out);
/* Appends the end of an OpenAI stream: usage and receipt if they are wanted, and [DONE]. */
void response_close_stream(const struct response_writer *a, bool has_thoughts, struct buf *out);
/* Makes an error of the choice an error of the output, and clears the choice. */
void response_pass_choice(struct buf *out, struct choice *c);

#endif
