/* tests/unit/server/test_encoded_body.c - what an exchange decodes of a body in one turn of the
 * loop, and what it counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/http/body_decoder.h"
#include "server/http/exchange.h"

#define MAX_BODY ((size_t)8 << 20)
#define MAX_UPLOAD ((size_t)4 << 20)
#define BOMB ((size_t)6 << 20)     /* bytes that the bodies become */
#define A_TURN ((size_t)256 << 10) /* most of them in one turn */

struct world {
    uv_loop_t loop;
    struct http_shared http;
    int64_t held;    /* bytes that are counted */
    int64_t max;     /* of them */
    size_t n_piece;  /* bytes that the route has received */
    size_t n_pieces; /* calls of the route */
    bool pauses;
};

static bool on_hold(void *ud, int64_t bytes, bool may_refuse)
{
    struct world *w = ud;

    if (may_refuse && w->held + bytes > w->max)
        return false;
    w->held += bytes;
    assert_true(w->held >= 0);
    return true;
}

static void on_call(void *ud, struct http_call *call)
{
    struct buf none = {0};

    (void)ud;
    http_call_reply(call, 200, "", &none);
}

static void on_piece(void *ud, struct http_call *call)
{
    struct world *w = ud;
    struct buf piece = http_call_take_body(call);

    assert_true(piece.len > 0 && piece.len <= A_TURN);
    w->n_piece += piece.len;
    w->n_pieces++;
    buf_release(&piece);
    if (w->pauses)
        http_call_pause(call);
}

static void on_done(void *ud, size_t route, int status)
{
    (void)ud, (void)route, (void)status;
}

static void on_wake(void *client)
{
    (void)client;
}

static const struct http_route routes[] = {
    {.path = "/whole", .methods = HTTP_POST, .handle = on_call},
    {.path = "/pieces", .methods = HTTP_POST, .handle = on_call, .receive = on_piece},
};

static struct http_call *begin(struct world *w, size_t route, const char *encoding)
{
    const struct http_request request = {.method = "POST", .keeps_alive = true};
    struct http_call *c;

    memset(w, 0, sizeof(*w));
    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->max = INT64_MAX;
    w->http.opt = (struct http_options){.loop = &w->loop,
                                        .max_body = MAX_BODY,
                                        .max_upload = MAX_UPLOAD,
                                        .tenant_header = "",
                                        .cors_origins = "",
                                        .routes = routes,
                                        .n_routes = sizeof(routes) / sizeof(routes[0]),
                                        .ud = w,
                                        .hold = on_hold,
                                        .done = on_done};
    c = exchange_create(&w->http, NULL, on_wake, &request);
    assert_non_null(c);
    c->route = route;
    c->encoding = body_encoding_find(encoding);
    return c;
}

static void end(struct world *w, struct http_call *c)
{
    exchange_end(c);
    assert_int_equal(w->held, 0);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

/* `n` zeros, compressed. */
static struct buf zeros(size_t n)
{
    z_stream z = {0};
    struct buf out;
    void *bytes = mem_calloc(1, n);

    assert_non_null(bytes);
    assert_int_equal(deflateInit(&z, 9), Z_OK);
    buf_init(&out, 2 * n + 1000);
    assert_int_equal(buf_reserve(&out, deflateBound(&z, n)), 0);
    z.next_in = bytes;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out.data;
    z.avail_out = (uInt)out.cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.len = z.total_out;
    deflateEnd(&z);
    mem_free(bytes);
    return out;
}

/* The turns that the whole body takes; each decodes little. The exchange may refuse it. */
static size_t pass(struct http_call *c, const struct buf *body)
{
    size_t turns = 0, left = body->len;

    do {
        const uint64_t before = c->n_body;
        const size_t at = body->len - left;

        if (left > 0)
            assert_int_equal(exchange_receive(c, body->data + at, &left), 0);
        else
            exchange_finish_body(c);
        assert_true(c->n_body - before <= A_TURN);
        assert_true(left == 0 || c->has_more);
        c->is_paused = false;
        turns++;
    } while (left > 0 || c->has_more || c->encoding != NULL);
    return turns;
}

static void test_a_turn_decodes_little(void **state)
{
    struct buf body = zeros(BOMB);
    struct http_call *c;
    struct world w;

    (void)state;
    assert_true(body.len < 10000);
    c = begin(&w, 0, "deflate");
    assert_true(pass(c, &body) >= BOMB / A_TURN);
    assert_int_equal(c->state, CALL_RECEIVING);
    assert_int_equal(http_call_body(c)->len, BOMB);
    assert_int_equal(c->n_received, body.len);
    assert_int_equal(w.held, BOMB); /* the decoder is gone */
    exchange_dispatch(c);
    assert_int_equal(c->status, 200);
    end(&w, c);
    buf_release(&body);
}

static void test_pieces(void **state)
{
    struct buf body = zeros(MAX_UPLOAD);
    struct http_call *c;
    struct world w;

    (void)state;
    for (int i = 0; i < 2; i++) {
        c = begin(&w, 1, "deflate");
        w.pauses = i == 1;
        pass(c, &body);
        assert_int_equal(c->state, CALL_RECEIVING);
        assert_int_equal(w.n_piece, MAX_UPLOAD);
        assert_int_equal(w.n_pieces, MAX_UPLOAD / A_TURN);
        end(&w, c);
    }
    buf_release(&body);
}

static void test_too_large(void **state)
{
    static const size_t limits[] = {MAX_BODY, MAX_UPLOAD};
    struct http_call *c;
    struct world w;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct buf body = zeros(limits[i] + 1);

        c = begin(&w, i, "deflate");
        pass(c, &body);
        assert_int_equal(c->status, 413);
        assert_null(c->decoder);
        end(&w, c);
        buf_release(&body);
    }
}

static void test_request_memory(void **state)
{
    struct buf body = zeros(BOMB);
    struct http_call *c;
    struct world w;

    (void)state;
    for (int64_t max = 0; max <= (int64_t)BOMB + 60000; max += 50000) {
        c = begin(&w, 0, "deflate");
        w.max = max;
        pass(c, &body);
        assert_true(c->state == CALL_RECEIVING ? max > (int64_t)BOMB : c->status == 429);
        end(&w, c);
    }
    buf_release(&body);
}

static void test_the_end(void **state)
{
    struct buf body = zeros(1000), none = {0};
    struct http_call *c;
    struct world w;

    (void)state;
    body.len--;
    for (size_t route = 0; route < 2; route++) {
        c = begin(&w, route, "deflate");
        pass(c, &body);
        assert_int_equal(c->status, 400);
        end(&w, c);
        c = begin(&w, route, "gzip");
        pass(c, &none);
        assert_int_equal(c->status, 400);
        end(&w, c);
    }
    buf_release(&body);
}

/* The lack of memory at any place is an answer. */
static void test_no_memory(void **state)
{
    struct buf body = zeros(100000);
    struct http_call *c;
    struct world w;
    int status = 0, n;

    (void)state;
    for (n = 0; status != 200 && n < 100; n++) {
        c = begin(&w, 0, "deflate");
        mem_fail_after(n);
        pass(c, &body);
        mem_fail_after(-1);
        exchange_dispatch(c);
        status = c->status;
        /* Without memory for the error itself the connection is closed. */
        assert_true(status == 200 || status == 503 || c->state == CALL_DEAD);
        end(&w, c);
    }
    assert_true(status == 200 && n > 4);
    buf_release(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_turn_decodes_little),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_request_memory),
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_no_memory),
    };

    log_setup(LOG_OFF, false, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
