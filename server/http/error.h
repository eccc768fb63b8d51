/* server/http/error.h - an error as clients read it: HTTP status and OpenAI's error object.
 *
 * Thread: any; plain data.
 * Memory: none but the rendered buffer.
 */
#ifndef SERVER_HTTP_ERROR_H
#define SERVER_HTTP_ERROR_H

#include <stdint.h>

#include "core/base/buf.h"

struct api_error { /* status 0 = no error */
    int status;
    const char *type; /* static */
    const char *code; /* static, or NULL for null */
    char param[64];   /* the field at fault, or "" for null */
    char message[256];
    uint32_t n_prompt_tokens, n_ctx; /* set for a prompt that is too long, as in llama-server; 0:
                                      * another error, or not known */
    const struct buf *resume; /* JSON of the field `resume` with which another server continues the
                               * request; borrowed; NULL: none */
};

/* Fill *e; `type` follows from the status. Returns a negative ERR_*, which a parser can return
 * directly. `param` and `code` may be NULL. */
int api_error_set(struct api_error *e, int status, const char *param, const char *code,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Fill *e with a 500 "out of memory". */
int api_error_no_memory(struct api_error *e);

/* Fill *e with the 404 of a model that is not served, in OpenAI's form. */
int api_error_no_model(struct api_error *e, const char *name);

/* {"error":{"message":…,"type":…,"param":…,"code":…}} */
void api_error_render(const struct api_error *e, struct buf *out);

#endif
