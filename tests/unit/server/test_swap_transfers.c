/* tests/unit/server/test_swap_transfers.c - transfers between the swap tiers through a real loop
 * and file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "kvcache/swap_store.h"
#include "scheduler/queue.h"
#include "server/engine_io/swap_transfers.h"

#include <unistd.h>

enum { BLOCK_BYTES = 4096, N_RAM = 16, N_FILE = 16 };

struct stage {
    char path[64];
    uv_loop_t loop;
    struct queue *queue;
    struct swap_transfers transfers;
};

static void set_up(struct stage *s)
{
    const struct queue_options qo = {.max_outstanding = 1, .max_events = 1};
    struct swap_store_options so = {.block_bytes = BLOCK_BYTES, .n_ram = N_RAM, .n_file = N_FILE};
    char err[256] = "";

    memset(s, 0, sizeof(*s));
    snprintf(s->path, sizeof(s->path), "/tmp/quire-swapper-%d", (int)getpid());
    so.path = s->path;
    assert_int_equal(uv_loop_init(&s->loop), 0);
    assert_int_equal(queue_create(&s->queue, &qo), 0);
    if (swap_store_open(&s->transfers.store, &so, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    s->transfers.loop = &s->loop;
    s->transfers.queue = s->queue;
}

static void tear_down(struct stage *s)
{
    assert_int_equal(uv_loop_close(&s->loop), 0);
    swap_store_close(&s->transfers.store);
    queue_destroy(&s->queue);
    assert_int_not_equal(access(s->path, F_OK), 0); /* the file was removed */
}

static void fill(char *block, uint32_t with)
{
    memset(block, (int)(with * 37 + 11), BLOCK_BYTES);
}

static const uint32_t ram[4][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
static const uint32_t file[4][2] = {{8, 0}, {9, 1}, {10, 2}, {11, 3}};
static const uint32_t back[4][2] = {{15, 14}, {13, 12}, {11, 10}, {9, 8}};

/* Let the loop run until everything is done; how often each copy came back, all without error. */
static void run_all(struct stage *s, uint32_t n)
{
    uint32_t seen[SWAP_MAX_IO] = {0};
    struct queue_inbox inbox;

    swap_transfers_pump(&s->transfers);
    assert_false(swap_transfers_is_idle(&s->transfers));
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_true(swap_transfers_is_idle(&s->transfers));
    queue_drain(s->queue, &inbox);
    assert_int_equal(inbox.n_io, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(inbox.io[i].rc, 0);
        assert_int_equal(inbox.io[i].n_blocks, 2);
        seen[inbox.io[i].copy]++;
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(seen[i], 1);
}

/* More transfers than are carried out at a time go out, and come back to other slots of RAM. */
static void blocks_survive_the_round_trip(void **state)
{
    char block[BLOCK_BYTES], expected[BLOCK_BYTES];
    struct stage s;
    (void)state;

    set_up(&s);
    for (uint32_t i = 0; i < 8; i++) {
        fill(block, i);
        swap_store_save(s.transfers.store, i, block);
    }
    for (uint32_t i = 0; i < 4; i++)
        queue_emit_io(s.queue, &(struct swap_io){.copy = i, .is_write = true, .n = 2,
                                                 .ram = ram[i], .file = file[i]});
    run_all(&s, 4);
    for (uint32_t i = 0; i < 4; i++)
        queue_emit_io(s.queue, &(struct swap_io){.copy = i, .n = 2, .ram = back[i],
                                                 .file = file[i]});
    run_all(&s, 4);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            fill(expected, ram[i][k]);
            swap_store_load(s.transfers.store, back[i][k], block);
            assert_memory_equal(block, expected, BLOCK_BYTES);
        }
    }
    tear_down(&s);
}

/* A read of what was never written is an error, and the engine is told. */
static void errors_come_back(void **state)
{
    struct queue_inbox inbox;
    struct stage s;
    (void)state;

    set_up(&s);
    queue_emit_io(s.queue, &(struct swap_io){.copy = 3, .n = 2, .ram = ram[0], .file = file[0]});
    swap_transfers_pump(&s.transfers);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    queue_drain(s.queue, &inbox);
    assert_int_equal(inbox.n_io, 1);
    assert_int_equal(inbox.io[0].copy, 3);
    assert_int_equal(inbox.io[0].rc, ERR_IO);
    tear_down(&s);
}

static void without_a_queue_nothing_happens(void **state)
{
    struct swap_transfers s = {0};
    (void)state;

    swap_transfers_pump(&s);
    assert_true(swap_transfers_is_idle(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_survive_the_round_trip),
        cmocka_unit_test(errors_come_back),
        cmocka_unit_test(without_a_queue_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
