/* kvcache/kv_move.h - copies of blocks and states to be made before a step, in order.
 *
 * The manager logs moves; the owner of the bytes (the engine thread, before the step) carries them
 * out. Carried out in the order of the log, each move finds the bytes that it was logged for,
 * although blocks and slots were released and taken again in the meantime.
 *
 * Thread: engine thread.
 * Memory: none.
 */
#ifndef KVCACHE_KV_MOVE_H
#define KVCACHE_KV_MOVE_H

#include <stdint.h>

struct kv_store;
struct state_store;
struct swap_store;

enum kv_move_kind {
    KV_COPY = 0, /* block `from` -> block `to` (copy on write, reuse of a part) */
    KV_SAVE,     /* block `from` -> RAM slot `to` */
    KV_LOAD,     /* RAM slot `from` -> block `to` */
    KV_COPY_STATE, /* state slot `from` -> state slot `to` */
    KV_SAVE_STATE, /* part `part` of state slot `from` -> RAM slot `to` */
    KV_LOAD_STATE, /* RAM slot `from` -> part `part` of state slot `to` */
};

struct kv_move {
    enum kv_move_kind kind;
    uint32_t from, to;
    uint32_t part; /* part of a state: bytes from part times a RAM slot's size */
};

/* The moves' bytes in blocks, for the cost model; copying a state counts as n_parts blocks. */
uint32_t kv_move_blocks(const struct kv_move *moves, uint32_t n, uint32_t n_parts);

struct kv_bytes {
    struct kv_store *kv;
    struct swap_store *swap;    /* NULL: no swap tiers */
    struct state_store *states; /* slots are whole parts; NULL: the model has no states */
};

/* Carry out n moves, in order. */
void kv_move_run(const struct kv_move *moves, uint32_t n, const struct kv_bytes *bytes);

#endif
