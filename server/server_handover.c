/* server/server_handover.c - takes and passes on the listening sockets; see process/handover.h. The
 * sockets belong to this process alone or to systemd, or an old process passes them to this one,
 * and this one to a new one. A new process takes the sockets before it loads its models and accepts
 * only when it is ready, so that no client is refused. A process that has handed its sockets over
 * serves the connections that it has: each answer is its connection's last. It ends when none are
 * left, or when drain_ms are over.
 */
#include "server/server_impl.h"

#include "core/base/clock.h"
#include "core/base/log.h"

static bool has_path(const struct server *s)
{
    return s->opt.handover_socket != NULL && s->opt.handover_socket[0] != '\0';
}

int server_take_sockets(struct server *s, char *err, size_t err_len)
{
    s->sockets = s->opt.sockets;
    if (s->sockets.tcp >= 0 || s->sockets.local >= 0) {
        s->sockets_stay = true;
        return 0;
    }
    if (!has_path(s))
        return 0;
    s->has_handover = true;
    return handover_open(&s->handover, s->opt.handover_socket, &s->sockets, err, err_len);
}

bool server_takes_over(const struct server *s)
{
    return !s->sockets_stay && (s->sockets.tcp >= 0 || s->sockets.local >= 0);
}

/* Called when a new process accepts clients: stop listening and drain. */
static void on_handed(void *ud)
{
    struct server *s = ud;

    log_info("server", "event=handed_over connections=%u", http_n_connections(s->http));
    s->is_handed = true;
    s->drain_us = clock_us();
    handover_leave(&s->handover);
    s->has_handover = false;
    http_stop_listening(s->http);
    http_drain(s->http);
    server_put_off_requests(s); /* the new process continues these requests */
    server_begin_ticks(s);
}

void server_serve(struct server *s)
{
    const struct handover_options o = {.loop = &s->loop,
                                       .path = s->opt.handover_socket,
                                       .sockets = http_listening(s->http),
                                       .handed = on_handed,
                                       .ud = s};

    http_start(s->http);
    if (s->has_handover)
        handover_ready(&s->handover, &o);
}

void server_end_handover(struct server *s)
{
    if (s->has_handover)
        handover_close(&s->handover);
    s->has_handover = false;
}

bool server_has_handed_over(const struct server *s)
{
    return s->is_handed && http_n_connections(s->http) == 0;
}

bool server_drain_is_over(const struct server *s)
{
    return s->opt.drain_ms > 0 && s->drain_us > 0 && s->stopped_us == 0 &&
           clock_us() - s->drain_us >= (uint64_t)s->opt.drain_ms * 1000;
}
