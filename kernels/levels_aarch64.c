/* kernels/levels_aarch64.c - the levels of aarch64: the definitions alone, which the compiler makes
 * NEON of. */
#include "kernels/kernels_impl.h"

enum kern_isa kern_level_of_cpu(void)
{
    return KERN_ISA_SCALAR;
}

bool kern_level_exists(enum kern_isa isa, enum kern_isa best)
{
    return isa <= best;
}

void kern_level_fill(struct kern_table *t, enum kern_isa isa)
{
    (void)t;
    (void)isa;
}
