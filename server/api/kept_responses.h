/* server/api/kept_responses.h - calls about responses that are kept, of the caller's tenant:
 *
 * GET /v1/responses/ID: the response as it is now; with ?stream=true a 400.
 * DELETE /v1/responses/ID: {"id":…,"object":"response","deleted":true}; one that runs is cancelled.
 * GET /v1/responses/ID/input_items: {"object":"list","data":[…],…}; limit, order, after.
 * POST /v1/responses/ID/cancel: ends one in the background.
 *
 * Thread: the loop's.
 * Memory: the answer.
 */
#ifndef SERVER_API_KEPT_RESPONSES_H
#define SERVER_API_KEPT_RESPONSES_H

struct http_call;
struct response_keeper;
struct server_options;

enum kept_responses_page { KEPT_RESPONSES_ONE = 0, KEPT_RESPONSES_ITEMS, KEPT_RESPONSES_CANCEL };

/* Answer the call, now or later. `k` may be NULL: then it is refused. */
void kept_responses_ask(struct response_keeper *k, const struct server_options *server,
                        struct http_call *call, enum kept_responses_page page);

#endif
