/* tests/fuzz/fuzz_kv_record.c - libFuzzer: bytes that claim to be a record of the block store.
 *
 * The input is a list of changes to a whole record, made one after the other: how (1 byte, see enum
 * change), where (2 bytes), how many bytes (1 byte), and the bytes. A resealed record has a
 * checksum that is right again, as a forger would make it: what lies behind it is reached too.
 *
 * It is taken when, and only when, it is the whole record, byte for byte: everything in it is
 * either compared with what was asked for or covered by the checksum. One that was resealed may
 * have other blocks, and nothing else.
 */
#include "tests/fuzz/scratch.h"

#include <xxhash.h>

#include "kvcache/kv_record.h"

enum { BLOCKS = 2, HEAD = 120 + 2 * 64, BLOCK = 40, WHOLE = HEAD + BLOCKS * BLOCK };
enum { MAX_RECORD = 600 };
enum { SUM_AT = 104, SUM_BYTES = 16, HEADER = SUM_AT + SUM_BYTES };
enum change { CHANGE_WRITE = 0, CHANGE_LENGTH, CHANGE_RESEAL, CHANGE_N };

static const struct kv_record_form form = {
    .kv_id = {3, 4}, .kv_type = 2, .n_layer = 1, .n_kv_head = 1, .key_bytes = 24, .value_bytes = 16,
    .n_blocks = BLOCKS};

struct record {
    uint8_t bytes[MAX_RECORD];
    size_t n;
    bool is_resealed;
};

static struct kv_record_key make_whole(struct record *r)
{
    static int32_t ids[BLOCKS * BLOCK_TOKENS];
    struct kv_record_key key = {.before = {5, 6}, .last = {7, 8}, .ids = ids};

    for (int i = 0; i < BLOCKS * BLOCK_TOKENS; i++)
        ids[i] = i * 3;
    memset(r, 0, sizeof(*r));
    require(kv_record_head_bytes(&form) == HEAD && kv_record_bytes(&form) == WHOLE);
    for (size_t i = HEAD; i < WHOLE; i++)
        r->bytes[i] = (uint8_t)(i * 37);
    kv_record_finish(r->bytes, &form, &key);
    r->n = WHOLE;
    return key;
}

/* As kv_record.c has it. */
static void reseal(struct record *r)
{
    XXH128_hash_t both[2], sum;

    if (r->n < HEADER)
        return;
    memset(r->bytes + SUM_AT, 0, SUM_BYTES);
    both[0] = XXH3_128bits(r->bytes, HEADER);
    both[1] = XXH3_128bits(r->bytes + HEADER, r->n - HEADER);
    sum = XXH3_128bits(both, sizeof(both));
    memcpy(r->bytes + SUM_AT, &sum.low64, 8);
    memcpy(r->bytes + SUM_AT + 8, &sum.high64, 8);
    r->is_resealed = true;
}

static void change(struct record *r, const uint8_t **data, size_t *n)
{
    const enum change how = (enum change)(scratch_number(data, n, 1) % CHANGE_N);
    const size_t at = scratch_number(data, n, 2) % MAX_RECORD;
    size_t len = scratch_number(data, n, 1);

    if (how == CHANGE_RESEAL) {
        reseal(r);
        return;
    }
    if (how == CHANGE_LENGTH) {
        r->n = at;
        return;
    }
    len = len < *n ? len : *n;
    len = len < MAX_RECORD - at ? len : MAX_RECORD - at;
    memcpy(r->bytes + at, *data, len);
    *data += len;
    *n -= len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct record whole, r;
    const struct kv_record_key key = make_whole(&whole);
    enum kv_record_fault fault;
    uint8_t *exact;
    bool is_same;

    make_whole(&r);
    while (n > 0)
        change(&r, &data, &n);
    exact = malloc(r.n > 0 ? r.n : 1); /* a read behind it is seen */
    require(exact != NULL);
    memcpy(exact, r.bytes, r.n);
    fault = kv_record_check(exact, r.n, &form, &key);
    is_same = r.n == WHOLE && memcmp(exact, whole.bytes, WHOLE) == 0;
    if (!r.is_resealed)
        require((fault == KV_RECORD_OK) == is_same);
    else if (fault == KV_RECORD_OK) /* only blocks, and the sum of them, may be others */
        require(r.n == WHOLE && memcmp(exact, whole.bytes, SUM_AT) == 0 &&
                memcmp(exact + HEADER, whole.bytes + HEADER, HEAD - HEADER) == 0);
    require(kv_record_fault_name(fault)[0] != '\0');
    free(exact);
    return 0;
}
