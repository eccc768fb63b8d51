/* kvcache/kv_move.c - see kv_move.h. */
#include "kvcache/kv_move.h"

#include "kvcache/kv_store.h"
#include "kvcache/swap_store.h"

void kv_move_run(const struct kv_move *moves, uint32_t n, struct kv_store *kv,
                 struct swap_store *swap)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct kv_move *move = &moves[i];

        switch (move->kind) {
        case KV_COPY:
            kv_store_copy_block(kv, move->from, move->to);
            break;
        case KV_SAVE:
            swap_store_save(swap, move->to, kv_store_block(kv, move->from));
            break;
        case KV_LOAD:
            swap_store_load(swap, move->from, kv_store_block(kv, move->to));
            break;
        }
    }
}
