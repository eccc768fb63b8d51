/* server/api/api_call_impl.h - what the files of api_call.h share.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_API_API_CALL_IMPL_H
#define SERVER_API_API_CALL_IMPL_H

#include "server/api/api_call.h"

/* A parsed call takes its adapter, if it wants one. False: it must be read from its file, and
 * `adapted` is called when it was, or when the call's time is over; perhaps before this returns.
 * In either case the requests have it then, or request.error is filled. */
bool api_call_take_adapter(struct api_call *api, void (*adapted)(struct api_call *api));

/* `adapted` will not be called. False: it does not wait. */
bool api_call_stop_waiting(struct api_call *api);

#endif
