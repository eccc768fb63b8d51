/* tests/fuzz/fuzz_weight_cache.c - libFuzzer: a file that claims to be the cache of a model.
 *
 * The input is a list of changes to a whole cache of a small model, made one after the other: how
 * (1 byte, see enum change), where (2 bytes), how many bytes (1 byte), and the bytes. A resealed
 * file has checksums that are right again, as a forger would make them, so that what lies behind
 * them is reached too.
 *
 * It is loaded when, and only when, it is whole: of this model, of its length, with each checksum
 * that of the bytes that it covers. The panels are then the file's.
 */
#include "tests/fuzz/scratch.h"

#include <xxhash.h>

#include "core/model/weight_cache.h"
#include "core/model/weight_cache_impl.h"

enum { PANELS = 300, PANELS_AT = 4096, WHOLE = PANELS_AT + PANELS, MAX_FILE = 2 * WHOLE };
enum change {
    CHANGE_WRITE = 0,
    CHANGE_LENGTH,
    CHANGE_RESEAL,
    CHANGE_HEADER,
    CHANGE_SEAL,
    CHANGE_N,
};

static const struct weight_cache_id id = {1000, 2, {3, 4}, {5, 6}, {7, 8}};

struct file {
    uint8_t bytes[MAX_FILE];
    size_t n;
};

static uint64_t seal_sums(const struct file *f)
{
    return XXH3_64bits(f->bytes + sizeof(struct weight_cache_header), sizeof(uint64_t));
}

static void seal_header(struct file *f)
{
    struct weight_cache_header h;

    memcpy(&h, f->bytes, sizeof(h));
    h.header_sum = weight_cache_header_sum(&h);
    memcpy(f->bytes, &h, sizeof(h));
}

static void seal(struct file *f)
{
    const uint64_t sum = weight_cache_chunk_sum(f->bytes + PANELS_AT, PANELS, 0);
    struct weight_cache_header h;

    memcpy(f->bytes + sizeof(h), &sum, sizeof(sum));
    memcpy(&h, f->bytes, sizeof(h));
    h.sums_sum = seal_sums(f);
    memcpy(f->bytes, &h, sizeof(h));
    seal_header(f);
}

static void make_whole(struct file *f)
{
    struct weight_cache_header h;

    memset(f, 0, sizeof(*f));
    weight_cache_fill_header(&h, &id, PANELS);
    require(h.panels_at == PANELS_AT && weight_cache_n_chunks(PANELS) == 1);
    memcpy(f->bytes, &h, sizeof(h));
    for (size_t i = 0; i < PANELS; i++)
        f->bytes[PANELS_AT + i] = (uint8_t)(i * 37);
    f->n = WHOLE;
    seal(f);
}

static void change(struct file *f, const uint8_t **data, size_t *n)
{
    const enum change how = (enum change)(scratch_number(data, n, 1) % CHANGE_N);
    size_t at = scratch_number(data, n, 2) % MAX_FILE, len = scratch_number(data, n, 1);

    at = how == CHANGE_HEADER ? at % sizeof(struct weight_cache_header) : at;
    len = len < *n ? len : *n;
    len = len < MAX_FILE - at ? len : MAX_FILE - at;
    if (how == CHANGE_LENGTH) {
        f->n = at;
    } else if (how == CHANGE_RESEAL) {
        seal(f);
    } else if (how == CHANGE_SEAL) {
        seal_header(f);
    } else {
        memcpy(f->bytes + at, *data, len);
        *data += len;
        *n -= len;
    }
}

/* By the format's definition, byte by byte. */
static bool is_whole(const struct file *f)
{
    struct weight_cache_header h, want;
    uint64_t sum;

    if (f->n != WHOLE)
        return false;
    memcpy(&h, f->bytes, sizeof(h));
    memcpy(&sum, f->bytes + sizeof(h), sizeof(sum));
    weight_cache_fill_header(&want, &id, PANELS);
    want.sums_sum = seal_sums(f);
    want.header_sum = weight_cache_header_sum(&want);
    return memcmp(&h, &want, sizeof(h)) == 0 &&
           sum == weight_cache_chunk_sum(f->bytes + PANELS_AT, PANELS, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct file f;
    uint8_t panels[PANELS + 1] = {0};
    char cause[WEIGHT_CACHE_MAX_CAUSE];
    bool is_loaded;

    make_whole(&f);
    while (n > 0)
        change(&f, &data, &n);
    panels[PANELS] = 0x5a;
    is_loaded = weight_cache_load(scratch_write("cache", f.bytes, f.n), &id, panels, PANELS, 1,
                                  cause) == 0;
    require(is_loaded == is_whole(&f) && is_loaded == (cause[0] == '\0'));
    require(panels[PANELS] == 0x5a);
    require(!is_loaded || memcmp(panels, f.bytes + PANELS_AT, PANELS) == 0);
    return 0;
}
