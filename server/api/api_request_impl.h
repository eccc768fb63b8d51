/* server/api/api_request_impl.h - internals of api_request.c and the api_request_*.c.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_API_REQUEST_IMPL_H
#define SERVER_API_API_REQUEST_IMPL_H

#include "server/api/api_request.h"

struct spans;

struct prompt_ends { /* number of special tokens that are added before and after a text */
    uint32_t before, behind;
};

struct prompt_ends api_request_ends(const struct api_request *p, const struct tokenizer *t);

/* Fill prompt i with its text and tokens; the prompts before it are complete. 0, or a negative
 * ERR_* with p->error filled. */
int api_request_make_prompt(struct api_request *p, const struct server_model *model, uint32_t i);

/* Tokenize prompt->text. spans NULL: a client's prompt, which may name special tokens anywhere, and
 * gets BOS. Otherwise a text that the server has written: it has its BOS, and may name special
 * tokens only in the spans. */
int api_request_encode_text(struct api_request *p, const struct server_model *model,
                            struct prompt *prompt, const struct spans *own);
/* PARAMS_PAIRS: make the ids of prompt i (a query, a document or both), and keep the document's
 * text. */
int api_request_take_pair(struct api_request *p, const struct server_model *model, uint32_t i);

/* Check that the model can do what the wire format of PARAMS_POOLED asks for. api_request_pool()
 * then allocates the array for the pooled states: in the prompt's memory, which outlives the
 * request. */
int api_request_check_pooling(struct api_request *p, const struct server_model *model);
int api_request_pool(struct api_request *p, const struct server_model *model, struct request *r,
                     struct prompt *prompt);
/* Return the most tokens of a prompt and its answer together; with context shift, at a time. */
uint32_t api_request_context(const struct api_request *p, const struct server_model *model);
/* Complete a request_size that has n_prompt, from max_tokens and the room in the context and KV
 * cache. 0, or ERR_INVAL with p->error filled. */
int api_request_fit(struct api_request *p, const struct server_model *model,
                    struct request_size *size);
/* Set the tokens that a context shift keeps and drops. */
void api_request_set_shift(const struct params *p, const struct tokenizer *t, struct request *r);

/* Let the request continue after the tokens of params.resume, as if the engine had generated them.
 * 0, or a negative ERR_* with p->error filled. */
int api_request_resume(struct api_request *p, const struct server_model *model, struct request *r);
/* Put the part of the answer that an earlier process has generated into params.resume. 0, or a
 * negative ERR_* with p->error filled. */
int api_request_restore(struct api_request *p, const struct saved_request *saved);
/* Tokenize params.prediction as plain text, in which no special tokens are looked for. */
int api_request_take_prediction(struct api_request *p, const struct server_model *model);
/* Tokenize params.budget_message as plain text; a chat without one gets the text that the model's
 * family uses. */
int api_request_take_budget_message(struct api_request *p, const struct server_model *model);
/* SCORING: make prompt i of the query and an item, and its labels. Returns as
 * api_request_make_prompt(). */
int api_request_take_item(struct api_request *p, const struct server_model *model, uint32_t i);
/* DECISIONS: make the prompts of all questions, and their labels. Returns as
 * api_request_make_prompt(). */
int api_request_decide(struct api_request *p, const struct server_model *model);
/* Texts and tokens of a call's prompts together, which are much larger than its body. */
struct decision_size {
    uint64_t n_bytes, n_tokens;
};
/* Count a prompt. 0, or ERR_INVAL with p->error filled: the prompts are too large. */
int api_request_count_decision(struct api_request *p, struct decision_size *size,
                               const struct prompt *prompt);
/* DECISIONS, for a model that was trained for them: _decide_trained() makes the prompts of all
 * questions, and _take_trained() the text and tokens of prompt i. Return as
 * api_request_make_prompt(). */
int api_request_decide_trained(struct api_request *p, const struct server_model *model);
int api_request_take_trained(struct api_request *p, const struct server_model *model, uint32_t i);
/* Make a prompt of the body's conversation; returns as api_request_make_prompt(). */
int api_request_take_chat(struct api_request *p, const struct server_model *model,
                          struct prompt *prompt);

/* Fill in the prompt's pins from the conversation's cache breakpoints. Does nothing if the model
 * pins no prefixes; a breakpoint whose place cannot be found gets no pin. Fails only where steps
 * are used up and p->is_trial. Returns as api_request_make_prompt(). */
int api_request_place_breakpoints(struct api_request *p, const struct server_model *model,
                                  struct prompt *prompt);

/* Render the conversation, without dropping messages, with its template, and tokenize the text. */
int api_request_take_turns(struct api_request *p, const struct server_model *model,
                           struct prompt *prompt);
/* Make the prompt without the oldest messages if the conversation is too long. rc: result of
 * api_request_take_turns(), returned if it is not. */
int api_request_drop_messages(struct api_request *p, const struct server_model *model,
                              struct prompt *prompt, int rc);

/* Return the name of the body's field that has the text. */
const char *api_request_text_field(const struct api_request *p);
/* Set p->error and return ERR_*. _no_memory: memory is used up. _cannot_encode: tokenizing failed
 * because steps or memory are used up. _too_long: the context has no room for n_prompt tokens (0:
 * not known). */
int api_request_no_memory(struct api_request *p);
int api_request_cannot_encode(struct api_request *p);
/* True: the middle of a long prompt may be cut. api_request_cut_middle() cuts a prompt of more than
 * `context` tokens as Ollama does: the first n_keep tokens stay, and as many of the last ones as
 * leave half of the rest free for the answer. */
bool api_request_may_cut(const struct api_request *p);
void api_request_cut_middle(const struct params *p, const struct tokenizer *t, uint32_t context,
                            struct token_list *ids);

int api_request_too_long(struct api_request *p, const struct server_model *model,
                         uint32_t n_prompt);

#endif
