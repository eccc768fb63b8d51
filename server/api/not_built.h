/* server/api/not_built.h - answers calls on paths that no route takes.
 *
 * A client of another API may ask for a path that this server does not have. The error names the
 * path and the alternative, in the form of that API's errors; unknown paths get this form, too.
 *
 * Thread: the I/O thread.
 * Memory: none.
 */
#ifndef SERVER_API_NOT_BUILT_H
#define SERVER_API_NOT_BUILT_H

#include <stdbool.h>

struct http_call;

/* For http_options.refuse_path: answer with a 404. is_known: the path exists, but not with this
 * method; then return false without an answer, unless the path is in the table. */
bool not_built_refuse(void *ud, struct http_call *call, bool is_known);

#endif
