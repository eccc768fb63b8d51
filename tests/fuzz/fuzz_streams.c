/* tests/fuzz/fuzz_streams.c - libFuzzer: kept streams of any sizes, and any requests to the
 * endpoints that read, end and look them up, over a connection in this process.
 *
 * The input begins with steps that make streams and write to them; a zero byte ends them, and what
 * follows are the client's bytes. While they are served, a stream that has not ended gets another
 * frame in each turn of the loop, and ends after some. Everything that streams hold is given back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/log.h"
#include "server/api/body_job.h"
#include "server/api/server_options.h"
#include "server/api/stream_call.h"
#include "server/http/http.h"
#include "server/http/http_call.h"
#include "server/storage/stream_store.h"
#include "tests/fuzz/target.h"

#define N_STREAMS 4
#define MAX_TURNS 20000
#define N_LATE_FRAMES 50

struct side { /* the server, one for all inputs */
    uv_loop_t loop;
    struct http *http;
    struct worker_pool *pool;
    struct request_memory memory;
    struct body_jobs jobs;
    struct server_options options;
    struct stream_store *store;
    struct kept_stream *streams[N_STREAMS]; /* NULL: there is none, or it has ended */
    uint32_t n_late;                        /* frames that came while clients were served */
    struct sockaddr_un place;
};

static struct side side;

/* ---- the server ---- */

static void on_lookup(void *ud, struct http_call *call)
{
    struct side *s = ud;

    stream_call_look_up(s->store, &s->options, &s->jobs, call);
}

static void on_stream(void *ud, struct http_call *call)
{
    struct side *s = ud;

    stream_call_one(s->store, NULL, &s->options, call);
}

static void on_conversation(void *ud, struct http_call *call)
{
    struct side *s = ud;

    stream_call_conversation(s->store, NULL, &s->options, call);
}

static int on_admit(void *ud, struct http_call *call, unsigned flags)
{
    (void)ud, (void)call, (void)flags;
    return 0;
}

static void on_done(void *ud, size_t route, int status)
{
    (void)ud, (void)route, (void)status;
}

static void remove_place(void)
{
    unlink(side.place.sun_path);
}

static void begin_http(struct side *s)
{
    static const struct http_route routes[] = {
        {.path = "/v1/streams/lookup",
         .methods = HTTP_POST,
         .handle = on_lookup,
         .max_body = STREAM_CALL_MAX_BODY},
        {.path = "/v1/streams/*", .methods = HTTP_GET | HTTP_DELETE, .handle = on_stream},
        {.path = "/v1/stream", .methods = HTTP_GET | HTTP_DELETE, .handle = on_conversation},
    };
    struct http_options o = {
        .loop = &s->loop, .host = "", .unix_mode = 0600, .max_body = 4096, .max_connections = 8,
        .header_timeout_s = 60, .idle_timeout_s = 60, .routes = routes, .n_routes = 3,
        .allowed_hosts = "", .trusted_proxies = "", .tenant_header = "", .cors_origins = "",
        .ud = s, .admit = on_admit, .done = on_done,
    };
    char err[200];

    s->place.sun_family = AF_UNIX;
    snprintf(s->place.sun_path, sizeof(s->place.sun_path), "/tmp/fuzz-streams-%d", getpid());
    o.unix_path = s->place.sun_path;
    require(http_create(&s->http, &o, err, sizeof(err)) == 0);
    http_start(s->http);
    require(atexit(remove_place) == 0);
}

static void begin(struct side *s)
{
    const struct worker_pool_options pool = {&s->loop, 1, 8};
    const struct stream_store_options store = {&s->loop, 600000, (uint64_t)96 << 10,
                                               (uint64_t)256 << 10};

    log_setup(LOG_OFF, false, 2);
    require(uv_loop_init(&s->loop) == 0);
    require(worker_pool_create(&s->pool, &pool) == 0);
    require(stream_store_open(&s->store, &store) == 0);
    s->memory.max = UINT64_MAX;
    s->jobs = (struct body_jobs){.pool = s->pool, .memory = &s->memory};
    s->options.tenant_header = "";
    s->options.stream_keep_ms = store.keep_ms;
    begin_http(s);
}

/* ---- the streams ---- */

static void on_stop(void *ud)
{
    *(struct kept_stream **)ud = NULL;
}

