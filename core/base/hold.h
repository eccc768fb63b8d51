/* core/base/hold.h - points at which tests can hold a thread, in debug builds only.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_HOLD_H
#define CORE_BASE_HOLD_H

/* If the environment's `variable` names a FIFO, wait until a test has opened it to write and
 * closed it again. Nothing in release builds. */
void hold_here(const char *variable);

#endif
