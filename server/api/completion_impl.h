/* server/api/completion_impl.h - what the files of completion.h share: completion.c parses, admits
 * and submits; completion_events.c collects and writes; completion_keep.c keeps responses.
 *
 * Thread: the loop's.
 * Memory: as completion.h says.
 */
#ifndef SERVER_API_COMPLETION_IMPL_H
#define SERVER_API_COMPLETION_IMPL_H

#include "server/api/api_call.h"
#include "server/api/completion.h"
#include "server/api/engine_client.h"
#include "server/api/response/response_writer.h"

struct completion_keep { /* of a response that is kept; zero: it is not */
    bool is_on;
    struct response_name name; /* borrowed */
    struct response_job begin, end;
    struct buf first, body, output; /* the response as it begins and ends, the answer's items */
    struct buf tail;                /* how a stream ends */
    const char *status;             /* of one that has no answer; NULL: it has */
    struct buf why;                 /* then: the member error, or empty */
    struct api_error begin_error, end_error;
    struct response_run run; /* in the background */
};

struct completion {
    struct api_call api;
    struct engine_caller client;
    struct engine_probe probe; /* before the posts, when a deadline hangs on what is cached */
    struct choice_rules rules;
    struct choice *choices; /* [n_choices] */
    uint32_t n_choices, n_posted, n_open;
    uint64_t n_cached;
    struct response_writer answer;
    struct completion_keep keep;
};

void completion_destroy(struct completion *c);
/* Post those that have room. */
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
/* Write what the choice has as frames of the stream. */
void completion_send_choice(struct completion *c, struct choice *choice);

/* ---- kept responses: a row when it begins, and when it ends before its client has the end ---- */

/* The requests are about to be posted. In the background the client gets its answer now. */
void completion_keep_begin(struct completion *c);
/* All have ended, and the usage is counted: write, answer and destroy. */
void completion_keep_end(struct completion *c);
void completion_keep_release(struct completion_keep *k);

#endif
