/* server/api/api_request_impl.h - what the files of api_request.h share.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_API_REQUEST_IMPL_H
#define SERVER_API_API_REQUEST_IMPL_H

#include "server/api/api_request.h"

struct spans;

/* Fill prompt i with its text and tokens, the prompts before it being complete. 0, or a negative
 * ERR_* with p->error filled. */
int api_request_make_prompt(struct api_request *p, const struct server_model *model, uint32_t i);

/* prompt->text as ids. A client's own prompt may name special tokens anywhere, and gets those that
 * the model begins with; one that the server has written, which has them, only in the spans (else
 * NULL). */
struct spans;
int api_request_encode_text(struct api_request *p, const struct server_model *model,
                            struct prompt *prompt, const struct spans *own);
/* Of PARAMS_PAIRS: the ids of prompt i, a query, a document or both, and the document's text. */
int api_request_take_pair(struct api_request *p, const struct server_model *model, uint32_t i);

/* Can the model do what the wire format of PARAMS_POOLED asks for? Then, of a prompt, where the
 * engine leaves what becomes of its states: in the prompt's memory, which outlives the request. */
int api_request_check_pooling(struct api_request *p, const struct server_model *model);
int api_request_pool(struct api_request *p, const struct server_model *model, struct request *r,
                     struct prompt *prompt);
/* Tokens of a prompt and its answer together, at most; of a context that is shifted, at a time. */
uint32_t api_request_context(const struct api_request *p, const struct server_model *model);
/* Of a size with n_prompt: the rest, from what was asked for and what context and KV cache leave.
 * 0, or ERR_INVAL with p->error filled. */
int api_request_fit(struct api_request *p, const struct server_model *model,
                    struct request_size *size);
/* What is kept and thrown away where the context is shifted. */
void api_request_set_shift(const struct params *p, const struct tokenizer *t, struct request *r);

/* prompt->text as ids. A client's own prompt may name special tokens anywhere, and gets those that
 * the model begins with; a chat's, which has them, only in the spans (else NULL). */
int api_request_encode_text(struct api_request *p, const struct server_model *model,
                            struct prompt *prompt, const struct spans *own);
/* The request goes on behind the tokens of params.resume, as if the engine had generated them. 0,
 * or a negative ERR_* with p->error filled. */
int api_request_resume(struct api_request *p, const struct server_model *model,
                       struct request *r);
/* What the headers have of an earlier process goes to params.resume. 0, or a negative ERR_* with
 * p->error filled. */
int api_request_restore(struct api_request *p, const struct saved_request *saved);
/* params.prediction as ids: text, in which no special tokens are looked for. */
int api_request_take_prediction(struct api_request *p, const struct server_model *model);
/* params.budget_message as ids: text, too. Of a chat without one, the words of its family. */
int api_request_take_budget_message(struct api_request *p, const struct server_model *model);
/* The conversation of the body as a prompt, as api_request_make_prompt(). */
int api_request_take_chat(struct api_request *p, const struct server_model *model,
                          struct prompt *prompt);

/* The conversation as it stands: its template's text, and that as tokens. */
int api_request_take_turns(struct api_request *p, const struct server_model *model,
                           struct prompt *prompt);
/* Where taking it has answered rc and left it too long: without its oldest messages. Else rc. */
int api_request_drop_messages(struct api_request *p, const struct server_model *model,
                              struct prompt *prompt, int rc);

/* Set p->error and return ERR_*: no memory; why tokenizing has failed, if not for lack of room in
 * the context (steps, or memory); no room in the context for n_prompt tokens, 0: not known. */
int api_request_no_memory(struct api_request *p);
int api_request_cannot_encode(struct api_request *p);
/* As Ollama cuts a prompt that is longer than the context of `context` tokens: the first n_keep
 * tokens stay, and as many of the last ones that half of the rest is free for the answer. */
bool api_request_may_cut(const struct api_request *p);
void api_request_cut_middle(const struct params *p, const struct tokenizer *t, uint32_t context,
                            struct token_list *ids);

int api_request_too_long(struct api_request *p, const struct server_model *model,
                         uint32_t n_prompt);

#endif
