/* server/auth/auth.c - see auth.h.
 *
 * auth_admit() runs once per request, when head_check.h has found the route: with keys it looks up
 * the secret and checks admin rights and the request rate; without keys it checks the tenant's
 * header. Only then does it refuse for loading, so that a client with a bad key gets no progress of
 * the load. The key found becomes the call's owner.
 */
#include "server/auth/auth.h"

#include "config/weights.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/name_copy.h"
#include "server/auth/api_keys.h"
#include "server/http/http_call.h"
#include "server/http/proxy_headers.h"
#include "server/http/retry_after.h"
#include "server/metrics/metrics.h"

#include <string.h>
#include <strings.h>

/* Retry-After while loading if the progress is unknown; else the rest of the load at its rate so
 * far. */
#define LOADING_MS 1000u

static int refuse_call(struct auth *g, struct http_call *call, const struct api_error *e,
                       enum rejection reason)
{
    g->server_counts->rejections[reason]++;
    http_call_reply_error(call, e);
    return ERR_CANCELED;
}

/* ---- loading ---- */

static uint32_t loading_ms(const struct auth *g)
{
    const uint64_t elapsed_ms = (clock_us() - g->load_start_us) / 1000;
    const uint32_t done = g->load_permille != NULL ? g->load_permille(g->load_ud) : 0;

    if (done == 0 || done > 1000)
        return LOADING_MS;
    return retry_after_bound(elapsed_ms * (1000 - done) / done);
}

void auth_set_retry(const struct auth *g, struct http_call *call)
{
    retry_after_set(call, loading_ms(g));
}

static int refuse_loading(const struct auth *g, struct http_call *call)
{
    struct api_error e;

    api_error_set(&e, 503, NULL, "loading", AUTH_LOADING);
    auth_set_retry(g, call);
    http_call_reply_error(call, &e);
    return ERR_BUSY;
}

/* ---- keys ---- */

/* Return the secret that the client presents, or NULL. */
static const char *secret_of(const struct http_call *call)
{
    static const char scheme[] = "Bearer ";
    const char *text = http_call_header(call, "Authorization");

    if (text == NULL || strncasecmp(text, scheme, sizeof(scheme) - 1) != 0)
        return http_call_header(call, "X-Api-Key");
    text += sizeof(scheme) - 1;
    return text + strspn(text, " ");
}

/* Refuse a missing or unknown key; neither answer reveals whether a similar key exists. */
static int refuse_unknown_key(struct auth *g, struct http_call *call, bool has_secret)
{
    struct api_error e;

    if (has_secret)
        api_error_set(&e, 401, NULL, "invalid_api_key", "the API key is not valid");
    else
        api_error_set(&e, 401, NULL, "invalid_api_key",
                      "an API key is needed: send Authorization: Bearer KEY, or X-Api-Key: KEY");
    http_call_set_header(call, "WWW-Authenticate",
                         has_secret ? "Bearer realm=\"quire\", error=\"invalid_token\""
                                    : "Bearer realm=\"quire\"");
    return refuse_call(g, call, &e, REJECTION_UNAUTHORIZED);
}

static int check_rate(struct auth *g, struct http_call *call, struct key *key)
{
    const uint64_t wait = key_take_request(key, clock_us());
    struct api_error e;

    if (wait == 0)
        return 0;
    api_error_set(&e, 429, NULL, "rate_limit_exceeded",
                  "this key has a limit of %u requests a minute", key->requests.per_minute);
    retry_after_set(call, (uint32_t)((wait + 999) / 1000));
    return refuse_call(g, call, &e, REJECTION_RATE_LIMIT);
}

static void release_key(void *key)
{
    key_unref(key);
}

static int check_key(struct auth *g, struct http_call *call, unsigned flags)
{
    struct key *key = http_call_owner(call); /* a local call has its owner already */
    const char *secret = key == NULL ? secret_of(call) : NULL;
    struct api_error e;

    if (secret != NULL)
        key = keys_find(g->keys, secret);
    if (key == NULL)
        return refuse_unknown_key(g, call, secret != NULL);
    http_call_set_owner(call, key_ref(key), release_key, key->spec.name);
    if ((flags & AUTH_ADMIN) != 0 && !key->spec.is_admin) {
        api_error_set(&e, 403, NULL, "insufficient_permissions",
                      "this needs a key with admin rights");
        return refuse_call(g, call, &e, REJECTION_FORBIDDEN);
    }
    return (flags & AUTH_WORK) != 0 ? check_rate(g, call, key) : 0;
}

const char *auth_tenant_header(const struct http_call *call, const char *tenant_header,
                               const char **name)
{
    const char *value = tenant_header[0] != '\0' ? http_call_header(call, tenant_header) : NULL;

    *name = tenant_header;
    if (value != NULL)
        return value;
    *name = proxy_header_name(PROXY_FAIRNESS_ID);
    return proxy_header(call, PROXY_FAIRNESS_ID);
}

bool auth_is_operator(const struct auth *g, const struct http_call *call)
{
    const struct key *key = http_call_owner(call);
    const char *name;

    return g->keys != NULL ? key != NULL && key->spec.is_admin
                           : auth_tenant_header(call, g->tenant_header, &name) == NULL;
}

/* True: the text is a valid tenant's name; all arrays for an owner have room for
 * WEIGHTS_MAX_NAME. */
static bool is_tenant_name(const char *name)
{
    size_t n = 0;

    while (n <= WEIGHTS_MAX_NAME && name[n] > ' ' && name[n] < 0x7f)
        n++;
    return n <= WEIGHTS_MAX_NAME && name[n] == '\0';
}

/* Check the tenant of a call without keys: every client is the operator, unless a proxy names a
 * tenant. */
static int check_tenant(struct auth *g, struct http_call *call, unsigned flags)
{
    const char *name, *tenant = auth_tenant_header(call, g->tenant_header, &name);
    struct api_error e;

    if (tenant == NULL)
        return 0;
    if (!is_tenant_name(tenant)) {
        api_error_set(&e, 400, name, NULL,
                      "the header %s must be a name of at most %d visible characters", name,
                      WEIGHTS_MAX_NAME);
        return refuse_call(g, call, &e, REJECTION_INVALID);
    }
    if ((flags & AUTH_ADMIN) == 0)
        return 0;
    api_error_set(
        &e, 403, NULL, "insufficient_permissions",
        "this endpoint shows all tenants and is not available to requests with the header %s",
        name);
    return refuse_call(g, call, &e, REJECTION_FORBIDDEN);
}

int auth_admit(struct auth *g, struct http_call *call, unsigned flags)
{
    const bool is_open =
        (flags & AUTH_OPEN) != 0 || ((flags & AUTH_METRICS) != 0 && g->has_open_metrics);

    if (g->keys != NULL && !is_open && check_key(g, call, flags) < 0)
        return ERR_CANCELED;
    if (g->keys == NULL && check_tenant(g, call, flags) < 0)
        return ERR_CANCELED;
    return g->is_loading && (flags & AUTH_EARLY) == 0 ? refuse_loading(g, call) : 0;
}

void auth_tenant(const struct http_call *call, const char *tenant_header, char *out, size_t size)
{
    const struct key *key = http_call_owner(call);
    const char *name, *value = auth_tenant_header(call, tenant_header, &name);

    if (key != NULL)
        value = key->spec.tenant;
    (void)name_copy(out, size, value != NULL ? value : ""); /* auth_admit() has checked the
                                                             * length */
}
