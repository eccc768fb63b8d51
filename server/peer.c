/* server/peer.c - see peer.h. */
#include "server/peer.h"

#include "core/base/mem.h"
#include "server/call.h"
#include "server/tls.h"

#include <sys/socket.h>

/* Wakes MHD up for one more read, which gives what is left and then the end. */
static void nudge(const struct peer *p)
{
    shutdown(p->fd, SHUT_RD);
}

static void on_end(uv_poll_t *poll, int status, int events)
{
    struct peer *p = poll->data;
    struct http *h = p->http;

    if (status == 0 && (events & UV_DISCONNECT) == 0)
        return;
    uv_poll_stop(poll); /* it is level-triggered and would fire for ever */
    p->has_ended = true;
    if (p->call == NULL || p->call->state == CALL_RECEIVING) {
        nudge(p);
        return;
    }
    if (p->call->state == CALL_REPLIED || p->call->state == CALL_ENDED)
        return; /* the answer is complete: a client that only half-closed may have it */
    call_lose(p->call);
    http_kick(h);
}

struct peer *peer_open(struct http *h, uv_loop_t *loop, int fd)
{
    struct peer *p = mem_calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    if (uv_poll_init(loop, &p->poll, fd) != 0) {
        mem_free(p);
        return NULL;
    }
    p->poll.data = p;
    p->http = h;
    p->fd = fd;
    uv_poll_start(&p->poll, UV_DISCONNECT, on_end);
    return p;
}

static void on_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

void peer_close(struct peer *p)
{
    if (p == NULL)
        return;
    tls_end(p->credentials);
    uv_close((uv_handle_t *)&p->poll, on_closed);
}

void peer_forget_call(struct peer *p)
{
    if (p == NULL)
        return;
    p->call = NULL;
    if (p->has_ended)
        nudge(p);
}
