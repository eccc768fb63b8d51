/* server/api/completion/completion_impl.h - the states of a completion, and what its files share.
 *
 *            kept responses found
 *           +----------------+
 *           v                |
 *   start > PARSE -------> LOOK_UP          completion_parse.c
 *             |
 *             v
 *          ADAPTER                          completion_adapter.c
 *             |
 *             v
 *           SAVE                            completion_save.c
 *             |
 *             v
 *           ADMIT <------> PROBE            completion.c (PROBE leads to RUN for a plan, and for
 *             |                             work that the engine cannot be asked about now)
 *             v
 *            RUN                            completion_run.c: requests are posted
 *             |                             completion_events.c: tokens arrive
 *             v                             completion_stream.c, _answer.c, _keep.c: they are sent
 *            END                            completion.c
 *
 * completion_advance() is the only function that changes the state. Each state has one function
 * that is called when the state is entered: it advances at once, or it starts something whose
 * callback advances. Before it enters a state, completion_advance() checks whether the client has
 * gone and whether request.error is set; such a call is refused, and its next state is END, which
 * frees the completion.
 *
 * Thread: the loop's.
 * Memory: as completion.h says.
 */
#ifndef SERVER_API_COMPLETION_COMPLETION_IMPL_H
#define SERVER_API_COMPLETION_COMPLETION_IMPL_H

#include "core/base/list.h"
#include "server/api/api_call.h"
#include "server/api/completion/completion.h"
#include "server/api/completion/dry_run.h"
#include "server/api/completion/stream_pings.h"
#include "server/api/engine_client.h"
#include "server/api/response/response_writer.h"
#include "server/storage/request_keeper.h"
#include "server/storage/stream_store.h"

#define COMPLETION_MAX_PATH 256

enum completion_state {
    COMPLETION_PARSE,   /* this thread, or a pool's, makes requests of the body */
    COMPLETION_LOOK_UP, /* the storage thread reads the kept responses that the call continues */
    COMPLETION_ADAPTER, /* the adapter is read from its file */
    COMPLETION_SAVE,    /* the first record of a request that outlives the process is written */
    COMPLETION_ADMIT,   /* admission.h decides */
    COMPLETION_PROBE,   /* the engine says how much of each prompt is cached */
    COMPLETION_RUN,     /* the engine computes; a call without an engine is answered */
    COMPLETION_END,     /* all choices have ended, or the call was refused: it is freed */
    N_COMPLETION_STATES,
};

struct completion_keep { /* a response that is written to the database; zero: it is not */
    bool is_on;
    struct response_name name; /* borrowed */
    struct worker_job begin, end;
    struct buf first, body, output; /* the response at its begin and at its end, its items */
    struct buf tail;                /* last frames of a stream */
    bool has_answer;
    const char *status; /* "failed" or "cancelled", where there is no answer; else NULL */
    struct buf why;     /* the member `error` of a failed response, or empty */
    struct api_error begin_error, end_error;
    struct response_run run; /* in the background */
};

struct completion_frames { /* the frames of a stream */
    bool are_numbered;
    bool tells_tokens; /* comments in them name the tokens, which `resume` takes */
    bool are_past;     /* frames are counted and not sent: an earlier server has sent them */
    uint64_t next;     /* number of the next frame */
    size_t n_sent;     /* tokens in all frames so far */
};

struct completion;

struct completion_saving {        /* a request that outlives the process; zero: it does not */
    struct kept_request *request; /* or NULL */
    bool has_run;
    bool has_stream;                /* the kept stream owns `request`, which is gone with it */
    bool is_put_off;                /* the next process continues it */
    char path[COMPLETION_MAX_PATH]; /* of the call; "": the call cannot be repeated */
};

struct completion {
    struct api_call api;
    enum completion_state state, next; /* next: to be entered by the running completion_advance() */
    bool is_advancing;
    struct engine_caller client;
    struct engine_probe probe;
    struct choice_rules rules;
    struct choice *choices; /* [n_choices] */
    uint32_t n_choices, n_posted, n_open;
    uint64_t n_cached;
    struct response_writer answer;
    struct buf whole; /* the rendered answer of a call that does not stream */
    struct completion_keep keep;
    struct completion_frames frames;
    struct completion_saving saving;
    struct stream_ping ping;
    struct kept_stream *stream; /* NULL, or it has the answer, and api.call is one of its readers */
    char conversation[STREAM_MAX_CONVERSATION + 1]; /* X-Conversation-Id, or "" */
};

/* True: a client, or a kept stream, still takes the answer. */
static inline bool completion_has_client(const struct completion *c)
{
    return c->api.call != NULL || c->stream != NULL;
}

static inline struct completion *completion_of_api(struct api_call *api)
{
    return list_entry(api, struct completion, api);
}

/* Enter a state. Where a function that enters a state calls this, the new state is entered after
 * that function has returned; otherwise before this returns, and after END the completion is
 * freed. */
