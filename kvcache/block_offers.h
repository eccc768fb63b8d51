/* kvcache/block_offers.h - offers full blocks that entered the prefix index to the thread that
 * keeps them outside the process.
 *
 * The engine thread adds an offer when the last block of a record (kv_record.h) enters the index,
 * and the store's thread takes it: a ring for one writer and one reader, without locks. An offer
 * has ids, hashes and tokens; the engine thread does not touch the blocks' bytes.
 *
 * Bytes. A block's bytes do not change while it is in the index; afterwards the engine may reuse it
 * at any time, and does not wait for the store. So each block has an age, which grows when the
 * block leaves the index: block_offers_copy() reads the ages, the bytes and the ages again, and the
 * copy is valid only if no age changed (a seqlock). No block is pinned for the store, so the store
 * changes no plan.
 *
 * A full ring drops offers and counts them. A dropped record is offered again when a sequence next
 * finds it in the index. After block_offers_renew() every record is, because a store that was
 * unreachable may have lost its records.
 *
 * Thread: the headings below say which thread may call a function.
 * Memory: taken in block_offers_create(): 8 bytes a block, 650 an offer.
 */
#ifndef KVCACHE_BLOCK_OFFERS_H
#define KVCACHE_BLOCK_OFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_record.h"

struct kv_store;
struct block_offers;

struct block_offer {
    struct prefix_hash before, last; /* chain hashes before the first block and of the last one */
    block_id blocks[KV_RECORD_MOST];
    uint32_t ages[KV_RECORD_MOST];
    int32_t ids[KV_RECORD_MOST * BLOCK_TOKENS];
};

/* Create a ring for blocks 1 .. n_blocks, records of record_blocks, and n_offers waiting at a time.
 * ERR_INVAL, ERR_NOMEM. */
int block_offers_create(struct block_offers **out, uint32_t n_blocks, uint32_t record_blocks,
                        uint32_t n_offers);
void block_offers_destroy(struct block_offers **o);
/* Bytes that block_offers_create() takes. */
size_t block_offers_bytes(uint32_t n_blocks, uint32_t n_offers);

/* ---- engine thread ---- */

uint32_t block_offers_record_blocks(const struct block_offers *o);
/* True: the record that ends with block `last` was offered, or came from the store. */
bool block_offers_is_known(const struct block_offers *o, block_id last);
void block_offers_set_known(struct block_offers *o, block_id last);
/* Offer blocks[record_blocks], which are all in the index, with their tokens. */
void block_offers_add(struct block_offers *o, const block_id *blocks, struct prefix_hash before,
                      struct prefix_hash last, const int32_t *ids);
/* Note that a block leaves the index, so that copies of it become invalid. Called before its bytes
 * may change. */
void block_offers_forget(struct block_offers *o, block_id block);

/* ---- the store's thread ---- */

/* Sleep until there may be an offer, block_offers_wake() was called, or most_ms have passed. */
void block_offers_wait(struct block_offers *o, uint32_t most_ms);
bool block_offers_take(struct block_offers *o, struct block_offer *out);
/* Copy the bytes of the offer's blocks to out[], without gaps. False: a block has left the
 * index. */
bool block_offers_copy(const struct block_offers *o, const struct block_offer *offer,
                       const struct kv_store *kv, uint8_t *out);

/* ---- any thread ---- */

/* Mark every record as not offered, so that all are offered again when sequences find them. */
void block_offers_renew(struct block_offers *o);

void block_offers_wake(struct block_offers *o);
uint32_t block_offers_n(const struct block_offers *o); /* offers that wait */
uint64_t block_offers_n_dropped(const struct block_offers *o);

#endif
