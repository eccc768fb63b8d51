/* tests/unit/server/test_request_restorer.c - requests of an earlier process that wait to be
 * started again: for whom, and under which names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "server/storage/request_log.h"
#include "server/process/worker_pool.h"
#include "server/storage/request_restorer.h"

#include <unistd.h>

static char folder[64], path[96], err[400];

static struct key *no_key(void *ud, const char *name)
{
    (void)ud, (void)name;
    return NULL;
}

static struct request_text text(const char *of)
{
    return (struct request_text){of, (uint32_t)strlen(of)};
}

static int set_up(void **state)
{
    (void)state;
    log_setup(LOG_OFF, false, STDERR_FILENO);
    snprintf(folder, sizeof(folder), "/tmp/quire-restorer-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/db", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* An earlier process has left two requests of alice's, the first one with a conversation. */
static void write_requests(void)
{
    struct request_begin b = {.tenant = text("alice"),
                              .path = text("/v1/completions"),
                              .conversation = text("of the sea"),
                              .body = text("{}")};
    struct saved_requests none;
    struct request_log *log;
    struct buf records;
    uint64_t n_lost;

    assert_int_equal(request_log_open(&log, path, &none, &n_lost, err, sizeof(err)), 0);
    buf_init(&records, 1 << 16);
    request_record_begin(&records, 1, "cmpl-1", &b);
    b.conversation = text("");
    request_record_begin(&records, 2, "cmpl-2", &b);
    assert_int_equal(request_log_append(log, records.data, records.len), 0);
    buf_release(&records);
    request_log_close(&log);
}

static void check_names(const struct request_restorer *r)
{
    assert_true(request_restorer_has(r, "alice", "cmpl-1"));
    assert_true(request_restorer_has(r, "alice", "cmpl-2"));
    assert_false(request_restorer_has(r, "alice", "cmpl-3"));
    assert_false(request_restorer_has(r, "bob", "cmpl-1"));
    assert_false(request_restorer_has(NULL, "alice", "cmpl-1"));
    assert_true(request_restorer_expects(r, "alice", "cmpl-1", NULL));
    assert_false(request_restorer_expects(r, "bob", "cmpl-1", NULL));
    assert_true(request_restorer_expects(r, "alice", NULL, "of the sea"));
    assert_false(request_restorer_expects(r, "alice", NULL, "of the"));
    assert_false(request_restorer_expects(r, "alice", NULL, "cmpl-2"));
    assert_false(request_restorer_expects(r, "bob", NULL, "of the sea"));
}

static void test_names(void **state)
{
    struct request_restorer_options o = {.find_key = no_key};
    struct request_restorer *r;
    struct worker_pool *storage;
    struct request_keeper *k;
    uv_loop_t loop;
    (void)state;

    write_requests();
    uv_loop_init(&loop);
    const struct worker_pool_options pool = {.loop = &loop, .n_threads = 1, .max_waiting = 1};
    struct request_keeper_options keeper = {.loop = &loop, .path = path, .max_bytes = 1 << 20};

    assert_int_equal(worker_pool_create(&storage, &pool), 0);
    keeper.storage = storage;
    assert_int_equal(request_keeper_open(&k, &keeper, err, sizeof(err)), 0);
    o.loop = &loop;
    o.keeper = k;
    assert_int_equal(request_restorer_create(&r, &o), 0);
    check_names(r); /* none is started before request_restorer_start() */
    request_restorer_drain(r);
    assert_true(request_restorer_expects(r, "bob", NULL, "any")); /* of the next process */
    request_restorer_stop(r);
    request_keeper_stop(k);
    worker_pool_stop(storage);
    uv_run(&loop, UV_RUN_DEFAULT);
    request_restorer_destroy(&r);
    worker_pool_destroy(&storage);
    request_keeper_close(&k);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