void completion_advance(struct completion *c, enum completion_state next);

/* The functions that enter the states of those names. */
void completion_parse(struct completion *c);
void completion_look_up(struct completion *c);
void completion_take_adapter(struct completion *c);
void completion_save(struct completion *c);
void completion_run(struct completion *c);

/* In ADAPTER: do not wait any longer. In other states this does nothing. */
void completion_stop_adapter(struct completion *c);

/* True: the call asks what would happen (dry_run.h), and nothing is computed. */
static inline bool completion_is_plan(const struct completion *c)
{
    return c->api.wire_format == &wire_dry_run;
}

/* Its hash in engine_client.completions, once the answer has an id. */
static inline uint64_t completion_hash(const struct completion *c)
{
    return hash_of_texts(c->api.tenant, c->answer.id);
}

/* Post the requests that the queue has room for. */
void completion_post(struct completion *c);
/* Cancel a choice in the engine, which still sends its end. */
void completion_cancel(struct completion *c, struct choice *choice);
/* Cancel all choices and whatever is under way: the client takes no answer any more. Whoever calls
 * this has answered the call, or has taken it (completion_take_call()), which is asserted. In the
 * state ADAPTER the completion may be freed before this returns; otherwise it lives until its
 * callback, or the last end, has come. */
void completion_abandon(struct completion *c);

/* The call, or NULL; the caller answers it, and the completion has it no longer. */
static inline struct http_call *completion_take_call(struct completion *c)
{
    struct http_call *call = c->api.call;

    c->api.call = NULL;
    return call;
}
/* Answer the client with an error, if it still waits, and cancel all choices. */
void completion_give_up(struct completion *c, const struct api_error *e);

/* Take an event of choice i. The last end leads to END. */
void completion_on_event(struct engine_caller *client, uint32_t i, const struct event *e);
/* Answer with an error and cancel all choices, since one of them has failed. Without a client this
 * does nothing. */
void completion_fail(struct completion *c, const struct api_error *e);
/* True: the choice has ended with the error *e. */
bool completion_is_failure(const struct completion *c, const struct choice *choice,
                           struct api_error *e);
void completion_count_usage(struct completion *c);

/* Answer the client and advance to END, now or when a pool's thread has rendered the answer. All
 * choices have ended, and the usage is counted. */
void completion_answer_whole(struct completion *c);

/* ---- streams ---- */

/* Write the new output of the choice as frames of the stream. */
void completion_send_choice(struct completion *c, struct choice *choice);
/* Send the head, and output that exists before the first event. */
void completion_begin_stream(struct completion *c);
/* Send the last frames and end the stream: `tail`, or, if that is NULL, those of the wire format.
 */
void completion_end_stream(struct completion *c, const struct buf *tail);
/* Send an error as the last frame and end the stream. `call` was the completion's before
 * completion_abandon(), or is NULL. */
void completion_fail_stream(struct completion *c, struct http_call *call,
                            const struct api_error *e);
/* completion_keep_stream() keeps the stream of a completion that wants it, before the stream
 * begins. 0, ERR_AGAIN (the memory for streams is in use) or ERR_NOMEM. */
bool completion_wants_stream_kept(const struct completion *c);
int completion_keep_stream(struct completion *c);
void completion_drop_stream(struct completion *c);
/* True: all tokens of the answer are known, so that another server can continue it. */
bool completion_can_be_resumed(const struct completion *c);
/* Give the only choice the tokens of params.resume. completion_pass_tokens() gives it those that
 * the client has, and counts their frames; completion_restore_tokens() gives it those that an
 * earlier process computed, and writes their frames again. */
void completion_pass_tokens(struct completion *c);
void completion_restore_tokens(struct completion *c);

/* ---- requests that outlive the process ---- */

/* Remember path and conversation of the call, before its body is parsed. */
void completion_save_prepare(struct completion *c, const struct http_call *call);
/* Take over a request of an earlier process, before its stream is kept. 0, or ERR_NOMEM. */
int completion_save_take_up(struct completion *c);
/* Make the kept stream the owner of the saved request: both are deleted together. */
void completion_save_stream(struct completion *c, struct stream_start *start);
/* The requests have been posted: their tokens are saved from now on. */
void completion_save_run(struct completion *c);
/* The stream has ended: its last state is saved. */
void completion_save_end(struct completion *c, bool is_error);
/* The completion is freed: a request that was not computed to its end is put back or deleted. */
void completion_save_release(struct completion *c);

/* ---- kept responses ---- */

/* Write the row of the response, before its requests are posted. The client of a response in the
 * background gets its answer when the row is written. */
void completion_keep_begin(struct completion *c);
/* Write the end of the response, then answer the client and advance to END. All choices have ended,
 * and the usage is counted. */
void completion_keep_end(struct completion *c);
void completion_keep_release(struct completion_keep *k);

#endif
