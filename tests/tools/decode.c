/* tests/tools/decode.c - blocks from standard input as floats, two ways.
 *
 *   decode IQ4_XS < blocks > floats
 *
 * The blocks are 16 rows of equal length, with their heads if the type has any. The floats (native,
 * 4 bytes each) are first what block_decode() says of all of them, then what comes back when the
 * rows have been packed into a panel and are looked up there.
 */
#include "core/base/mem.h"
#include "core/formats/gguf/blocks.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)64 << 20)

static void die(const char *what)
{
    fprintf(stderr, "decode: %s\n", what);
    exit(2);
}

static enum block_type block_named(const char *name)
{
    for (uint32_t t = 0; t < 256; t++)
        if (block_format(t) != NULL && strcmp(block_format(t)->name, name) == 0)
            return (enum block_type)t;
    die("there is no such type");
    return BLOCK_F32;
}

static enum kern_weight weight_named(const char *name)
{
    for (int w = 0; w < KERN_N_WEIGHT; w++)
        if (strcmp(kern_weight_name((enum kern_weight)w), name) == 0)
            return (enum kern_weight)w;
    die("the kernels do not have that type");
    return KERN_F32;
}

static void *need(void *p)
{
    if (p == NULL)
        die("out of memory");
    return p;
}

static void put(const float *x, size_t n)
{
    if (fwrite(x, sizeof(*x), n, stdout) != n)
        die("cannot write");
}

/* Through a panel, row by row. */
static void put_looked_up(enum kern_weight w, const uint8_t *blocks, size_t row_bytes, size_t k)
{
    void *panel = need(mem_aligned(1, kern_panel_bytes(w, k)));
    float *row = need(mem_alloc(k * sizeof(*row)));
    const void *rows[KERN_LANES];

    for (size_t i = 0; i < KERN_LANES; i++)
        rows[i] = blocks + i * row_bytes;
    kern_pack(w, panel, rows, k);
    for (size_t i = 0; i < KERN_LANES; i++) {
        kern_unpack_row(w, panel, i, row, k);
        put(row, k);
    }
    mem_free(row);
    mem_free(panel);
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";
    const enum block_type type = block_named(name);
    const struct block_format *f = block_format(type);
    uint8_t *blocks = need(mem_alloc(MAX_BYTES));
    const size_t bytes = fread(blocks, 1, MAX_BYTES, stdin);
    const size_t row_bytes = bytes / KERN_LANES;
    const size_t k = row_bytes / f->bytes * f->elems; /* the head is shorter than a block */
    float *x = need(mem_alloc(KERN_LANES * k * sizeof(*x) + 1));

    if (bytes == 0 || bytes == MAX_BYTES || row_bytes * KERN_LANES != bytes ||
        row_bytes % f->bytes != f->head)
        die("16 rows of whole blocks are wanted");
    for (size_t i = 0; i < KERN_LANES; i++)
        block_decode(type, blocks + i * row_bytes, x + i * k, k);
    put(x, KERN_LANES * k);
    put_looked_up(weight_named(name), blocks, row_bytes, k);
    mem_free(x);
    mem_free(blocks);
    return 0;
}
