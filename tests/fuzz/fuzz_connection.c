/* tests/fuzz/fuzz_connection.c - libFuzzer: any bytes over a connection to the whole HTTP side,
 * libmicrohttpd with it, in this process.
 *
 * A request that is handled must be the one that a second reader (http_reader.h) sees at its place
 * in the text: with its method, its fields and its body, and complete in the bytes that have been
 * sent by then. The statuses of the answers must not depend on how the bytes are cut; but whether
 * libmicrohttpd refuses with one what is no request, or only closes, does: it closes where it finds
 * a byte that cannot be, and answers 400 where a line that is cut has already become too long. A
 * client that half-closes at once behind its last byte may get fewer answers, and no others. The
 * connection ends when the client half-closes, and leaves nothing behind.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/log.h"
#include "server/http/body_decoder.h"
#include "server/http/exchange.h"
#include "server/http/http.h"
#include "tests/fuzz/http_reader.h"
#include "tests/fuzz/target.h"

#define MAX_TEXT ((size_t)8 << 10)
#define MAX_DECODED ((size_t)64 << 10) /* more than the server takes of a body */
#define MAX_ANSWERS ((size_t)16 << 20)
#define LARGE_ANSWER 20000 /* bytes, which are sent block by block (answer.h) */
#define MAX_TURNS 20000
#define QUIET_TURNS 3 /* what one turn leaves to the next may go from one to another twice */

struct side { /* the server, and what it has done */
    uv_loop_t loop;
    struct http *http;
    struct sockaddr_un place;
    uint32_t n_handled, n_done; /* requests of the connection */
    uv_timer_t pause;           /* runs while */
    struct http_call *paused;
    const char *sent, *sent_end; /* what the client has sent from the begin of a request on */
    uint32_t n_read;             /* requests before it */
    struct read_request request; /* the one that it begins with */
    struct buf body; /* decoded */
    size_t n_taken; /* bytes of the body of the request under way */
};

struct delivery { /* of a client's bytes */
    const char *text;
    size_t n;
    uint64_t seed; /* of where it is cut: */
    bool is_cut;
    bool is_hasty; /* the client half-closes at once behind its last byte */
};

static struct side side; /* one for all inputs */

/* ---- the second reader ---- */

/* The encoding of the body, or NULL: it has none that the server decodes. */
static const struct body_encoding *encoding_of(const struct read_request *r)
{
    struct read_text value;
    char name[16] = "";

    if (!read_text_is(r->method, "POST") || !read_value(r, "Content-Encoding", &value) ||
        value.at == NULL || value.n >= sizeof(name))
        return NULL;
    memcpy(name, value.at, value.n);
    return body_encoding_find(name);
}

/* Replace a compressed body by what it becomes, as far as it can be decoded. True: it is whole. */
static bool decode_body(const struct body_encoding *e, struct buf *body)
{
    struct body_decoder *d = body_decoder_create(e);
    const char *at = body->data, *end = at + body->len;
    struct buf out;
    int rc;

    buf_init(&out, MAX_DECODED);
    require(d != NULL && buf_reserve(&out, MAX_DECODED) == 0);
    rc = body_decoder_read(d, &at, end, out.data, MAX_DECODED, &out.len);
    if (rc == 0)
        rc = body_decoder_end(d);
    body_decoder_destroy(d);
    buf_release(body);
    *body = out;
    return rc == 0;
}

/* Move to the request that the server is at. True: it is complete, with all that has been sent. */
static bool read_on(struct side *s)
{
    const struct body_encoding *e;
    const char *at = s->sent;
    bool is_whole;

    for (; s->n_read < s->n_done; s->n_read++) {
        require(read_head(&s->request, &at, s->sent_end));
        require(read_body(&s->request, &at, s->sent_end, &s->body));
        s->sent = at;
    }
    require(read_head(&s->request, &at, s->sent_end));
    is_whole = read_body(&s->request, &at, s->sent_end, &s->body);
    e = encoding_of(&s->request);
    return (e == NULL || s->body.len == 0 || decode_body(e, &s->body)) && is_whole;
}

static void check_head(const struct read_request *seen, const struct http_request *r)
{
    require(read_text_is(seen->method, r->method));
    require(seen->n_fields == r->n_fields);
    for (size_t i = 0; i < r->n_fields; i++) {
        require(read_text_is(seen->fields[i].name, r->fields[i].name));
        require(read_text_is(seen->fields[i].value, r->fields[i].value));
    }
}

/* The next bytes of a body. */
static void check_piece(struct side *s, const struct buf *piece)
{
    require(piece->len <= s->body.len - s->n_taken);
    require(piece->len == 0 || memcmp(piece->data, s->body.data + s->n_taken, piece->len) == 0);
    s->n_taken += piece->len;
}

static void check_request(struct side *s, struct http_call *call)
{
    s->n_handled++;
    require(read_on(s));
    check_head(&s->request, &call->request);
    check_piece(s, http_call_body(call));
    require(s->n_taken == (http_call_is(call, HTTP_POST) ? s->body.len : 0));
}

/* ---- the server ---- */

static void on_request(void *ud, struct http_call *call)
{
    const int width = http_call_query(call, "a") != NULL ? LARGE_ANSWER : 0;
    struct buf body;

    check_request(ud, call);
    buf_init(&body, 1 << 20);
    buf_printf(&body, "%*zu", width, http_call_body(call)->len);
    http_call_reply(call, 200, "text/plain", &body);
}

