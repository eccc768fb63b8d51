/* tests/bench/bench_one_product.c - one product, once: what an emulator counts instructions of.
 *
 * usage: bench_one_product LEVEL TYPE ROWS
 * Of N_LANES lanes by N_COLUMNS columns, all zero: what a product does depends on no number. It
 * says how many columns and lanes there were, and where main() is, by which addresses in the file
 * are known in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "core/base/mem.h"
#include "kernels/kernels.h"

#define N_LANES 256
#define N_COLUMNS 1024

static int weight_of(const char *name)
{
    int w = 0;

    while (w < KERN_N_WEIGHT && strcasecmp(kern_weight_name((enum kern_weight)w), name) != 0)
        w++;
    return w;
}

/* 0, or -1: no memory. */
static int multiply(const struct kern_table *t, enum kern_weight w, size_t m)
{
    const size_t n_panels = N_LANES / KERN_LANES, stride = kern_qrow_bytes(N_COLUMNS);
    uint8_t *weights = mem_calloc(n_panels, kern_panel_bytes(w, N_COLUMNS));
    uint8_t *rows = mem_aligned(m, stride);
    float *x = mem_calloc(N_COLUMNS, sizeof(*x)), *out = mem_calloc(m * N_LANES, sizeof(*out));
    const bool has_all = weights != NULL && rows != NULL && x != NULL && out != NULL;

    for (size_t i = 0; has_all && i < m; i++)
        t->quantise(rows + i * stride, N_COLUMNS, x, 0, N_COLUMNS);
    if (has_all)
        t->gemm[w](out, N_LANES, rows, stride, m, weights, n_panels, N_COLUMNS, NULL);
    mem_free(weights);
    mem_free(rows);
    mem_free(x);
    mem_free(out);
    return has_all ? 0 : -1;
}

int main(int argc, char **argv)
{
    const int isa = argc == 4 ? kern_isa_parse(argv[1]) : -1;
    const int w = argc == 4 ? weight_of(argv[2]) : KERN_N_WEIGHT;
    const long m = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    struct kern_table t;

    if (isa < 0 || !kern_isa_exists((enum kern_isa)isa) || w == KERN_N_WEIGHT || m < 1 ||
        !kern_weight_is_quantised((enum kern_weight)w)) {
        fprintf(stderr, "usage: bench_one_product LEVEL TYPE ROWS, as this machine has them\n");
        return 2;
    }
    kern_init(&t, (enum kern_isa)isa);
    if (multiply(&t, (enum kern_weight)w, (size_t)m) < 0) {
        fprintf(stderr, "bench_one_product: no memory\n");
        return 1;
    }
    printf("%d %d %p\n", N_LANES, N_COLUMNS, (void *)main);
    return 0;
}
