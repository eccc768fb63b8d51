/* tests/sim/sim_ops.h - how many random operations.
 *
 * QUIRE_OPS in the environment says how many operations all tests of a program share (default
 * 300,000); a run with the same number repeats exactly.
 */
#ifndef TESTS_SIM_SIM_OPS_H
#define TESTS_SIM_SIM_OPS_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t sim_ops(uint64_t percent)
{
    const char *text = getenv("QUIRE_OPS");
    const uint64_t n = text != NULL ? strtoull(text, NULL, 10) : 300000;

    return n * percent / 100;
}

#endif
