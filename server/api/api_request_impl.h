/* server/api/api_request_impl.h - internals of api_request.c and the api_request_*.c.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_API_REQUEST_IMPL_H
#define SERVER_API_API_REQUEST_IMPL_H

#include "server/api/api_request.h"

struct spans;

/* Fill prompt i with its text and tokens; the prompts before it are complete. 0, or a negative
 * ERR_* with p->error filled. */
int api_request_make_prompt(struct api_request *p, const struct server_model *model, uint32_t i);

/* Tokenize prompt->text. A client's own prompt may name special tokens anywhere, and gets BOS. A
 * text that the server has written has its BOS, and may name special tokens only in the spans (else
 * NULL). */
int api_request_encode_text(struct api_request *p, const struct server_model *model,
                            struct prompt *prompt, const struct spans *own);
/* PARAMS_PAIRS: make the ids of prompt i (a query, a document or both), and keep the document's
 * text. */
int api_request_take_pair(struct api_request *p, const struct server_model *model, uint32_t i);

/* Can the model do what the wire format of PARAMS_POOLED asks for? api_request_pool() then gives
 * the engine a place for the pooled states: in the prompt's memory, which outlives the request. */
int api_request_check_pooling(struct api_request *p, const struct server_model *model);
int api_request_pool(struct api_request *p, const struct server_model *model, struct request *r,
                     struct prompt *prompt);
/* The most tokens of a prompt and its answer together; with context shift, at a time. */
uint32_t api_request_context(const struct api_request *p, const struct server_model *model);
/* Fill in the rest of a size with n_prompt, from max_tokens and the room in the context and KV
 * cache. 0, or ERR_INVAL with p->error filled. */
int api_request_fit(struct api_request *p, const struct server_model *model,
                    struct request_size *size);
/* Set the tokens that a context shift keeps and drops. */
void api_request_set_shift(const struct params *p, const struct tokenizer *t, struct request *r);

/* Let the request continue behind the tokens of params.resume, as if the engine had generated them.
 * 0, or a negative ERR_* with p->error filled. */
int api_request_resume(struct api_request *p, const struct server_model *model,
                       struct request *r);
/* Put what an earlier process has left of the answer into params.resume. 0, or a negative ERR_*
 * with p->error filled. */
int api_request_restore(struct api_request *p, const struct saved_request *saved);
/* Tokenize params.prediction as plain text, in which no special tokens are looked for. */
int api_request_take_prediction(struct api_request *p, const struct server_model *model);
/* Tokenize params.budget_message as plain text; a chat without one gets the words of its model's
 * family. */
int api_request_take_budget_message(struct api_request *p, const struct server_model *model);
/* Make a prompt of the body's conversation; returns as api_request_make_prompt(). */
int api_request_take_chat(struct api_request *p, const struct server_model *model,
                          struct prompt *prompt);

/* Render the conversation as it stands with its template, and tokenize the text. */
int api_request_take_turns(struct api_request *p, const struct server_model *model,
                           struct prompt *prompt);
/* rc is api_request_take_turns()'s. If the conversation is too long, make the prompt without its
 * oldest messages; else return rc. */
int api_request_drop_messages(struct api_request *p, const struct server_model *model,
                              struct prompt *prompt, int rc);

/* Set p->error and return ERR_*: there was no memory; or tokenizing failed for lack of steps or
 * memory. api_request_too_long(): the context has no room for n_prompt tokens (0: not known). */
int api_request_no_memory(struct api_request *p);
int api_request_cannot_encode(struct api_request *p);
/* May a long prompt lose its middle? api_request_cut_middle() cuts as Ollama does a prompt that is
 * longer than `context` tokens: the first n_keep tokens stay, and as many of the last ones as leave
 * half of the rest free for the answer. */
bool api_request_may_cut(const struct api_request *p);
void api_request_cut_middle(const struct params *p, const struct tokenizer *t, uint32_t context,
                            struct token_list *ids);

int api_request_too_long(struct api_request *p, const struct server_model *model,
                         uint32_t n_prompt);

#endif
