/* server/engine_io/swap_transfers.c - see swap_transfers.h.
 *
 * A fixed array of two jobs: swap_transfers_pump() fills free ones from the engine's queue, a
 * thread of libuv's pool copies between RAM and file, and after_transfer_work(), on the I/O thread,
 * reports the result with its duration back through the queue. If a job cannot be posted, the
 * engine gets ERR_IO at once.
 */
#include "server/engine_io/swap_transfers.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "kvcache/swap_store.h"
#include "scheduler/queue.h"
#include "server/process/loop_guard.h"

static void on_transfer_work(uv_work_t *work)
{
    struct swap_transfer *j = work->data;
    const uint64_t start = clock_us();

    if (j->io.is_write)
        j->rc = swap_store_write(j->owner->store, j->io.n, j->io.ram, j->io.file);
    else
        j->rc = swap_store_read(j->owner->store, j->io.n, j->io.ram, j->io.file);
    j->us = clock_us() - start;
}

static void after_transfer_work(uv_work_t *work, int status)
{
    LOOP_CALLBACK(work->loop, "swap.done");
    struct swap_transfer *j = work->data;
    struct swap_transfers *s = j->owner;

    (void)status; /* never canceled */
    j->owner = NULL;
    queue_io_done(s->queue, j->io.copy, j->rc, j->io.n, j->us);
    swap_transfers_pump(s);
}

static void begin_transfer(struct swap_transfers *s, struct swap_transfer *j)
{
    j->owner = s;
    j->work.data = j;
    j->begin_us = clock_us();
    if (uv_queue_work(s->loop, &j->work, on_transfer_work, after_transfer_work) == 0)
        return;
    j->owner = NULL;
    queue_io_done(s->queue, j->io.copy, ERR_IO, j->io.n, 0);
}

void swap_transfers_pump(struct swap_transfers *s)
{
    if (s->queue == NULL || s->store == NULL)
        return;
    for (int i = 0; i < SWAP_TRANSFERS_JOBS; i++)
        while (s->jobs[i].owner == NULL && queue_take_io(s->queue, &s->jobs[i].io))
            begin_transfer(s, &s->jobs[i]);
}

uint64_t swap_transfers_oldest_us(const struct swap_transfers *s)
{
    uint64_t oldest = 0;

    for (int i = 0; i < SWAP_TRANSFERS_JOBS; i++)
        if (s->jobs[i].owner != NULL && (oldest == 0 || s->jobs[i].begin_us < oldest))
            oldest = s->jobs[i].begin_us;
    return oldest;
}

bool swap_transfers_is_idle(const struct swap_transfers *s)
{
    for (int i = 0; i < SWAP_TRANSFERS_JOBS; i++)
        if (s->jobs[i].owner != NULL)
            return false;
    return true;
}
