/* server/api/control_call.h - llama-server's control of a completion that runs: POST
 * /v1/chat/completions/control {"id","action"}.
 *
 * The one action is reasoning_end: a thought that is open ends with the next token, as one whose
 * budget is used up. It is for completions that were begun with "reasoning_control": true, and for
 * their tenant alone; whether it was obeyed is told by "success", with a 200.
 *
 * Source: llama.cpp, tools/server/README.md, "POST /v1/chat/completions/control".
 *
 * Thread: the loop's.
 * Memory: the body's tree, and none when the call is answered.
 */
#ifndef SERVER_API_CONTROL_CALL_H
#define SERVER_API_CONTROL_CALL_H

#include <stdbool.h>

struct cJSON;
struct engine_client;
struct http_call;
struct api_error;

struct control_order { /* what a body asks for; zero: nothing */
    struct cJSON *body;
    const char *id; /* the body's */
};

/* 0; or a negative ERR_* with *e filled. */
int control_order_read(struct control_order *o, struct http_call *call, struct api_error *e);
void control_order_release(struct control_order *o);

/* Does the completion run with this model, for the call's tenant? Then its thought ends, and the
 * call has been answered. */
bool control_call_take(struct engine_client *engine, struct http_call *call,
                       const struct control_order *o);
/* No model has it. */
void control_call_answer_unknown(struct http_call *call);

#endif
