/* kvcache/kv_record.c - see kv_record.h.
 *
 * The header is one struct without padding, because it is hashed and compared as bytes; assertions
 * guard its size. The checksum hashes the header with a zero sum and the rest separately, so that
 * it needs no second buffer. The store's writer thread finishes records, its reader thread checks
 * them: order, size and checksum come first, so that a damaged file is told from a foreign one.
 */
#include "kvcache/kv_record.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#define VERSION 1u
#define BYTE_ORDER_MARK 0x01020304u
#define WORTH_BYTES ((size_t)512 << 10) /* smaller files take longer to open than to read */

static const char magic[8] = {'Q', 'U', 'I', 'R', 'E', 'K', 'V', 'B'};

struct header { /* a multiple of 8 bytes, without padding */
    char magic[8];
    uint32_t version, order;
    uint64_t bytes; /* bytes of the whole record */
    struct kv_record_form form;
    struct prefix_hash before, last;
    uint64_t sum[2];
};

_Static_assert(sizeof(struct kv_record_form) == 48, "padding would be hashed");
_Static_assert(sizeof(struct header) == 24 + 48 + 32 + 16, "padding would be hashed");

uint32_t kv_record_blocks_for(size_t block_bytes)
{
    uint32_t n = 1;

    while (n < KV_RECORD_MOST && n * block_bytes < WORTH_BYTES)
        n *= 2;
    return n;
}

size_t kv_record_block_bytes(const struct kv_record_form *f)
{
    return (size_t)f->n_layer * f->n_kv_head * ((size_t)f->key_bytes + f->value_bytes);
}

static size_t ids_bytes(const struct kv_record_form *f)
{
    return (size_t)f->n_blocks * BLOCK_TOKENS * sizeof(int32_t);
}

size_t kv_record_head_bytes(const struct kv_record_form *f)
{
    return sizeof(struct header) + ids_bytes(f);
}

size_t kv_record_bytes(const struct kv_record_form *f)
{
    return kv_record_head_bytes(f) + f->n_blocks * kv_record_block_bytes(f);
}

static char *put_hex(char *at, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *at++ = "0123456789abcdef"[bytes[i] >> 4];
        *at++ = "0123456789abcdef"[bytes[i] & 15];
    }
    return at;
}

void kv_record_name(char name[KV_RECORD_NAME + 1], const struct kv_record_form *f,
                    struct prefix_hash last)
{
    const XXH128_hash_t form = XXH3_128bits(f, sizeof(*f));
    uint8_t bytes[PREFIX_HASH_BYTES];
    char *at;

    prefix_hash_bytes(last, bytes); /* the hash first: the rest is equal in all names of a model */
    at = put_hex(name, bytes, sizeof(bytes));
    prefix_hash_bytes((struct prefix_hash){.lo = form.low64, .hi = form.high64}, bytes);
    at = put_hex(at, bytes, sizeof(bytes));
    *at = '\0';
}

/* Compute the checksum of the header, with 0 for the checksum itself, and of the bytes after the
 * header. */
static XXH128_hash_t record_sum(const struct header *h, const uint8_t *record, size_t n)
{
    struct header blank = *h;
    XXH128_hash_t both[2];

    blank.sum[0] = blank.sum[1] = 0;
    both[0] = XXH3_128bits(&blank, sizeof(blank));
    both[1] = XXH3_128bits(record + sizeof(blank), n - sizeof(blank));
    return XXH3_128bits(both, sizeof(both));
}

void kv_record_finish(uint8_t *record, const struct kv_record_form *f,
                      const struct kv_record_key *key)
{
    struct header h = {
        .version = VERSION,
        .order = BYTE_ORDER_MARK,
        .bytes = kv_record_bytes(f),
        .form = *f,
        .before = key->before,
        .last = key->last,
    };
    XXH128_hash_t sum;

    assert(f->n_blocks > 0 && f->n_blocks <= KV_RECORD_MOST && f->reserved == 0);
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(record + sizeof(h), key->ids, ids_bytes(f));
    sum = record_sum(&h, record, h.bytes);
    h.sum[0] = sum.low64;
    h.sum[1] = sum.high64;
    memcpy(record, &h, sizeof(h));
}

static int is_same_key(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

enum kv_record_fault kv_record_check(const uint8_t *record, size_t n,
                                     const struct kv_record_form *f,
                                     const struct kv_record_key *key)
{
    struct header h;
    XXH128_hash_t sum;

    if (n < sizeof(h))
        return KV_RECORD_CUT;
    memcpy(&h, record, sizeof(h));
    if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.version != VERSION ||
        h.order != BYTE_ORDER_MARK)
        return KV_RECORD_FOREIGN;
    if (h.bytes != n)
        return KV_RECORD_CUT;
    sum = record_sum(&h, record, n);
    if (h.sum[0] != sum.low64 || h.sum[1] != sum.high64)
        return KV_RECORD_DAMAGED;
    if (n != kv_record_bytes(f) || memcmp(&h.form, f, sizeof(*f)) != 0 ||
        !is_same_key(h.before, key->before) || !is_same_key(h.last, key->last) ||
        memcmp(record + sizeof(h), key->ids, ids_bytes(f)) != 0)
        return KV_RECORD_OTHER;
    return KV_RECORD_OK;
}

const char *kv_record_fault_name(enum kv_record_fault fault)
{
    static const char *const names[] = {"none", "cut", "foreign", "other", "damaged"};

    return names[fault];
}
