/* core/runtime/limits/peaks.c - see peaks.h.
 *
 * Only counts: the loops are in peaks_x86_64.c and peaks_aarch64.c. A loop has a fixed number of
 * steps, so the number of operations follows from the level's lanes without a counter in the loop.
 */
#include "core/runtime/limits/peaks.h"

#include "core/runtime/limits/peaks_impl.h"

double limits_run_peak(enum kern_isa isa, enum kern_product product)
{
    const struct peak_level *level = peak_level_of(isa);

    level->run[product]();
    if (product == KERN_PRODUCT_FLOAT)
        return 2.0 * FMA_SUMS * N_FMAS * level->lanes;
    return 2.0 * GROUP_SUMS * N_GROUPS * 32 * level->lanes;
}
