/* server/api/response_writer.h - the bytes of a completion's answer: one JSON object, or the frames
 * of a stream.
 *
 * What is asked and answered is the same for every endpoint; how it is put is a dialect. Its bodies
 * are those of /v1/completions or /v1/chat/completions, or are turned into such by `convert`. Then
 * the completion calls `frame` whenever a choice has something new or has ended, and `close` when
 * all have; or `whole` at the end. An error in a buffer of a choice becomes an error of the output,
 * so that no answer is sent in part.
 *
 * Thread: any.
 * Memory: an answer owns its heads; what is rendered is appended to `out`; rendering a choice
 *         empties what it carried.
 */
#ifndef SERVER_API_RESPONSE_WRITER_H
#define SERVER_API_RESPONSE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/api/choice.h"
#include "server/api/params/params.h"
#include "server/http/error.h"

struct answer;

struct dialect {
    const char *id_prefix;
    enum params_form form;
    /* Where bodies of several forms are taken: the dialect of this one. NULL: there is one form. */
    const struct dialect *(*pick)(const cJSON *body);
    /* Turn the body into one of that form, or NULL. What the answer has to repeat of it goes to
     * `echo`. 0, or a negative ERR_* with *e filled. */
    int (*convert)(cJSON *body, struct buf *echo, struct api_error *e);
    bool keeps_text; /* the prompts' text is wanted later */
    /* Append to a->head what every object of the answer begins with, and to a->frame_head the same
     * for the frames of a stream where that differs. */
    void (*begin)(struct answer *a);
    void (*whole)(struct answer *a, struct buf *out);
    void (*frame)(struct answer *a, struct choice *c, struct buf *out);
    void (*close)(struct answer *a, struct buf *out);
    /* The end of a stream that failed. */
    void (*failure)(const struct api_error *e, struct buf *out);
};

struct answer_usage { /* tokens */
    uint64_t prompt, completion, cached, thinking;
};

struct answer {
    const struct dialect *dialect;
    const char *model; /* borrowed */
    char id[48];       /* "cmpl-…" */
    int64_t created;   /* Unix seconds */
    struct buf head, frame_head;
    struct choice *choices; /* [n_choices], borrowed */
    uint32_t n_choices;
    uint32_t n_blocks;         /* for dialects that number the parts of a stream */
    uint32_t open_block;       /* what the last of them is, 0 = it was closed */
    uint32_t n_events;         /* for dialects that number those */
    struct buf piece, items;   /* for dialects that repeat everything at the end of a stream */
    const struct params *params; /* borrowed */
    uint32_t n_embd;
    const struct buf *echo;    /* what `convert` left for the answer; borrowed */
    bool include_usage;        /* in a stream */
    struct answer_usage usage; /* complete before close() and whole() */
};

/* With a new id and the time of now. 0 or ERR_*; answer_release() in both cases. */
int answer_init(struct answer *a, const struct dialect *dialect, const char *model,
                struct choice *choices, uint32_t n_choices);
void answer_release(struct answer *a);

const struct dialect *dialect_text(void);     /* /v1/completions */
const struct dialect *dialect_chat(void);     /* /v1/chat/completions */
const struct dialect *dialect_embeddings(void); /* /v1/embeddings: no stream */
const struct dialect *dialect_native(void);   /* /completion */
const struct dialect *dialect_infill(void);   /* /infill */
const struct dialect *dialect_messages(void); /* /v1/messages */
const struct dialect *dialect_responses(void); /* /v1/responses */

/* {…}: llama-server's names for how tokens are chosen, and when it is enough. */
void dialect_native_settings(const struct params *p, uint64_t seed, struct buf *out);

/* Anthropic's error object, for the routes of dialect_messages(). */
void dialect_messages_error(const struct api_error *e, struct buf *out);

/* ---- what dialects share ---- */

/* "data: …\n\n" around what is rendered in between. */
void answer_begin_frame(const struct answer *a, struct buf *out);
void answer_end_frame(struct buf *out);

/* Twelve random bytes as hex. */
void answer_random_hex(char out[25]);

/* ,"finish_reason":"stop" */
void answer_add_finish(struct buf *out, const struct choice *c);
/* ,"token_ids":[…],"prompt_token_ids":… and, at the end, ,"timings":{…}, where they are wanted */
void answer_add_extras(struct buf *out, struct choice *c);
/* ,"prompt_logprobs":[…], where they are wanted */
void answer_add_prompt_scores(struct buf *out, const struct choice *c);
/* "usage":{…}, with the thoughts' part when there may be any */
void answer_add_usage(struct buf *out, const struct answer_usage *u, bool has_thoughts);
/* The end of a stream of OpenAI's: the usage where it is wanted, and [DONE]. */
void answer_close_stream(const struct answer *a, bool has_thoughts, struct buf *out);
/* An error of the choice is one of the output. Then the choice is empty. */
void answer_pass_choice(struct buf *out, struct choice *c);

#endif
