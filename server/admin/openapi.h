/* server/admin/openapi.h - GET /openapi.json: what is served, in the words of OpenAPI 3.1.
 *
 * The description is made of the tables that the server itself is made of, routes.inc and
 * params_fields.inc, with a line of text for each row: what has no description does not compile.
 *
 * Thread: any.
 * Memory: the text only.
 */
#ifndef SERVER_ADMIN_OPENAPI_H
#define SERVER_ADMIN_OPENAPI_H

#include "core/base/buf.h"

void openapi_render(struct buf *out);

#endif