static void on_stream(void *ud, struct http_call *call)
{
    check_request(ud, call);
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
    read_on(s);
    check_head(&s->request, &call->request);
    check_piece(s, &piece);
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
    struct side *s = ud;

    (void)route, (void)status;
    s->n_done++;
    s->n_taken = 0;
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
    buf_init(&s->body, MAX_TEXT);
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

static bool would_sleep(const struct side *s)
{
    struct pollfd events = {.fd = uv_backend_fd(&s->loop), .events = POLLIN};

    return uv_backend_timeout(&s->loop) != 0 && poll(&events, 1, 0) == 0;
}

/* Until the server waits for its client. */
static void turn_until_quiet(struct side *s, int fd, struct buf *out, bool *has_ended)
{
    int n_quiet = 0;

    for (int i = 0; n_quiet < QUIET_TURNS && !*has_ended; i++) {
        require(i < MAX_TURNS);
        turn(s, fd, out, has_ended);
        n_quiet = would_sleep(s) ? n_quiet + 1 : 0;
    }
}

static size_t piece_length(const struct delivery *d, size_t at)
{
    const uint64_t x = (d->seed + at) * 6364136223846793005u;

    return d->is_cut ? 1 + (x >> 33) % ((x >> 58) + 1) : MAX_TEXT;
}

static void send_text(struct side *s, int fd, const struct delivery *d, struct buf *out)
{
    bool has_ended = false;

    for (size_t at = 0; at < d->n && !has_ended;) {
        const size_t left = d->n - at, max = piece_length(d, at), n = max < left ? max : left;
        const ssize_t sent = send(fd, d->text + at, n, MSG_DONTWAIT | MSG_NOSIGNAL);

        require(sent < 0 || (size_t)sent == n); /* a socket takes MAX_TEXT at once */
        at += n;
        s->sent_end = d->text + at;
        if (at < d->n || !d->is_hasty)
            turn(s, fd, out, &has_ended);
    }
    if (!d->is_hasty)
        turn_until_quiet(s, fd, out, &has_ended);
}

static void converse(struct side *s, const struct delivery *d, struct buf *out)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_ended = false;

    s->n_handled = s->n_done = s->n_read = 0;
    s->sent = s->sent_end = d->text;
    require(fd >= 0 && connect(fd, (const struct sockaddr *)&s->place, sizeof(s->place)) == 0);
    turn_until_quiet(s, fd, out, &has_ended);
    send_text(s, fd, d, out);
    shutdown(fd, SHUT_WR);
    turn_until_quiet(s, fd, out, &has_ended);
    require(has_ended);
    close(fd);
    for (int i = 0; http_n_connections(s->http) > 0; i++) {
        require(i < MAX_TURNS);
        uv_run(&s->loop, UV_RUN_NOWAIT);
    }
    require(http_n_owed(s->http) == 0 && s->paused == NULL && s->n_handled <= s->n_done);
}

static bool has_id(const char *head)
{
    const char *id = strstr(head, "X-Request-Id:"), *end = strstr(head, "\r\n\r\n");

    return id != NULL && end != NULL && id < end;
}

/* The statuses of the server's answers, one after the other: nothing that is echoed has blanks, and
 * no body has digits behind the protocol's name. libmicrohttpd's own have no id: 100 (Continue),
 * and refusals, of which one ends a connection. */
static void read_statuses(const struct buf *raw, struct buf *out)
{
    const char *at = raw->data;
    bool is_refused = false;

    while (at != NULL && (at = strstr(at, "HTTP/1.1 ")) != NULL) {
        at += strlen("HTTP/1.1 ");
        if (strspn(at, "0123456789") != 3 || at[3] != ' ')
            continue;
        require(!is_refused);
        if (has_id(at))
            buf_add(out, at, 4);
        else
            is_refused = at[0] >= '4';
    }
}

static bool has_zstd(const struct delivery *d)
{
    for (size_t i = 0; i + 4 <= d->n; i++)
        if (strncasecmp(d->text + i, "zstd", 4) == 0)
            return true;
    return false;
}

/* A zstd body that is damaged and too large gets 400 or 413: it depends on how it is cut whether
 * libzstd writes the bytes before the damage. */
static void forget_413(struct buf *statuses)
{
    for (size_t i = 0; i < statuses->len; i += 4)
        if (memcmp(statuses->data + i, "413", 3) == 0)
            memcpy(statuses->data + i, "400", 3);
}

static void statuses_of(struct side *s, const struct delivery *d, struct buf *out)
{
    struct buf raw;

    buf_init(&raw, MAX_ANSWERS);
    buf_init(out, MAX_ANSWERS);
    converse(s, d, &raw);
    read_statuses(&raw, out);
    if (has_zstd(d))
        forget_413(out);
    buf_release(&raw);
}

static bool begins_with(const struct buf *all, const struct buf *begin)
{
    return begin->len <= all->len &&
           (begin->len == 0 || memcmp(all->data, begin->data, begin->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct delivery d = {.text = (const char *)data, .n = n, .seed = n};
    struct buf whole, cut, hasty;

    if (n > MAX_TEXT)
        return 0;
    if (side.http == NULL)
        begin(&side);
    statuses_of(&side, &d, &whole);
    d.is_cut = true;
    statuses_of(&side, &d, &cut);
    require(whole.len == cut.len && begins_with(&whole, &cut));
    d.is_hasty = true;
    statuses_of(&side, &d, &hasty);
    require(begins_with(&whole, &hasty));
    buf_release(&whole);
    buf_release(&cut);
    buf_release(&hasty);
    return 0;
}
