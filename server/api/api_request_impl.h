/* server/api/api_request_impl.h - what the files of api_request.h share.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_API_REQUEST_IMPL_H
#define SERVER_API_API_REQUEST_IMPL_H

#include "server/api/api_request.h"

/* Fill prompt i with its text and tokens, the prompts before it being complete. 0, or a negative
 * ERR_* with p->error filled. */
int api_request_make_prompt(struct api_request *p, const struct server_model *model, uint32_t i);

/* Set p->error and return ERR_*: no memory; why tokenizing has failed, if not for lack of room in
 * the context (steps, or memory); no room in the context. */
int api_request_no_memory(struct api_request *p);
int api_request_cannot_encode(struct api_request *p);
int api_request_too_long(struct api_request *p, const struct server_model *model);

#endif
