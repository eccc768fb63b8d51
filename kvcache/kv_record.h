/* kvcache/kv_record.h - the format in which blocks leave the process: some full blocks of a chain
 * as one record, with a name and a checksum.
 *
 * A record holds `n_blocks` consecutive blocks of one chain of the prefix index, starting at a
 * multiple of n_blocks. Its name is made of the form (struct kv_record_form) and of the hash of its
 * last block, which covers the salt and all tokens up to there (prefix_index.h): equal names mean
 * equal bytes (P1, P10). All numbers are in the writer's byte order:
 *
 *   header   one struct, see kv_record.c: magic, version, byte order, sizes, form, the hashes
 *            before the first block and of the last one, a checksum (XXH3, 128 bits) of the whole
 *            record without the checksum itself
 *   ids      16 tokens for each block
 *   bytes    the blocks as they lie in the cache: their layout is that of the kernels, the same for
 *            every instruction set
 *
 * A record is not trusted: its form, hashes and tokens are compared with those asked for, so a
 * collision of hashes or a record under a wrong name is a fault too.
 *
 * Thread: any.
 * Memory: the caller's.
 */
#ifndef KVCACHE_KV_RECORD_H
#define KVCACHE_KV_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "kvcache/prefix_index.h"

#define KV_RECORD_MOST 8  /* blocks in a record */
#define KV_RECORD_NAME 64 /* characters of a name: hexadecimal digits */

struct kv_record_form { /* the same for all records of a model; no padding: it is hashed */
    uint64_t kv_id[2];  /* hash of the weights, architecture, settings and version that the bytes
                         * depend on; adapters are in the salt */
    uint32_t kv_type;
    uint32_t n_layer, n_kv_head, key_bytes, value_bytes; /* as in struct kv_shape */
    uint32_t group;    /* KV group */
    uint32_t n_blocks; /* 1 to KV_RECORD_MOST */
    uint32_t reserved; /* 0 */
};

struct kv_record_key {
    struct prefix_hash before, last; /* before: hash of the block before the first, or the root;
                                      * last: of the last block */
    const int32_t *ids;              /* [n_blocks * BLOCK_TOKENS] */
};

enum kv_record_fault {
    KV_RECORD_OK = 0,
    KV_RECORD_CUT,     /* the record is the record is shorter or longer than its header says */
    KV_RECORD_FOREIGN, /* not a record, or one of another version or byte order */
    KV_RECORD_OTHER,   /* a record of another model, or of other tokens */
    KV_RECORD_DAMAGED, /* the checksum differs */
};

/* Number of blocks in a record: the smallest power of two whose blocks have half a mebibyte, at
 * most KV_RECORD_MOST. Smaller files take longer to open than to read. */
uint32_t kv_record_blocks_for(size_t block_bytes);

/* Bytes of one block; of a whole record; of the part before the blocks' bytes. */
size_t kv_record_block_bytes(const struct kv_record_form *f);
size_t kv_record_bytes(const struct kv_record_form *f);
size_t kv_record_head_bytes(const struct kv_record_form *f);

/* The name of the record whose last block has this hash, with a NUL. */
void kv_record_name(char name[KV_RECORD_NAME + 1], const struct kv_record_form *f,
                    struct prefix_hash last);

/* Write header, ids and checksum of a record whose blocks' bytes are at offset
 * kv_record_head_bytes() already. */
void kv_record_finish(uint8_t *record, const struct kv_record_form *f,
                      const struct kv_record_key *key);

/* Check that the n bytes are the undamaged record of this form and key. */
enum kv_record_fault kv_record_check(const uint8_t *record, size_t n,
                                     const struct kv_record_form *f,
                                     const struct kv_record_key *key);

const char *kv_record_fault_name(enum kv_record_fault fault); /* "damaged" */

#endif
