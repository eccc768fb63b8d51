/* server/http/cors.c - see cors.h.
 *
 * The headers of every answer are added when the head is checked (head_check.c), before anything
 * can be refused, so that errors have them too. A list of "*" is sent as it is; otherwise the
 * allowed origin is echoed, with Vary, for caches.
 */
#include "server/http/cors.h"

#include "config/origins.h"
#include "server/http/http_call.h"

#include <string.h>

/* Response headers that scripts of other origins may read, beside the few that CORS always
 * allows. */
#define EXPOSED "X-Request-Id, Request-Id, Retry-After, retry-after-ms, X-Queue-Position, " \
                "X-Predicted-TTFT-Ms, X-Stream-Id, X-Seed, X-Warning"
/* Seconds for which a browser may keep a preflight's answer; browsers allow two hours at most. */
#define MAX_AGE "7200"

static bool is_allowed(const char *origins, const struct http_call *call)
{
    const char *origin = http_call_header(call, "Origin");

    return origin != NULL && strlen(origin) <= ORIGINS_MAX_BYTES && origins_have(origins, origin);
}

bool cors_is_preflight(const struct http_call *call, const char *method)
{
    return strcmp(method, "OPTIONS") == 0 && http_call_header(call, "Origin") != NULL &&
           http_call_header(call, "Access-Control-Request-Method") != NULL;
}

void cors_add_headers(const char *origins, struct http_call *call)
{
    http_call_set_header(call, "Vary", "Origin");
    if (!is_allowed(origins, call))
        return;
    http_call_set_header(call, "Access-Control-Allow-Origin",
                         strcmp(origins, "*") == 0 ? "*" : http_call_header(call, "Origin"));
    http_call_set_header(call, "Access-Control-Expose-Headers", EXPOSED);
}

/* "*" allows all request headers except Authorization, which must be listed. */
void cors_answer(const char *origins, struct http_call *call)
{
    struct buf none = {0};

    if (is_allowed(origins, call)) {
        http_call_set_header(call, "Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE");
        http_call_set_header(call, "Access-Control-Allow-Headers", "Authorization, *");
        http_call_set_header(call, "Access-Control-Max-Age", MAX_AGE);
    }
    http_call_reply(call, 204, "", &none);
}
