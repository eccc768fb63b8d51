/* core/base/float_mode.h - sets how a thread's floating-point unit rounds.
 *
 * Promise P1 rests on IEEE 754 as it is by default: to the nearest, denormals as they are, no
 * traps. A thread has the mode of the one that started it, and a library that was loaded before
 * main() may have set another (code built with -ffast-math does). So main() and each thread that
 * computes set the mode when they begin; the engine asserts it in each step.
 *
 * Thread: the calling one.
 * Memory: none.
 */
#ifndef CORE_BASE_FLOAT_MODE_H
#define CORE_BASE_FLOAT_MODE_H

#include <stdbool.h>

void float_mode_set(void);
bool float_mode_is_set(void);

#endif
