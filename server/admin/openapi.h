/* server/admin/openapi.h - GET /openapi.json: describes all routes and fields as OpenAPI 3.1. The
 * text is made from the tables of the server's routes and fields, routes.inc and params_fields.inc,
 * with a description for each row: a row without one does not compile.
 *
 * Thread: any.
 * Memory: the text only.
 */
#ifndef SERVER_ADMIN_OPENAPI_H
#define SERVER_ADMIN_OPENAPI_H

#include "core/base/buf.h"

void openapi_render(struct buf *out);

#endif
