/* server/admin/anthropic_pages.h - the list of served models in the format of Anthropic's API.
 *
 * The paths are the same as OpenAI's. The header anthropic-version, which Anthropic's API requires,
 * shows which of the two a client uses.
 *
 * Thread: the loop's; each is answered within its handler.
 * Memory: the reply only.
 */
#ifndef SERVER_ADMIN_ANTHROPIC_PAGES_H
#define SERVER_ADMIN_ANTHROPIC_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct http_call;
struct server_model;

bool anthropic_pages_are_wanted(const struct http_call *call);
/* Answer /v1/models?limit=…&after_id=… or before_id=… with a page of the list. */
void anthropic_pages_models(struct http_call *call, const struct server_model *const *models,
                            uint32_t n);
void anthropic_pages_model(struct http_call *call, const struct server_model *m);

#endif
