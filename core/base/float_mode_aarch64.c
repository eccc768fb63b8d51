/* core/base/float_mode_aarch64.c - FPCR; see float_mode.h. All zero: no traps, to the nearest,
 * no flushing, NaNs as they are. */
#include "core/base/float_mode.h"

#include <stdint.h>

void float_mode_set(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
}

bool float_mode_is_set(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr == 0;
}
