/* kvcache/kv_move.c - see kv_move.h.
 *
 * Each move is one memcpy between the KV arena, the state arena and the RAM tier. The engine thread
 * runs the list after planning and before the step computes, in the order of the log: later moves
 * may reuse blocks and slots that earlier ones have read.
 */
#include "kvcache/kv_move.h"

#include "kvcache/kv_store.h"
#include "kvcache/state_store.h"
#include "kvcache/swap_store.h"

#include <assert.h>

uint32_t kv_move_blocks(const struct kv_move *moves, uint32_t n, uint32_t n_parts)
{
    uint32_t n_blocks = 0;

    for (uint32_t i = 0; i < n; i++)
        n_blocks += moves[i].kind == KV_COPY_STATE ? n_parts : 1;
    return n_blocks;
}

static uint8_t *state_part(const struct kv_bytes *b, uint32_t slot, uint32_t part)
{
    const size_t n = swap_store_block_bytes(b->swap);

    assert((part + 1) * n <= state_store_slot_bytes(b->states));
    return (uint8_t *)state_store_at(b->states, slot) + part * n;
}

static void run_move(const struct kv_move *move, const struct kv_bytes *b)
{
    switch (move->kind) {
    case KV_COPY:
        kv_store_copy_block(b->kv, move->from, move->to);
        break;
    case KV_SAVE:
        swap_store_save(b->swap, move->to, kv_store_block(b->kv, move->from));
        break;
    case KV_LOAD:
        swap_store_load(b->swap, move->from, kv_store_block(b->kv, move->to));
        break;
    case KV_COPY_STATE:
        state_store_copy(b->states, move->from, move->to);
        break;
    case KV_SAVE_STATE:
        swap_store_save(b->swap, move->to, state_part(b, move->from, move->part));
        break;
    case KV_LOAD_STATE:
        swap_store_load(b->swap, move->from, state_part(b, move->to, move->part));
        break;
    }
}

void kv_move_run(const struct kv_move *moves, uint32_t n, const struct kv_bytes *bytes)
{
    for (uint32_t i = 0; i < n; i++)
        run_move(&moves[i], bytes);
}
