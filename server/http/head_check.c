/* server/http/head_check.c - see head_check.h.
 *
 * The checks run in the order of the header, once per request, when the head is complete; the first
 * that fails answers (exchange_refuse()) and the rest is skipped. Routes are matched one after the
 * other in the order of routes.inc. head_must_answer_now() then decides whether the refusal is sent
 * before the body has come.
 */
#include "server/http/head_check.h"

#include "config/hosts.h"
#include "config/origins.h"
#include "server/http/body_decoder.h"
#include "server/http/cors.h"
#include "server/http/exchange.h"
#include "server/http/http_grammar.h"
#include "server/http/proxy_headers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A refused body of up to so many times its limit is read and discarded. */
#define DISCARD_FACTOR 4

/* ---- fields ---- */

/* Return the name of a field that occurs twice, of those that the server reads, or NULL.
 * head_guard.c has checked Host and the framing fields. */
static const char *twice(const struct http_call *c)
{
    static const char *const once[] = {
        "Authorization", "X-Api-Key", "Content-Type", "Content-Encoding", "Origin", "Expect",
        "X-Request-Id", "X-Priority", "Access-Control-Request-Method",
    };
    const char *tenant = c->http->opt.tenant_header;

    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        if (http_request_count(&c->request, once[i]) > 1)
            return once[i];
    if (tenant[0] != '\0' && http_request_count(&c->request, tenant) > 1)
        return tenant;
    return proxy_header_twice(c);
}

static bool check_fields(struct http_call *c)
{
    const char *name = twice(c);
    char text[120];

    if (name != NULL) {
        snprintf(text, sizeof(text), "the header field %.60s must occur only once", name);
        c->http->edge[HTTP_EDGE_MALFORMED]++;
        c->closes = true;
        exchange_refuse(c, 400, NULL, text);
        return false;
    }
    if (c->request.has_bad_expectation) {
        c->closes = true;
        exchange_refuse(c, 417, NULL, "the only supported Expect header is 100-continue");
        return false;
    }
    return true;
}

/* ---- hosts and origins ---- */

static bool is_host_answered(const struct http_call *c, enum head_origin from)
{
    const struct http_options *o = &c->http->opt;
    const char *host = c->request.target.host;
    const size_t n = host != NULL ? http_host_name_length(host) : 0;

    if (from == HEAD_UNIX)
        return true;
    if (o->allowed_hosts[0] != '\0')
        return host != NULL ? hosts_have(o->allowed_hosts, host, n)
                            : strcmp(o->allowed_hosts, "*") == 0;
    if (from == HEAD_ANYWHERE || host == NULL) /* no host: HTTP/1.0, which no browser uses */
        return true;
    return hosts_is_local(host, n) || (strlen(o->host) == n && strncasecmp(o->host, host, n) == 0);
}

static bool check_host(struct http_call *c, enum head_origin from)
{
    if (is_host_answered(c, from))
        return true;
    c->http->edge[HTTP_EDGE_HOST]++;
    exchange_refuse(
        c, 403, "allowed_hosts",
        "this host name is not allowed; the setting 'allowed_hosts' lists those that are");
    return false;
}

/* Return the length of host:port, without a port that is the scheme's default. */
static size_t authority_length(const char *authority, const char *port)
{
    const size_t n = http_host_name_length(authority);

    return strcmp(authority + n, ":") == 0 || strcmp(authority + n, port) == 0 ? n
                                                                               : strlen(authority);
}

/* True: the page comes from the server that it calls. Only host and port are compared, because if a
 * proxy terminates TLS the page's scheme is not this server's. */
static bool is_own_origin(const struct http_call *c, const char *origin)
{
    const bool is_https = strncasecmp(origin, "https://", 8) == 0;
    const char *port = is_https ? ":443" : ":80", *host = c->request.target.host;
    const char *authority = origin + (is_https ? 8 : 7);

    if (host == NULL || (!is_https && strncasecmp(origin, "http://", 7) != 0))
        return false;
    const size_t n = authority_length(authority, port);

    return n == authority_length(host, port) && strncasecmp(authority, host, n) == 0;
}

static bool check_origin(struct http_call *c)
{
    const char *origins = c->http->opt.cors_origins;
    const char *origin = http_request_field(&c->request, "Origin");

    if (origins[0] != '\0')
        cors_add_headers(origins, c);
    if (origin == NULL || is_own_origin(c, origin))
        return true;
    if (origins[0] != '\0' && strlen(origin) <= ORIGINS_MAX_BYTES && origins_have(origins, origin))
        return true;
    c->http->edge[HTTP_EDGE_ORIGIN]++;
    exchange_refuse(c, 403, "cors_origins",
                    "pages of this origin may not send requests; the setting 'cors_origins' lists "
                    "those that may");
    return false;
}

