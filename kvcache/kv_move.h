/* kvcache/kv_move.h - what has to be copied before a step, in order.
 *
 * The manager logs moves; the owner of the bytes (the engine thread, before the step) carries them
 * out. Carried out in the order of the log, each finds the bytes that it was logged for, although
 * blocks and slots have been released and taken again since.
 *
 * Thread: engine thread.
 * Memory: none.
 */
#ifndef KVCACHE_KV_MOVE_H
#define KVCACHE_KV_MOVE_H

#include <stdint.h>

struct kv_store;
struct swap_store;

enum kv_move_kind {
    KV_COPY = 0, /* block `from` -> block `to` (copy on write, reuse of a part) */
    KV_SAVE,     /* block `from` -> RAM slot `to` */
    KV_LOAD,     /* RAM slot `from` -> block `to` */
};

struct kv_move {
    enum kv_move_kind kind;
    uint32_t from, to;
};

/* Carry out. `swap` may be NULL when there are only copies. */
void kv_move_run(const struct kv_move *moves, uint32_t n, struct kv_store *kv,
                 struct swap_store *swap);

#endif
