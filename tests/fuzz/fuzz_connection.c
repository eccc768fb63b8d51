/* tests/fuzz/fuzz_connection.c - libFuzzer: any bytes over a connection to the whole HTTP side, in
 * this process.
 *
 * The statuses of the answers must not depend on how the bytes are cut; no more requests are
 * handled than the parser sees complete ones in the text; the connection ends when the client does,
 * and leaves nothing behind.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/log.h"
#include "server/http/http.h"
#include "tests/fuzz/target.h"
#include "tests/unit/server/http_transcript.h"

#define MAX_REQUESTS 256
#define MAX_TURNS 20000

struct side { /* the server, and what it has done */
    uv_loop_t loop;
    struct http *http;
    struct sockaddr_un place;
    uint32_t n_handled, n_done;
    uv_timer_t pause; /* runs while */
    struct http_call *paused;
};

static struct side side; /* one for all inputs */

/* ---- the server ---- */

static void on_request(void *ud, struct http_call *call)
{
    struct side *s = ud;
    struct buf body;

    s->n_handled++;
    buf_init(&body, 1 << 20);
    buf_printf(&body, "%zu %d", http_call_body(call)->len, http_call_query(call, "a") != NULL);
    http_call_reply(call, 200, "text/plain", &body);
}

static void on_stream(void *ud, struct http_call *call)
{
    struct side *s = ud;

    s->n_handled++;
    http_call_stream(call, "text/plain");
    http_call_write(call, "a", 1);
    http_call_end(call);
}

/* A body that comes piece by piece: each is taken in a later turn. */
static void on_pause_over(uv_timer_t *pause)
{
    struct side *s = pause->data;
    struct http_call *call = s->paused;

    s->paused = NULL;
    if (call != NULL)
        http_call_resume(call);
}

static void on_gone(void *ud)
{
    ((struct side *)ud)->paused = NULL;
}

static void on_piece(void *ud, struct http_call *call)
{
    struct side *s = ud;
    struct buf piece = http_call_take_body(call);

    require(s->paused == NULL && piece.len > 0);
    buf_release(&piece);
    http_call_on_gone(call, on_gone, s);
    http_call_pause(call);
    s->paused = call;
    uv_timer_start(&s->pause, on_pause_over, 0, 0);
}

static int on_admit(void *ud, struct http_call *call, unsigned flags)
{
    (void)ud, (void)call, (void)flags;
    return 0;
}

static void on_done(void *ud, size_t route, int status)
{
    (void)route, (void)status;
    ((struct side *)ud)->n_done++;
}

static void remove_place(void)
{
    unlink(side.place.sun_path);
}

static void begin(struct side *s)
{
    static const struct http_route routes[] = {
        {.path = "/health",
         .methods = HTTP_GET,
         .handle = on_request,
         .also = "/v1/health /ready"},
        {.path = "/tokenize", .methods = HTTP_POST, .handle = on_request, .also = ""},
        {.path = "/c", .methods = HTTP_POST, .handle = on_stream},
        {.path = "/ping",
         .methods = HTTP_GET | HTTP_POST,
         .handle = on_request,
         .max_body = 1024},
        {.path = "/up",
         .methods = HTTP_POST,
         .handle = on_request,
         .takes_any_type = true,
         .receive = on_piece},
    };
    struct http_options o = {
        .loop = &s->loop, .host = "", .unix_mode = 0600, .max_body = 2048, .max_connections = 8,
        .header_timeout_s = 60, .idle_timeout_s = 60, .routes = routes, .n_routes = 5,
        .max_upload = 4096,
        .allowed_hosts = "", .trusted_proxies = "unix", .tenant_header = "X-Tenant",
        .cors_origins = "https://a.example", .ud = s, .admit = on_admit, .done = on_done,
    };
    char err[200];

    log_setup(LOG_OFF, false, 2);
    s->place.sun_family = AF_UNIX;
    snprintf(s->place.sun_path, sizeof(s->place.sun_path), "/tmp/fuzz-connection-%d", getpid());
    o.unix_path = s->place.sun_path;
    require(uv_loop_init(&s->loop) == 0 && uv_timer_init(&s->loop, &s->pause) == 0);
    s->pause.data = s;
    require(http_create(&s->http, &o, err, sizeof(err)) == 0);
    http_start(s->http);
    require(atexit(remove_place) == 0);
}

