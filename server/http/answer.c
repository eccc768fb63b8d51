/* server/http/answer.c - see answer.h.
 *
 * Both ways of sending, libmicrohttpd's response and answer_write_now(), get the exchange's headers
 * from one function, each_header(), with a callback that adds a header to a response or to a text.
 * A small answer is a static buffer of libmicrohttpd's, so that it goes out in one packet with its
 * head; libmicrohttpd reads a larger one or a stream through a content reader.
 */
#include "server/http/answer.h"

#include "core/base/err.h"
#include "server/http/exchange.h"

#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <time.h>

/* Bytes of a block in which libmicrohttpd reads a stream over HTTP/1.0, which has no chunks. Over
 * HTTP/1.1 a chunk fills the connection's buffer. */
#define STREAM_BLOCK ((size_t)4 << 10)

static struct MHD_Response *make_response(struct http_call *call, MHD_ContentReaderCallback read,
                                          void *ud)
{
    if (call->state != CALL_REPLIED)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read, ud, NULL);
    if (call->out.len > ANSWER_SMALL)
        return MHD_create_response_from_callback(call->out.len, ANSWER_SMALL, read, ud, NULL);
    call->n_sent = call->is_head ? 0 : call->out.len;
    call->out_pos = call->out.len;
    return MHD_create_response_from_buffer_static(call->out.len, call->out.data);
}

/* Pass each header of the exchange to `take`; libmicrohttpd adds Date and framing itself. */
static bool each_header(struct http_call *call,
                        bool (*take)(void *ud, const char *name, const char *value), void *ud)
{
    const struct http_route *route = exchange_route(call);
    bool is_taken = true;

    if (call->type[0] != '\0')
        is_taken = take(ud, "Content-Type", call->type);
    is_taken = is_taken && take(ud, "X-Request-Id", call->id);
    if (route != NULL && route->id_header != NULL)
        is_taken = is_taken && take(ud, route->id_header, call->id);
    for (size_t i = 0; i < call->n_headers; i++)
        is_taken = is_taken && take(ud, call->headers[i].name, call->headers[i].value);
    if (call->closes || call->http->is_draining)
        is_taken = is_taken && take(ud, "Connection", "close");
    return is_taken;
}

static bool add_to_response(void *response, const char *name, const char *value)
{
    /* An empty value is left out: libmicrohttpd refuses it, and no client needs it. */
    return value[0] == '\0' || MHD_add_response_header(response, name, value) == MHD_YES;
}

int answer_queue(struct MHD_Connection *c, struct http_call *call, MHD_ContentReaderCallback read,
                 void *ud)
{
    struct MHD_Response *response = make_response(call, read, ud);
    bool is_queued;

    if (response == NULL)
        return ERR_NOMEM;
    is_queued = each_header(call, add_to_response, response) &&
                MHD_queue_response(c, (unsigned)call->status, response) == MHD_YES;
    MHD_destroy_response(response); /* the connection holds a reference of its own to it */
    call->has_head_sent = is_queued;
    return is_queued ? 0 : ERR_NOMEM;
}

/* ---- answers without libmicrohttpd ---- */

static bool add_to_text(void *text, const char *name, const char *value)
{
    return buf_printf(text, "%s: %s\r\n", name, value) == 0;
}

/* Add the header Date. strftime's names are those of the C locale, which is never changed. */
static void add_date(struct buf *text)
{
    const time_t now = time(NULL);
    char date[64];
    struct tm t;

    if (gmtime_r(&now, &t) != NULL &&
        strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &t) > 0)
        add_to_text(text, "Date", date);
}

static void write_text(struct MHD_Connection *c, int fd, const struct buf *text)
{
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (tls != NULL && tls->tls_session != NULL) {
        if (gnutls_record_send(tls->tls_session, text->data, text->len) > 0)
            gnutls_bye(tls->tls_session, GNUTLS_SHUT_WR);
    } else {
        (void)!send(fd, text->data, text->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void answer_write_now(struct MHD_Connection *c, int fd, struct http_call *call)
{
    struct buf text;

    call->closes = true;
    buf_init(&text, HTTP_MAX_REPLY);
    buf_printf(&text, "HTTP/1.1 %d %s\r\n", call->status,
               MHD_get_reason_phrase_for((unsigned)call->status));
    add_date(&text);
    each_header(call, add_to_text, &text);
    buf_printf(&text, "Content-Length: %zu\r\n\r\n", call->out.len);
    if (!call->is_head)
        buf_add(&text, call->out.data, call->out.len);
    if (text.err == 0)
        write_text(c, fd, &text);
    call->has_head_sent = true;
    call->n_sent = call->is_head ? 0 : call->out.len;
    call->out_pos = call->out.len;
    buf_release(&text);
}
