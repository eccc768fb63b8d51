/* server/engine_io/swap_transfers.h - carries out the transfers between the swap tiers in the
 * loop's thread pool.
 *
 * The engine passes transfers through the queue and never waits for a disk. Two run at a time, so
 * that some of libuv's threads are left for other models and for the journal.
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

struct swap_transfers { /* zero, with `loop`, `queue` and `store` set, is ready */
    uv_loop_t *loop;
    struct queue *queue;
    struct swap_store *store; /* must outlive the last transfer */
    struct swap_transfer {
        struct swap_transfers *owner; /* NULL: free */
        uv_work_t work;
        struct swap_io io;
        int rc;
        uint64_t begin_us; /* when it was passed to the thread pool */
        uint64_t us;
    } jobs[SWAP_TRANSFERS_JOBS];
};

/* Begin transfers that wait. Called on each wake. */
void swap_transfers_pump(struct swap_transfers *s);
/* When the oldest transfer under way began; 0: none is. */
uint64_t swap_transfers_oldest_us(const struct swap_transfers *s);
bool swap_transfers_is_idle(const struct swap_transfers *s);

#endif
