/* core/model/weight_cache_impl.h - the header of the weight cache's file, and its checksums.
 *
 * Private to weight_cache*.c and its test.
 *
 * Thread: any.
 * Memory: the caller's.
 */
#ifndef CORE_MODEL_WEIGHT_CACHE_IMPL_H
#define CORE_MODEL_WEIGHT_CACHE_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "core/model/weight_cache.h"

#define WEIGHT_CACHE_MAGIC "quirepak"
#define WEIGHT_CACHE_ORDER 0x01020304u
#define WEIGHT_CACHE_FORMAT 1u
#define WEIGHT_CACHE_CHUNK ((uint64_t)4 << 20)

struct weight_cache_header { /* has no padding bytes */
    char magic[8];
    uint32_t order, format;
    uint64_t panels_at;   /* offset in the file, after the header and the sums */
    uint64_t panel_bytes; /* bytes from panels_at to the end of the file */
    uint64_t chunk_bytes;
    struct weight_cache_id id;
    uint64_t sums_sum;   /* checksum of the chunks' sums */
    uint64_t header_sum; /* checksum of all fields above */
};
_Static_assert(sizeof(struct weight_cache_header) == 120, "a file format has no gaps");

/* Fill all fields but the two sums. */
void weight_cache_fill_header(struct weight_cache_header *h, const struct weight_cache_id *id,
                              uint64_t panel_bytes);
uint64_t weight_cache_header_sum(const struct weight_cache_header *h);
uint64_t weight_cache_n_chunks(uint64_t panel_bytes);
uint64_t weight_cache_chunk_sum(const void *data, size_t bytes, uint64_t chunk);

/* Read `bytes` bytes at offset `at`. ERR_FORMAT: the file ends before; or ERR_IO. */
int weight_cache_read(int fd, void *data, size_t bytes, uint64_t at);

#endif