/* ---- routes ---- */

/* True: the path matches the pattern own[0..n); *tail is the part that its star matched, or that
 * follows its final slash. */
static bool field_fits(const char *own, size_t n, const char *path, const char **tail,
                       size_t *n_tail)
{
    const char *star = memchr(own, '*', n);
    const size_t before = star != NULL ? (size_t)(star - own) : n;
    const size_t after = star != NULL ? n - before - 1 : 0, len = strlen(path);

    if (len < before || memcmp(own, path, before) != 0)
        return false;
    *tail = path + before;
    *n_tail = len - before;
    if (star == NULL)
        return n > 1 && own[n - 1] == '/' ? *n_tail > 0 : *n_tail == 0;
    if (*n_tail <= after || memcmp(path + len - after, star + 1, after) != 0)
        return false;
    *n_tail -= after;
    return memchr(*tail, '/', *n_tail) == NULL;
}

/* True: the path matches one of the patterns in the list, which are separated by blanks. */
static bool is_listed(const char *list, const char *path, const char **tail, size_t *n_tail)
{
    for (const char *at = list; at != NULL && *at != '\0'; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");

        if (field_fits(at, len, path, tail, n_tail))
            return true;
        at += len;
    }
    return false;
}

bool head_find_route(struct http_call *c)
{
    const struct http_options *o = &c->http->opt;
    const char *path = c->request.target.path, *tail;
    size_t n;

    for (c->route = 0; c->route < o->n_routes; c->route++) {
        const struct http_route *route = &o->routes[c->route];

        if (field_fits(route->path, strlen(route->path), path, &tail, &n) ||
            is_listed(route->also, path, &tail, &n)) {
            memcpy(c->tail, tail, n);
            c->tail[n] = '\0';
            return true;
        }
    }
    return false;
}

