/* server/api/completion/control_call.h - llama-server's control of a running completion: POST
 * /v1/chat/completions/control {"id","action"}.
 *
 * The only action is reasoning_end: an open thought ends with the next token, as if its budget were
 * used up. It is for completions that began with "reasoning_control": true, and only for their
 * tenant. The answer is a 200; "success" is true if a thought will end.
 *
 * Source: llama.cpp, tools/server/README.md, "POST /v1/chat/completions/control".
 *
 * Thread: the loop's.
 * Memory: the body's tree, until the call is answered.
 */
#ifndef SERVER_API_COMPLETION_CONTROL_CALL_H
#define SERVER_API_COMPLETION_CONTROL_CALL_H

#include <stdbool.h>

struct cJSON;
struct engine_client;
struct http_call;
struct api_error;

struct control_order { /* the order in a body; zero is empty */
    struct cJSON *body;
    const char *id; /* points into `body` */
};

/* Read the call's body. 0, or a negative ERR_* with *e filled. */
int control_order_read(struct control_order *o, struct http_call *call, struct api_error *e);
void control_order_release(struct control_order *o);

/* If this model runs the completion, for the call's tenant, end its thought, answer the call and
 * return true. */
bool control_call_take(struct engine_client *engine, struct http_call *call,
                       const struct control_order *o);
/* Answer a call whose completion no model has. */
void control_call_answer_unknown(struct http_call *call);

#endif
