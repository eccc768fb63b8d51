/* server/auth/auth.h - admission: decided on the head of a request, before its body is read.
 *
 * While the models are loading, only routes with AUTH_EARLY are answered. With keys, every route
 * but the open ones needs a key: `Authorization: Bearer KEY` or `X-Api-Key: KEY`. A POST that asks
 * a model for work counts against the key's requests per minute. Pages about all tenants are for
 * the operator: with keys they need a key with admin rights; without keys, a request whose proxy
 * names a tenant in a header is refused there.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_AUTH_AUTH_H
#define SERVER_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_call;
struct keys;
struct metrics_server;

#define AUTH_LOADING "Loading model" /* the message of llama-server, which its probes read */

enum auth_flags {              /* flags of a route */
    AUTH_OPEN = 1u << 0,       /* needs no key */
    AUTH_METRICS = 1u << 1,    /* with AUTH_ADMIN: needs no key if the setting metrics_open is on */
    AUTH_ADMIN = 1u << 2,      /* about all tenants: for the operator */
    AUTH_WORK = 1u << 3,       /* counts against the key's limits */
    AUTH_EARLY = 1u << 4,      /* answered before the models are loaded */
    AUTH_ANTHROPIC = 1u << 5,  /* errors have Anthropic's shape */
    AUTH_ALWAYS = 1u << 6,     /* answered when all connections are in use */
    AUTH_OLLAMA = 1u << 7,     /* errors have Ollama's shape; bodies may have any type */
    AUTH_BY_VERSION = 1u << 8, /* answers have Anthropic's shape if the request has the header
                                * anthropic-version */
    AUTH_UPLOAD = 1u << 9,     /* its body is received in pieces, with a Content-Type of its own */
    AUTH_COHERE = 1u << 10,    /* errors have Cohere's shape */
};

struct auth {
    struct keys *keys; /* NULL = no keys are needed */
    bool has_open_metrics;
    const char *tenant_header; /* borrowed; "" = none */
    struct metrics_server *server_counts; /* where refusals are counted */
    bool is_loading;
    uint64_t load_start_us;
    /* The progress of the load, in thousandths; NULL = unknown. */
    uint32_t (*load_permille)(void *ud);
    void *load_ud;
};

/* Decide if the call may continue. Without keys, the name of its tenant is checked here for all
 * routes. 0, or a negative ERR_*: the call has been answered. */
int auth_admit(struct auth *g, struct http_call *call, unsigned flags);

/* True: the client may use pages with AUTH_ADMIN. */
bool auth_is_operator(const struct auth *g, const struct http_call *call);

/* Return the tenant that a call without a key names: in the header `tenant_header`, else in a
 * trusted proxy's header (proxy_headers.h); NULL: neither. *name is the header's name. */
const char *auth_tenant_header(const struct http_call *call, const char *tenant_header,
                               const char **name);

/* Copy the tenant of a call: that of its key or, without keys, of the headers; "": none. out has
 * room for WEIGHTS_MAX_NAME + 1 bytes. */
void auth_tenant(const struct http_call *call, const char *tenant_header, char *out, size_t size);

/* Set Retry-After for an answer while models are loading. */
void auth_set_retry(const struct auth *g, struct http_call *call);

#endif