static bool method_fits(unsigned allowed, const char *method)
{
    if (strcmp(method, "POST") == 0)
        return (allowed & HTTP_POST) != 0;
    if (strcmp(method, "DELETE") == 0)
        return (allowed & HTTP_DELETE) != 0;
    return (allowed & HTTP_GET) != 0 &&
           (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
}

/* Return the value of the header Allow. */
static const char *methods_of(const struct http_route *route)
{
    if (route->methods == HTTP_DELETE)
        return "DELETE";
    if (route->methods == HTTP_POST)
        return "POST";
    if ((route->methods & HTTP_DELETE) != 0)
        return "GET, HEAD, DELETE";
    return route->methods == HTTP_GET ? "GET, HEAD" : "GET, HEAD, POST";
}

static const char *skip_token(const char *text)
{
    while (http_is_token_char(*text))
        text++;
    return text;
}

/* True: the type is application/json or application/…+json, which a page may not send to another
 * site without a preflight. */
static bool is_json_type(const char *type)
{
    static const char application[] = "application/", json[] = "+json";
    const char *name, *end;

    if (strncasecmp(type, application, sizeof(application) - 1) != 0)
        return false;
    name = type + sizeof(application) - 1;
    end = skip_token(name);
    if (*end != '\0' && strchr("; \t", *end) == NULL)
        return false;
    if (end - name == 4)
        return strncasecmp(name, "json", 4) == 0;
    return end - name > 5 && strncasecmp(end - 5, json, 5) == 0;
}

/* True: a browser sent the request for a page. Browsers add Origin to every POST, and since 2020
 * Sec-Fetch-Site; older ones at least Referer. */
static bool is_from_page(const struct http_call *c)
{
    return http_request_field(&c->request, "Origin") != NULL ||
           http_request_field(&c->request, "Sec-Fetch-Site") != NULL ||
           http_request_field(&c->request, "Referer") != NULL;
}

/* True: the body's Content-Type is accepted. A program may omit it, and on routes with
 * takes_any_type send any other: curl -d labels its JSON as a form. A page may not: browsers need
 * no preflight to send a form, or a body without a type (a Blob), to another site. */
static bool is_type_taken(const struct http_call *c, const struct http_route *route)
{
    const char *type = http_request_field(&c->request, "Content-Type");

    if (type != NULL && is_json_type(type))
        return true;
    if (type == NULL && !http_request_has_body(&c->request))
        return true;
    return (type == NULL || route->takes_any_type) && !is_from_page(c);
}

/* Return the encoding of the body, or NULL: it has none. */
static const char *encoding_name(const struct http_call *c)
{
    const char *name = http_request_field(&c->request, "Content-Encoding");

    return name != NULL && name[0] != '\0' && strcasecmp(name, "identity") != 0 ? name : NULL;
}

/* True: by its Content-Length the body is too long. That of an encoded body counts compressed
 * bytes: only one that is discarded in any case is refused before it is decoded. */
static bool is_too_long(const struct http_call *c)
{
    const uint64_t length = c->request.length;

    return (encoding_name(c) != NULL ? length / DISCARD_FACTOR : length) > exchange_max_body(c);
}

static void refuse_encoding(struct http_call *c)
{
    const char *names = body_encoding_names(), *name = encoding_name(c);
    char text[300];

    if (names[0] != '\0')
        snprintf(text, sizeof(text),
                 "Content-Encoding '%.60s' is not supported: send the body with one of the "
                 "encodings %s, or uncompressed",
                 name, names);
    else
        snprintf(text, sizeof(text),
                 "Content-Encoding '%.60s' is not supported, because this program was built "
                 "without zlib and libzstd: send the body uncompressed",
                 name);
    http_call_set_header(c, "Accept-Encoding", names[0] != '\0' ? names : "identity");
    exchange_refuse(c, 415, NULL, text);
}

/* Find the decoder for the body. False: there is none, and the request is refused. */
static bool check_encoding(struct http_call *c)
{
    const char *name = encoding_name(c);
    const struct body_encoding *encoding = name != NULL ? body_encoding_find(name) : NULL;

    if (name != NULL && encoding == NULL) {
        refuse_encoding(c);
        return false;
    }
    if (http_request_has_body(&c->request))
        c->encoding = encoding;
    return true;
}

static void answer_for_all(struct http_call *c)
{
    struct buf none = {0};

    http_call_set_header(c, "Allow", "GET, HEAD, POST, DELETE, OPTIONS");
    http_call_reply(c, 204, "", &none);
    c->is_discarding = true;
}

/* Refuse a request whose path no route has, or none with that method. */
static void refuse_path(struct http_call *c, const struct http_route *route)
{
    const struct http_options *o = &c->http->opt;

    if (o->refuse_path != NULL && o->refuse_path(o->ud, c, route != NULL)) {
        c->is_discarding = true;
    } else if (route == NULL) {
        exchange_refuse(c, 404, NULL, "there is no such path");
    } else {
        http_call_set_header(c, "Allow", methods_of(route));
        exchange_refuse(c, 405, NULL, "the method is not allowed here");
    }
}

/* Make the checks that depend on the route. */
static void check_route(struct http_call *c, const char *method, bool is_reserved)
{
    const struct http_options *o = &c->http->opt;
    const bool is_found = head_find_route(c);
    const struct http_route *route = &o->routes[is_found ? c->route : 0];
    const bool is_post = strcmp(method, "POST") == 0;

    if (is_reserved && (!is_found || (route->flags & o->reserved_flags) == 0)) {
        c->http->edge[HTTP_EDGE_FULL]++;
        http_call_set_header(c, "Retry-After", "1");
        exchange_refuse(c, 503, "max_connections", "all connections are in use");
    } else if (!is_found || !method_fits(route->methods, method)) {
        refuse_path(c, is_found ? route : NULL);
    } else if (o->admit(o->ud, c, route->flags) < 0) {
        c->is_discarding = true;
    } else if (is_too_long(c)) {
        exchange_refuse_body(c);
    } else if (is_post && !check_encoding(c)) {
        return;
    } else if (route->methods == HTTP_POST && !is_type_taken(c, route)) {
        exchange_refuse(c, 415, NULL, "the content type must be application/json");
    }
}

void head_check(struct http_call *c, enum head_origin from, bool is_reserved)
{
    const char *method = http_request_method(&c->request);
    const char *origins = c->http->opt.cors_origins;

    if (!check_fields(c) || !check_host(c, from) || !check_origin(c))
        return;
    if (strcmp(c->request.target.path, "*") == 0) {
        answer_for_all(c);
    } else if (origins[0] != '\0' && cors_is_preflight(c, method)) {
        /* The path is checked when the real request comes. */
        cors_answer(origins, c);
        c->is_discarding = true;
    } else {
        check_route(c, method, is_reserved);
    }
}

bool head_must_answer_now(const struct http_call *c)
{
    return c->state != CALL_RECEIVING &&
           (c->request.expects_continue ||
            c->request.length / DISCARD_FACTOR > exchange_max_body(c));
}
