/* server/engine_io/block_store.h - keeps blocks of a model's prefix cache outside the process: in a
 * folder, or in Redis or Valkey (the setting kv_store).
 *
 * It has two threads for each model, so that a disk or a network that hangs delays nothing else.
 * The writer takes the engine's offers (block_offers.h), copies their blocks, and writes records
 * that do not exist yet, at most `write_rate` bytes a second. The reader looks prompts up and reads
 * them (prefix_fetch.h). Each record is checked when it is read (kv_record.h); a record that fails
 * is counted and removed. Errors only cost time: they are counted, and logged at most once a
 * minute.
 *
 * Every full record that enters the prefix index is written, of prompts and of answers. An answer
 * is the beginning of a chat's next prompt, and its blocks come so slowly that they add little to
 * those of prompts.
 *
 * Thread: the one that starts the program; any thread may read the counters in prefix_fetch.h.
 * Memory: one record for each thread, besides what it owns: offers and fetch.
 * Errors: a sentence in `err`.
 */
#ifndef SERVER_ENGINE_IO_BLOCK_STORE_H
#define SERVER_ENGINE_IO_BLOCK_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_record.h"

struct block_offers;
struct block_store;
struct kv_store;
struct prefix_fetch;
struct store_place;

struct block_store_options {
    const struct store_place *place; /* borrowed; place->is_on must be true */
    uint64_t max_bytes;              /* most bytes of a folder */
    uint64_t write_rate;             /* bytes a second; 0 = no limit */
    uint32_t wait_ms;                /* longest wait of a request */
    uint32_t max_prompts;            /* most prompts that are looked up at a time */
    struct kv_record_form form;
    const struct kv_store *kv; /* borrowed */
};

/* Make offers and fetch, and start the threads. */
int block_store_open(struct block_store **out, const struct block_store_options *options, char *err,
                     size_t err_len);
/* Bytes of memory of a store for a cache of n_blocks. */
size_t block_store_bytes(const struct kv_record_form *form, uint32_t n_blocks);
struct block_offers *block_store_offers(struct block_store *s);
struct prefix_fetch *block_store_fetch(struct block_store *s);

/* Write all waiting offers, without a limit of the rate, for at most most_ms. Called after the
 * engine has ended. */
void block_store_flush(struct block_store *s, uint32_t most_ms);

/* Close; neither the engine nor the I/O thread may use offers and fetch any more. ERR_BUSY: a
 * thread hangs in a call and was abandoned with its memory; then `kv` must not be freed. */
int block_store_close(struct block_store **s);

#endif
