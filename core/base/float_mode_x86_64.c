/* core/base/float_mode_x86_64.c - sets MXCSR; see float_mode.h.
 *
 * The register has mode and flags of past exceptions in one word, so the check masks the flags. The
 * x87 unit has a mode of its own, but no code of Quire computes with it.
 */
#include "core/base/float_mode.h"

#include <xmmintrin.h>

#define PLAIN 0x1F80u /* all exceptions masked, to the nearest, neither FTZ nor DAZ */
#define FLAGS 0x003Fu /* flags of past exceptions, not part of the mode */

void float_mode_set(void)
{
    _mm_setcsr(PLAIN);
}

bool float_mode_is_set(void)
{
    return (_mm_getcsr() & ~FLAGS) == PLAIN;
}
