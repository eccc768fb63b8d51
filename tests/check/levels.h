/* tests/check/levels.h - the levels at which kernels are checked: those of the CPU, and those whose
 * instructions a model carries out.
 *
 * Thread: any; levels_prepare(): before others.
 * Memory: none.
 */
#ifndef TESTS_CHECK_LEVELS_H
#define TESTS_CHECK_LEVELS_H

#include "kernels/kernels.h"

/* The highest level that is checked, and whether a level up to it is. */
enum kern_isa levels_highest(void);
bool levels_has(enum kern_isa isa);

/* The level from which this one has the kernels that are not its own, where a check need not go
 * through them again; else the level itself. */
enum kern_isa levels_base(enum kern_isa isa);

/* Fill the table as kern_init() does, also for levels that the CPU does not have. */
void levels_fill(struct kern_table *t, enum kern_isa isa);

/* From this call on, instructions that the CPU does not have are carried out by a model. */
void levels_prepare(void);

#endif
