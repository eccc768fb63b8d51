/* kvcache/kv_store.c - see kv_store.h.
 *
 * One mmap'ed arena; a block's address is its id times block_stride, so no table is needed and a
 * block is one contiguous piece. The padding of stride_of() matters for speed: without it the
 * blocks of many models fall into the same cache sets.
 */
#include "kvcache/kv_store.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/numa.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64             /* bytes of a cache line */
#define SPREAD_FROM 0x10000 /* blocks from this size on are padded */

static size_t layer_bytes(const struct kv_shape *s)
{
    return s->n_kv_head * (s->key_bytes + s->value_bytes);
}

size_t kv_store_block_bytes(const struct kv_shape *shape)
{
    return layer_bytes(shape) * shape->n_layer;
}

/* Bytes from a block to the next. If that were a multiple of the size of a cache way, the keys of
 * all blocks would compete for the same few sets: a little padding between blocks spreads them.
 * Small blocks, for which the padding would be a noticeable part, have none. */
static size_t stride_of(const struct kv_shape *shape)
{
    const size_t bytes = kv_store_block_bytes(shape);

    return bytes >= SPREAD_FROM && bytes % (LINE * 32) == 0 ? bytes + LINE * 33 : bytes;
}

uint32_t kv_store_blocks_for(const struct kv_shape *shape, size_t budget_bytes)
{
    const size_t n = budget_bytes / stride_of(shape);

    return n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)n;
}

/* Advise small pages for the private blocks. Like the advice for huge pages it is only a hint. */
static void use_small_pages(struct kv_store *s)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t from = (((size_t)s->n_blocks + 1) * s->block_stride + page - 1) / page * page;

    if (s->n_private > 0 && from < s->bytes)
        (void)madvise(s->data + from, s->bytes - from, MADV_NOHUGEPAGE);
}

int kv_store_create(struct kv_store **out, const struct kv_shape *shape, uint32_t n_blocks)
{
    return kv_store_create_private(out, shape, n_blocks, 0);
}

int kv_store_create_private(struct kv_store **out, const struct kv_shape *shape, uint32_t n_blocks,
                            uint32_t n_private)
{
    struct kv_store *s;
    size_t bytes;

    *out = NULL;
    if (n_blocks == 0 || (shape->n_layer > 0 && kv_store_block_bytes(shape) == 0))
        return ERR_INVAL;
    if (__builtin_mul_overflow((size_t)n_blocks + n_private + 1, stride_of(shape), &bytes))
        return ERR_NOMEM;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->shape = *shape;
    s->n_blocks = n_blocks;
    s->n_private = n_private;
    s->layer_stride = layer_bytes(shape);
    s->block_stride = stride_of(shape);
    s->bytes = bytes;
    s->data = bytes > 0 ? mem_map(bytes) : NULL;
    if (bytes > 0 && s->data == NULL) {
        mem_free(s);
        return ERR_NOMEM;
    }
    use_small_pages(s);
    *out = s;
    return 0;
}

/* Any thread may read any block, so the arena is interleaved over the memory nodes. */
void kv_store_spread(struct kv_store *s, const struct numa *numa)
{
    if (s->bytes > 0)
        (void)numa_spread(numa, s->data, s->bytes);
}

void kv_store_destroy(struct kv_store **s)
{
    if (s == NULL || *s == NULL)
        return;
    if ((*s)->bytes > 0)
        mem_unmap((*s)->data, (*s)->bytes);
    mem_free(*s);
    *s = NULL;
}

uint8_t *kv_store_keys(const struct kv_store *s, block_id block, uint32_t layer)
{
    assert(block <= s->n_blocks + s->n_private && layer < s->shape.n_layer);
    return s->data + block * s->block_stride + layer * s->layer_stride;
}

uint8_t *kv_store_values(const struct kv_store *s, block_id block, uint32_t layer)
{
    return kv_store_keys(s, block, layer) + s->shape.n_kv_head * s->shape.key_bytes;
}

void *kv_store_block(const struct kv_store *s, block_id block)
{
    assert(block != BLOCK_NONE);
    return kv_store_keys(s, block, 0);
}

void kv_store_copy_layer(struct kv_store *s, block_id from, block_id to, uint32_t layer)
{
    assert(from != to);
    memcpy(kv_store_keys(s, to, layer), kv_store_keys(s, from, layer), s->layer_stride);
}

void kv_store_copy_block(struct kv_store *s, block_id from, block_id to)
{
    assert(from != to);
    if (s->bytes == 0)
        return;
    memcpy(kv_store_block(s, to), kv_store_block(s, from), kv_store_block_bytes(&s->shape));
}