static void add_stream(struct side *s, uint32_t i, uint8_t flags)
{
    char id[8], conversation[8] = "";

    if (s->streams[i] != NULL)
        return;
    snprintf(id, sizeof(id), "s%u", i);
    if ((flags & 1) != 0)
        snprintf(conversation, sizeof(conversation), "c%u", i % 2);
    const struct stream_start start = {.owner = "",
                                       .id = id,
                                       .conversation = conversation,
                                       .type = "text/event-stream",
                                       .is_lines = (flags & 2) != 0,
                                       .is_alone = (flags & 4) != 0,
                                       .is_restored = (flags & 8) != 0,
                                       .first_frame = (flags & 16) != 0 ? 3 : 0,
                                       .stop = on_stop,
                                       .ud = &s->streams[i]};
    (void)stream_store_add(&s->streams[i], s->store, &start);
}

/* A frame of n bytes and its end, which is that of either kind. */
static void write_frame(struct side *s, uint32_t i, size_t n)
{
    char frame[4098];

    if (s->streams[i] == NULL)
        return;
    memset(frame, 'a', n);
    memcpy(frame + n, "\n\n", 2);
    kept_stream_write(s->streams[i], frame, n + 2, 1);
}

static void end_stream(struct side *s, uint32_t i)
{
    if (s->streams[i] != NULL)
        kept_stream_end(s->streams[i]);
    s->streams[i] = NULL;
}

/* Steps of two bytes each, up to a zero byte. How many bytes they are. */
static size_t make_streams(struct side *s, const uint8_t *data, size_t n)
{
    size_t at = 0;

    for (; at + 1 < n && data[at] != 0; at += 2) {
        const uint32_t i = data[at] % N_STREAMS;

        if (data[at] < 64)
            add_stream(s, i, data[at + 1]);
        else if (data[at] < 224)
            write_frame(s, i, (size_t)data[at + 1] * 16);
        else
            end_stream(s, i);
    }
    return at < n ? at + 1 : n;
}

static void write_late(struct side *s)
{
    for (uint32_t i = 0; i < N_STREAMS; i++) {
        write_frame(s, i, s->n_late * 7 % 100);
        if (s->n_late >= N_LATE_FRAMES)
            end_stream(s, i);
    }
    s->n_late++;
}

static void drop_streams(struct side *s)
{
    for (uint32_t i = 0; i < N_STREAMS; i++) {
        struct kept_stream *k;
        char id[8];

        snprintf(id, sizeof(id), "s%u", i);
        while ((k = stream_store_find(s->store, "", id)) != NULL)
            kept_stream_drop(k);
    }
    require(stream_store_counts(s->store).bytes == 0);
    require(stream_store_counts(s->store).n_running == 0);
    require(stream_store_counts(s->store).n_ended == 0);
}

/* ---- the client ---- */

static void turn(struct side *s, int fd, bool *has_ended)
{
    char bytes[4096];
    ssize_t n;

    uv_run(&s->loop, s->jobs.n > 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    write_late(s);
    while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        ;
    *has_ended = n == 0 || (errno != EAGAIN && errno != EINTR);
}

static void converse(struct side *s, const uint8_t *bytes, size_t n)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_ended = false;
    size_t at = 0;

    require(fd >= 0 && connect(fd, (const struct sockaddr *)&s->place, sizeof(s->place)) == 0);
    for (int i = 0; at < n && !has_ended; i++) {
        const ssize_t sent = send(fd, bytes + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);

        require(i < MAX_TURNS);
        at += sent > 0 ? (size_t)sent : 0;
        turn(s, fd, &has_ended);
    }
    for (int i = 0; !has_ended && i < N_LATE_FRAMES + 10; i++) /* what it asked for has an end */
        turn(s, fd, &has_ended);
    shutdown(fd, SHUT_WR);
    for (int i = 0; !has_ended || http_n_connections(s->http) > 0 || s->jobs.n > 0; i++) {
        require(i < MAX_TURNS);
        turn(s, fd, &has_ended);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t at;

    if (n > 8192)
        return 0;
    if (side.http == NULL)
        begin(&side);
    side.n_late = 0;
    at = make_streams(&side, data, n);
    converse(&side, data + at, n - at);
    drop_streams(&side);
    require(side.memory.used == 0);
    return 0;
}
