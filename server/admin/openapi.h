/* server/admin/openapi.h - GET /openapi.json: a description of all that is served, as OpenAPI 3.1.
 *
 * It is made from the tables that the server itself is made of, routes.inc and params_fields.inc,
 * with a line of text for each row: a row without a description does not compile.
 *
 * Thread: any.
 * Memory: the text only.
 */
#ifndef SERVER_ADMIN_OPENAPI_H
#define SERVER_ADMIN_OPENAPI_H

#include "core/base/buf.h"

void openapi_render(struct buf *out);

#endif
