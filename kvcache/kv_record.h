/* kvcache/kv_record.h - blocks outside the process: some full blocks of a chain as one record, with
 * a name and a checksum.
 *
 * A record holds `n_blocks` blocks of one chain of the prefix index, those of a multiple of
 * n_blocks on. Its name is made of what computed them (struct kv_record_form) and of the hash of
 * the last of them, which covers all tokens before and the salt (prefix_index.h): equal names mean
 * equal bytes (P1, P10). All numbers are in the writer's byte order:
 *
 *   header   one struct, see kv_record.c: magic, version, byte order, sizes, form, the hashes
 *            before the first block and of the last one, a checksum (XXH3, 128 bits) of the whole
 *            record without the checksum itself
 *   ids      16 tokens for each block
 *   bytes    the blocks as they lie in the cache: their layout is that of the kernels, the same for
 *            every instruction set
 *
 * Nothing in a record is believed: it is compared with the form, the hashes and the tokens that
 * were asked for, so a collision of hashes or a record under another one's name is a fault too.
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
    uint64_t kv_id[2];  /* of weights, architecture, settings and version that the bits depend on;
                         * adapters are in the salt */
    uint32_t kv_type;
    uint32_t n_layer, n_kv_head, key_bytes, value_bytes; /* as in struct kv_shape */
    uint32_t group;    /* of layers */
    uint32_t n_blocks; /* 1 to KV_RECORD_MOST */
    uint32_t reserved; /* 0 */
};

struct kv_record_key {
    struct prefix_hash before, last; /* of the block before, or the root; of the last block */
    const int32_t *ids;              /* [n_blocks * BLOCK_TOKENS] */
};

enum kv_record_fault {
    KV_RECORD_OK = 0,
    KV_RECORD_CUT,     /* shorter or longer than it should be */
    KV_RECORD_FOREIGN, /* no record, or of another version or byte order */
    KV_RECORD_OTHER,   /* of another model, or of other tokens */
    KV_RECORD_DAMAGED, /* the checksum differs */
};

/* Blocks that make a record of some size worth a file: the fewest, a power of two, that have half a
 * mebibyte, at most KV_RECORD_MOST. */
uint32_t kv_record_blocks_for(size_t block_bytes);

/* Bytes of one block; of a whole record; of what stands before the blocks. */
size_t kv_record_block_bytes(const struct kv_record_form *f);
size_t kv_record_bytes(const struct kv_record_form *f);
size_t kv_record_head_bytes(const struct kv_record_form *f);

/* The name of the record whose last block has this hash, with a NUL. */
void kv_record_name(char name[KV_RECORD_NAME + 1], const struct kv_record_form *f,
                    struct prefix_hash last);

/* Complete a record of kv_record_bytes() whose blocks stand behind kv_record_head_bytes(). */
void kv_record_finish(uint8_t *record, const struct kv_record_form *f,
                      const struct kv_record_key *key);

/* Is it the record of this form and key, unharmed? */
enum kv_record_fault kv_record_check(const uint8_t *record, size_t n,
                                     const struct kv_record_form *f,
                                     const struct kv_record_key *key);

const char *kv_record_fault_name(enum kv_record_fault fault); /* "damaged" */

#endif
