/* server/api/completion_impl.h - what the files of completion.h share: completion.c parses, admits
 * and submits; completion_events.c collects and writes.
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

struct completion {
    struct api_call api;
    struct engine_caller client;
    struct engine_probe probe; /* before the posts, when a deadline hangs on what is cached */
    struct choice_rules rules;
    struct choice *choices; /* [n_choices] */
    uint32_t n_choices, n_open;
    uint64_t n_cached;
    struct response_writer answer;
};

void completion_destroy(struct completion *c);
/* Tell the engine that nothing more is wanted of a choice, or of all. */
void completion_cancel(struct completion *c, struct choice *choice);
/* The answer is over for the client; its choices still come to their ends. */
void completion_abandon(struct completion *c);

/* An event of choice i. The last end destroys the completion. */
void completion_on_event(struct engine_caller *client, uint32_t i, const struct event *e);
void completion_count_usage(struct completion *c);
/* Write what the choice has as frames of the stream. */
void completion_send_choice(struct completion *c, struct choice *choice);

#endif
