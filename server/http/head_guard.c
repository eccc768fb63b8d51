/* server/http/head_guard.c - see head_guard.h.
 *
 * One pass over what libmicrohttpd has read: request line, fields, target, and then Host, framing
 * and Expect, each over all fields. The first fault becomes the verdict, and the pass continues, so
 * that a refused request still has the texts for log and answer. Trailers run through the same
 * callback, with `request` NULL.
 */
#include "server/http/head_guard.h"

#include "core/base/err.h"
#include "server/http/http_grammar.h"

#include <string.h>
#include <strings.h>

#define LINE_BLANKS 2 /* blanks in a request line */

struct guard {
    struct http_request *request; /* NULL: trailers */
    struct guard_verdict verdict;
    size_t n_bytes, n_fields;
};

static void guard_refuse(struct guard *g, int status, const char *why)
{
    if (g->verdict.status == 0)
        g->verdict = (struct guard_verdict){.status = status, .why = why};
}

/* ---- fields ---- */

static bool is_value(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7f)
            return false;
    return true;
}

static bool is_framing(const char *name)
{
    return strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0 ||
           strcasecmp(name, "Host") == 0;
}

/* libmicrohttpd ends names and values with NUL, so that one inside would make them shorter than
 * their lengths say; is_value() refuses it. */
static enum MHD_Result on_field(void *ud, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                const char *value, size_t n_value)
{
    struct guard *g = ud;

    (void)kind;
    value = value != NULL ? value : "";
    g->n_bytes += n_name + n_value + strlen(": \r\n");
    if (!http_is_token(name, n_name) || !is_value(value, n_value))
        guard_refuse(g, 400, "a header field must be a name, a colon and a value, on one line");
    if (g->request == NULL && is_framing(name))
        guard_refuse(g, 400, "a trailer must not be a field that frames the request");
    if (g->n_fields++ >= HTTP_MAX_FIELDS)
        return MHD_NO;
    if (g->request != NULL)
        g->request->fields[g->request->n_fields++] =
            (struct http_field){.name = name, .value = value};
    return MHD_YES;
}

static void read_fields(struct guard *g, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    MHD_get_connection_values_n(c, MHD_HEADER_KIND, on_field, g);
    if (g->n_fields > HTTP_MAX_FIELDS)
        guard_refuse(g, 431, "the request has too many header fields");
    if (info != NULL && info->header_size > HTTP_MAX_HEAD)
        guard_refuse(g, 431, "the request's headers are too large");
}

/* ---- the request line ---- */

static void check_line(struct guard *g, const char *method, const char *version, const char *target)
{
    if (strlen(method) + strlen(target) + strlen(version) + LINE_BLANKS > HTTP_MAX_LINE)
        guard_refuse(g, 414, "the request line is too long");
    if (!http_is_token(method, strlen(method)))
        guard_refuse(g, 400, "the request line must be a method, a target and HTTP/1.1");
    if (strcmp(version, "HTTP/1.0") != 0 && strcmp(version, "HTTP/1.1") != 0)
        guard_refuse(g, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
    if (strcmp(method, "CONNECT") == 0)
        guard_refuse(g, 501, "CONNECT is not supported");
}

static void read_target(struct guard *g, char *target)
{
    struct http_request *r = g->request;

    if (http_target_parse(&r->target, target, r->method) == 0)
        return;
    r->target = (struct http_target){0};
    guard_refuse(g, 400, "the request's target is not valid");
}

/* ---- Host, framing and Expect ---- */

static void check_host(struct guard *g)
{
    struct http_request *r = g->request;
    const uint32_t n = http_request_count(r, "Host");
    const char *host = http_request_field(r, "Host");

    if (n > 1 || (n == 0 && !r->is_http_10))
        guard_refuse(g, 400, "a request must have exactly one Host header");
    if (host != NULL && !http_host_is_valid(host))
        guard_refuse(g, 400, "the Host header is not valid");
    if (r->target.host == NULL)
        r->target.host = host;
}

static void read_coding(struct guard *g)
{
    struct http_request *r = g->request;
    const char *coding = http_request_field(r, "Transfer-Encoding");

    if (r->is_http_10)
        guard_refuse(g, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (http_request_count(r, "Transfer-Encoding") > 1 ||
        http_request_count(r, "Content-Length") > 0)
        guard_refuse(
            g, 400, "a request must have one Content-Length or one Transfer-Encoding, not several");
    if (http_has_foreign_coding(coding))
        guard_refuse(g, 501, "chunked is the only supported transfer coding");
    if (strcasecmp(coding, "chunked") != 0)
        guard_refuse(g, 400, "Transfer-Encoding must be chunked");
    r->is_chunked = true;
}

static void read_framing(struct guard *g)
{
    struct http_request *r = g->request;
    const char *length = http_request_field(r, "Content-Length");

    if (http_request_field(r, "Transfer-Encoding") != NULL) {
        read_coding(g);
    } else if (length != NULL) {
        if (http_request_count(r, "Content-Length") > 1)
            guard_refuse(
                g, 400,
                "a request must have one Content-Length or one Transfer-Encoding, not several");
        if (!http_read_length(length, &r->length))
            guard_refuse(g, 400, "Content-Length must be a number");
    }
}

static void read_expectation(struct http_request *r)
{
    const char *expect = r->is_http_10 ? NULL : http_request_field(r, "Expect");

    r->expects_continue = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    r->has_bad_expectation = expect != NULL && !r->expects_continue;
}

struct guard_verdict head_guard_read(struct MHD_Connection *c, const char *method,
                                     const char *version, char *target, struct http_request *out)
{
    struct guard g = {.request = out};

    *out = (struct http_request){.method = method, .is_http_10 = strcmp(version, "HTTP/1.0") == 0};
    check_line(&g, method, version, target);
    read_fields(&g, c);
    read_target(&g, target);
    check_host(&g);
    read_framing(&g);
    read_expectation(out);
    out->keeps_alive = g.verdict.status == 0;
    return g.verdict;
}

struct guard_verdict head_guard_check_trailers(struct MHD_Connection *c)
{
    struct guard g = {0};

    MHD_get_connection_values_n(c, MHD_FOOTER_KIND, on_field, &g);
    if (g.n_bytes > HTTP_MAX_TRAILER || g.n_fields > HTTP_MAX_FIELDS)
        guard_refuse(&g, 431, "the request's trailers are too large");
    return g.verdict;
}