/* ---- the client ---- */

static void read_answers(int fd, struct buf *out, bool *has_ended)
{
    char bytes[4096];
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        require(buf_add(out, bytes, (size_t)n) == 0);
    *has_ended = n == 0 || (errno != EAGAIN && errno != EINTR);
}

static void turn(struct side *s, int fd, struct buf *out, bool *has_ended)
{
    uv_run(&s->loop, UV_RUN_NOWAIT);
    read_answers(fd, out, has_ended);
}

static void converse(struct side *s, const char *bytes, size_t n,
                     size_t (*cut)(void *ud, size_t at), void *ud, struct buf *out)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_ended = false;
    size_t at = 0, to = 0;

    require(fd >= 0 && connect(fd, (const struct sockaddr *)&s->place, sizeof(s->place)) == 0);
    for (int i = 0; at < n && !has_ended; i++) {
        require(i < MAX_TURNS);
        if (at == to)
            to = cut != NULL && cut(ud, at) < n - at ? at + cut(ud, at) : n;
        const ssize_t sent = send(fd, bytes + at, to - at, MSG_DONTWAIT | MSG_NOSIGNAL);

        at += sent > 0 ? (size_t)sent : 0;
        turn(s, fd, out, &has_ended);
    }
    shutdown(fd, SHUT_WR);
    for (int i = 0; !has_ended || http_n_connections(s->http) > 0; i++) {
        require(i < MAX_TURNS);
        turn(s, fd, out, &has_ended);
    }
    close(fd);
}

/* The statuses, one after the other: nothing that is echoed has blanks, and no body has digits
 * behind the protocol's name. */
static void read_statuses(const struct buf *raw, struct buf *out)
{
    const char *at = raw->data;

    while (at != NULL && (at = strstr(at, "HTTP/1.1 ")) != NULL) {
        at += strlen("HTTP/1.1 ");
        if (strspn(at, "0123456789") == 3 && at[3] == ' ')
            buf_add(out, at, 4);
    }
}

static size_t cut_by_seed(void *ud, size_t at)
{
    const uint64_t x = (*(uint64_t *)ud + at) * 6364136223846793005u;

    return 1 + (x >> 33) % ((x >> 58) + 1);
}

static void statuses_of(struct side *s, const uint8_t *data, size_t n, uint64_t *seed,
                        struct buf *out)
{
    struct buf raw;

    buf_init(&raw, TRANSCRIPT_MAX);
    buf_init(out, TRANSCRIPT_MAX);
    converse(s, (const char *)data, n, seed != NULL ? cut_by_seed : NULL, seed, &raw);
    read_statuses(&raw, out);
    buf_release(&raw);
}

static size_t n_complete(const uint8_t *data, size_t n)
{
    size_t ends[MAX_REQUESTS], n_ends = 0;
    struct buf text;

    buf_init(&text, TRANSCRIPT_MAX);
    transcribe((const char *)data, n, NULL, NULL, &text, ends, &n_ends, MAX_REQUESTS);
    buf_release(&text);
    return n_ends;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct buf whole, cut;
    uint64_t seed = n;

    if (n > 8192)
        return 0;
    if (side.http == NULL)
        begin(&side);
    side.n_handled = side.n_done = 0;
    statuses_of(&side, data, n, NULL, &whole);
    require(side.n_handled <= n_complete(data, n) && side.n_done <= n_complete(data, n) + 1);
    require(side.n_handled <= side.n_done);
    statuses_of(&side, data, n, &seed, &cut);
    require(whole.len == cut.len && (whole.len == 0 || memcmp(whole.data, cut.data, cut.len) == 0));
    buf_release(&whole);
    buf_release(&cut);
    return 0;
}
