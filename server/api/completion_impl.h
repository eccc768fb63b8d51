/* server/api/completion_impl.h - the states of a completion, and what its files share.
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
 *           ADMIT <------> PROBE            completion.c; a plan goes from PROBE to RUN
 *             |
 *             v
 *            RUN                            completion_run.c: requests are posted
 *             |                             completion_events.c: tokens arrive
 *             v                             completion_stream.c, _answer.c, _keep.c: they are sent
 *            END
 *
 * completion_advance() is the only function that changes the state. Each state has one function
 * that is called when the state is entered: it advances at once, or it starts something whose
 * callback advances. Before each state up to RUN, completion_advance() looks whether
 * request.error is set, in which case it refuses the call, and whether the client has gone; both
 * lead to END, from every state. END frees the completion.
 *
 * Thread: the loop's.
 * Memory: as completion.h says.
 */
#ifndef SERVER_API_COMPLETION_IMPL_H
#define SERVER_API_COMPLETION_IMPL_H

#include "core/base/list.h"
#include "server/api/api_call.h"
#include "server/api/completion.h"
#include "server/api/dry_run.h"
#include "server/api/engine_client.h"
#include "server/api/response/response_writer.h"
#include "server/api/stream_pings.h"
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

struct completion_keep { /* of a response that is kept; zero: it is not */
    bool is_on;
    struct response_name name; /* borrowed */
    struct response_job begin, end;
    struct buf first, body, output; /* the response as it begins and ends, the answer's items */
    struct buf tail;                /* how a stream ends */
    bool has_answer;
    const char *status; /* of one that has none, or whose answer was lost; else NULL */
    struct buf why;     /* then: the member error, or empty */
    struct api_error begin_error, end_error;
    struct response_run run; /* in the background */
};

struct completion_frames { /* of a stream */
    bool are_numbered;
    bool tells_tokens; /* they say what `resume` takes */
    bool are_past;     /* they were sent before, by whoever began the answer: only counted */
    uint64_t next;     /* the number of the next one */
    size_t n_sent;     /* tokens that all frames so far stand for */
};

struct completion;

struct completion_saving {        /* of a request that is to outlive the process; zero: it is not */
    struct kept_request *request; /* or NULL */
    bool has_run;
    bool has_stream; /* whose it is then: the completion has lost it when that is gone */
    bool is_put_off; /* it is the next process's */
    char path[COMPLETION_MAX_PATH]; /* of the call; "": it cannot be called again */
};

struct completion {
    struct api_call api;
    enum completion_state state, next; /* next: to be entered by the running completion_advance() */
    bool is_advancing;
    struct engine_caller client;
    struct engine_probe probe; /* of PROBE */
    struct choice_rules rules;
    struct choice *choices; /* [n_choices] */
    uint32_t n_choices, n_posted, n_open;
    uint64_t n_cached;
    struct response_writer answer;
    struct buf whole; /* the answer that is no stream, when it is rendered */
    struct completion_keep keep;
    struct completion_frames frames;
    struct completion_saving saving;
    struct stream_ping ping;
    struct kept_stream *stream; /* or NULL; in place of api.call, which has become its reader */
    char conversation[STREAM_MAX_CONVERSATION + 1]; /* X-Conversation-Id, or "" */
    struct list live; /* of engine_client.completions, once it has an id */
};

/* Is there anybody who may still get the answer? */
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

/* Post the requests that the queue has room for. */
void completion_post(struct completion *c);
/* Tell the engine that nothing more is wanted of a choice, or of all. */
void completion_cancel(struct completion *c, struct choice *choice);
/* The answer is over for the client; its choices still come to their ends. */
void completion_abandon(struct completion *c);

/* An event of choice i. The last end destroys the completion. */
void completion_on_event(struct engine_caller *client, uint32_t i, const struct event *e);
/* A choice failed: the whole request has, and the others need not go on. Nothing is done without a
 * client. */
void completion_fail(struct completion *c, const struct api_error *e);
/* Is the choice's end an error? */
bool completion_is_failure(const struct completion *c, const struct choice *choice,
                           struct api_error *e);
void completion_count_usage(struct completion *c);

/* All choices have ended, and the usage is counted: answer the client, now or when a thread of a
 * pool has rendered it, and destroy. */
void completion_answer_whole(struct completion *c);

/* ---- streams ---- */

/* Write what the choice has as frames of the stream. */
void completion_send_choice(struct completion *c, struct choice *choice);
/* The head, and what there is already. */
void completion_begin_stream(struct completion *c);
/* The last frames: `tail`, or NULL: what the wire format closes with. */
void completion_end_stream(struct completion *c, const struct buf *tail);
/* The same for an error; `call` is the one that was the completion's, or NULL. */
void completion_fail_stream(struct completion *c, struct http_call *call,
                            const struct api_error *e);
/* Is its stream to be kept? Then, before it begins: 0, ERR_AGAIN (the memory is in use) or
 * ERR_NOMEM. */
bool completion_wants_stream_kept(const struct completion *c);
int completion_keep_stream(struct completion *c);
void completion_drop_stream(struct completion *c);
/* Are all tokens of the answer known, so that another server can go on with it? */
bool completion_can_be_resumed(const struct completion *c);
/* Lead the only choice through the tokens of params.resume: those that its client has, whose frames
 * are only counted; then those of an earlier process, whose frames are written again. */
void completion_pass_tokens(struct completion *c);
void completion_restore_tokens(struct completion *c);

/* ---- requests that outlive the process ---- */

/* Before the parse. */
void completion_save_prepare(struct completion *c, const struct http_call *call);
/* Before its stream is kept: one of an earlier process is this one's from now on. 0, or
 * ERR_NOMEM. */
int completion_save_take_up(struct completion *c);
/* Its stream is kept, and will tell when it is gone. */
void completion_save_stream(struct completion *c, struct stream_start *start);
/* It has been posted. */
void completion_save_run(struct completion *c);
/* The stream has its end. */
void completion_save_end(struct completion *c, bool is_error);
/* The completion goes. */
void completion_save_release(struct completion *c);

/* ---- kept responses: a row when it begins, and when it ends before its client has the end ---- */

/* The requests are about to be posted. In the background the client gets its answer now. */
void completion_keep_begin(struct completion *c);
/* All have ended, and the usage is counted: write, answer and destroy. */
void completion_keep_end(struct completion *c);
void completion_keep_release(struct completion_keep *k);

#endif
