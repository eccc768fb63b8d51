/* server/engine_io/swap_transfers.h - carries out the transfers between the swap tiers in the
 * loop's thread pool.
 *
 * The engine passes transfers through the queue and never waits for a disk. Two run at a time, so
 * that other models and the journal can use libuv's other threads.
 *
 * Thread: the loop's.
 * Memory: none but the struct.
 */
#ifndef SERVER_ENGINE_IO_SWAP_TRANSFERS_H
#define SERVER_ENGINE_IO_SWAP_TRANSFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "kvcache/swap.h"

#define SWAP_TRANSFERS_JOBS 2

struct queue;
struct swap_store;

struct swap_transfers { /* zero, with `loop`, `queue` and `store` set, is a valid start */
    uv_loop_t *loop;
    struct queue *queue;
    struct swap_store *store; /* must outlive the last transfer */
    struct swap_transfer {
        struct swap_transfers *owner; /* NULL: free */
        uv_work_t work;
        struct swap_io io;
        int rc;
        uint64_t begin_us; /* clock_us() at which the transfer was passed to the thread pool */
        uint64_t us;
    } jobs[SWAP_TRANSFERS_JOBS];
};

/* Begin waiting transfers. Called on each wake of the loop. */
void swap_transfers_pump(struct swap_transfers *s);
/* Return the clock_us() at which the oldest running transfer began; 0: none runs. */
uint64_t swap_transfers_oldest_us(const struct swap_transfers *s);
bool swap_transfers_is_idle(const struct swap_transfers *s);

#endif
