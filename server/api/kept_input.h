/* server/api/kept_input.h - the input of OpenAI's Responses, where responses are kept.
 *
 * Thread: any.
 * Memory: none but what is appended.
 */
#ifndef SERVER_API_KEPT_INPUT_H
#define SERVER_API_KEPT_INPUT_H

#include "core/json/json.h"
#include "server/http/error.h"
#include "server/storage/response_store.h"

struct kept_items;

/* Collect the kept responses and items that an unchecked body names. 0, or ERR_* with *e filled;
 * the caller releases wish->items. */
int kept_input_wish(const cJSON *body, struct response_wish *wish, struct api_error *e);

/* Append the items of a checked body as a list, each with an id; a reference is replaced by its
 * item in `kept`. 0 or ERR_NOMEM. */
int kept_input_list(const cJSON *body, const struct kept_items *kept, struct buf *out);

#endif
