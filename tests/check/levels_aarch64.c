/* tests/check/levels_aarch64.c - see levels.h: those of the CPU. */
#include "tests/check/levels.h"

enum kern_isa levels_highest(void)
{
    return kern_isa_best();
}

bool levels_has(enum kern_isa isa)
{
    return kern_isa_exists(isa);
}

enum kern_isa levels_base(enum kern_isa isa)
{
    if (isa == KERN_ISA_I8MM)
        return KERN_ISA_DOTPROD;
    return isa == KERN_ISA_DOTPROD ? KERN_ISA_NEON : isa;
}

void levels_fill(struct kern_table *t, enum kern_isa isa)
{
    kern_init(t, isa);
}

void levels_prepare(void)
{
}
