/* server/process/exposure.h - can strangers use this server?
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_EXPOSURE_H
#define SERVER_PROCESS_EXPOSURE_H

#include <stdbool.h>

/* Is this a setting of `host` that only this machine can reach: empty (no TCP), localhost, ::1 or
 * 127.0.0.0/8? Other names count as open, whatever they resolve to. */
bool exposure_is_local(const char *host);

#endif
