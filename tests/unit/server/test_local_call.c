/* tests/unit/server/test_local_call.c - calls of the server's own: which paths and names are
 * refused, and what their handler sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base/err.h"
#include "server/http/http_shared.h"
#include "server/http/local_call.h"

#define LONG 8300

struct world {
    uv_loop_t loop;
    struct http_shared http;
    struct local_calls calls;
    struct local_call call;
    int status; /* of the answer */
    char id[200], tenant[200], path[LONG], tail[LONG], body[20];
};

static void copy(char *out, size_t size, const char *text)
{
    assert_true(text != NULL && strlen(text) < size);
    memcpy(out, text, strlen(text) + 1);
}

static void on_call(void *ud, struct http_call *call)
{
    struct world *w = ud;
    const char *tenant = http_call_header(call, "X-LLM-D-inference-fairness-id");
    struct buf none = {0};

    copy(w->id, sizeof(w->id), http_call_id(call));
    copy(w->tenant, sizeof(w->tenant), tenant != NULL ? tenant : "(none)");
    copy(w->path, sizeof(w->path), http_call_path(call));
    copy(w->tail, sizeof(w->tail), http_call_tail(call));
    snprintf(w->body, sizeof(w->body), "%.*s", (int)http_call_body(call)->len,
             http_call_body(call)->data);
    assert_true(http_call_is(call, HTTP_POST) && http_call_is_local(call));
    http_call_reply(call, 200, "text/plain", &none);
}

static void on_done(struct local_call *call, const struct local_reply *reply)
{
    struct world *w = call->group->http->opt.ud;

    w->status = reply->status;
}

static int on_admit(void *ud, struct http_call *call, unsigned flags)
{
    (void)ud;
    (void)call;
    (void)flags;
    return 0;
}

static void on_end(void *ud, size_t route, int status)
{
    (void)ud;
    (void)route;
    (void)status;
}

static const struct http_route routes[] = {
    {.path = "/v1/completions", .methods = HTTP_POST, .handle = on_call},
    {.path = "/v1/tails/", .methods = HTTP_POST, .handle = on_call},
    {.path = "/v1/stars/*/end", .methods = HTTP_POST, .handle = on_call},
};

static void set_up(struct world *w)
{
    memset(w, 0, sizeof(*w));
    assert_int_equal(uv_loop_init(&w->loop), 0);
    w->http.opt = (struct http_options){.loop = &w->loop,
                                        .max_body = 100,
                                        .tenant_header = "",
                                        .cors_origins = "",
                                        .routes = routes,
                                        .n_routes = sizeof(routes) / sizeof(routes[0]),
                                        .ud = w,
                                        .admit = on_admit,
                                        .done = on_end};
    local_calls_start(&w->calls, &w->http);
    w->call.done = on_done;
}

static void tear_down(struct world *w)
{
    local_calls_stop(&w->calls);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

/* A call from its start to its answer; an error, or the answer's status. */
static int ask(const char *path, const char *id, const char *tenant)
{
    static struct world w;
    struct buf body = {.data = (char *)"{}", .len = 2};
    const struct local_request request = {.path = path, .tenant = tenant, .id = id, .body = &body};
    int rc;

    set_up(&w);
    rc = local_call_start(&w.call, &w.calls, &request);
    assert_int_equal(w.status, 0); /* not out of local_call_start() */
    if (rc == 0)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    tear_down(&w);
    return rc < 0 ? rc : w.status;
}

static int path(const char *text)
{
    return ask(text, "a", "");
}

static void test_paths(void **state)
{
    (void)state;
    assert_int_equal(path("/v1/completions"), 200);
    assert_int_equal(path("/v1/completion"), ERR_NOENT);
    assert_int_equal(path("/v1/tails/a"), 200);
    assert_int_equal(path("/v1/tails/"), ERR_NOENT);
    assert_int_equal(path("/v1/stars/a/end"), 200);
    assert_int_equal(path("/v1/stars/a/b/end"), ERR_NOENT);
}

static void test_paths_that_are_none(void **state)
{
    static const char *const bad[] = {
        "", "v1/completions", "*", "ftp://a/b", "/v1/completions#a", "/v1/completions ",
        " /v1/completions", "/v1/a b", "/v1/\t", "/v1/\x01", "/v1/\x7f", "/v1/\xc3\xa4", "/v1/\r\n",
        "/v1/%", "/v1/%4", "/v1/%zz", "/v1/%00", "/v1/\"", "/v1/<a>", "/v1/\\",
    };
    char text[LONG] = "/v1/tails/";

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(path(bad[i]), ERR_INVAL);
    memset(text + 10, 'a', 8178 - 10); /* the line has 8,192 bytes then */
    assert_int_equal(path(text), 200);
    text[8178] = 'a';
    assert_int_equal(path(text), ERR_INVAL);
}

static void test_names_that_are_no_header(void **state)
{
    static const char *const bad[] = {"a\x01", "\x1f", "a\x7f" "b", "a\nb", "a\rb", "a\r", "a\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(ask("/v1/completions", bad[i], ""), ERR_INVAL);
        assert_int_equal(ask("/v1/completions", "a", bad[i]), ERR_INVAL);
    }
    assert_int_equal(ask("/v1/completions", "\xc3\xa4 b", "\xc3\xa4\tb"), 200);
}

/* A call runs to its end; the world then has what its handler saw of it. */
static void see(struct world *w, const char *at, const char *id, const char *tenant)
{
    struct buf body = {.data = (char *)"{}", .len = 2};
    const struct local_request request = {.path = at, .tenant = tenant, .id = id, .body = &body};

    set_up(w);
    assert_int_equal(local_call_start(&w->call, &w->calls, &request), 0);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_int_equal(w->status, 200);
    tear_down(w);
}

static void test_what_the_handler_sees(void **state)
{
    static struct world w;

    (void)state;
    see(&w, "/v1/completions", "an-id", "Ann B.");
    assert_string_equal(w.id, "an-id");
    assert_string_equal(w.tenant, "Ann B.");
    assert_string_equal(w.path, "/v1/completions");
    assert_string_equal(w.tail, "");
    assert_string_equal(w.body, "{}");
    see(&w, "/v1/completions", "no id", "");
    assert_int_equal(strncmp(w.id, "req-", 4), 0);
    assert_string_equal(w.tenant, "(none)");
}

/* A name that is looked up by its first bytes could be another's. */
static void test_tails_are_whole(void **state)
{
    static struct world w;
    char name[400], text[LONG];

    (void)state;
    for (size_t n = 1; n < sizeof(name); n += n < 200 ? 99 : 7) {
        memset(name, 'a', n);
        name[n] = '\0';
        name[n - 1] = 'z';
        snprintf(text, sizeof(text), "/v1/tails/%s", name);
        see(&w, text, "a", "");
        assert_string_equal(w.tail, name);
        snprintf(text, sizeof(text), "/v1/stars/%s/end", name);
        see(&w, text, "a", "");
        assert_string_equal(w.tail, name);
        assert_string_equal(w.path, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_paths_that_are_none),
        cmocka_unit_test(test_names_that_are_no_header),
        cmocka_unit_test(test_what_the_handler_sees),
        cmocka_unit_test(test_tails_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
