/* core/base/hold.h - points at which tests can make a thread hang, in debug builds only.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_HOLD_H
#define CORE_BASE_HOLD_H

/* If the environment's `variable` names a FIFO, wait until somebody opens it to write. Nothing in
 * release builds. */
void hold_here(const char *variable);

#endif
