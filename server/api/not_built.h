/* server/api/not_built.h - what is answered on paths that no route takes.
 *
 * A client whose base URL is this server's may ask for what its API has and this server has not:
 * that is said by name, with what there is instead, and each API's errors have its shape also where
 * there is no such path.
 *
 * Thread: the I/O thread.
 * Memory: none.
 */
#ifndef SERVER_API_NOT_BUILT_H
#define SERVER_API_NOT_BUILT_H

#include <stdbool.h>

struct http_call;

/* For http_options.refuse_path: answer with 404. is_known: there is such a path, but not with this
 * method; then false, and no answer, unless the path is of something that is not built. */
bool not_built_refuse(void *ud, struct http_call *call, bool is_known);

#endif
