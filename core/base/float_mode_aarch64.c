/* core/base/float_mode_aarch64.c - sets FPCR; see float_mode.h.
 *
 * All bits zero is the default of IEEE 754: no traps, rounding to the nearest, no flushing of
 * denormals, NaNs kept. The register also has no bits of past exceptions (these are in FPSR), so
 * the check compares all of it.
 */
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
