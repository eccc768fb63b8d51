/* server/process/hold.h - places of a start at which a test can hold the process.
 *
 * Debug build only. QUIRE_DEBUG_HOLD_LOAD: before models are loaded. QUIRE_DEBUG_HOLD_READ: when a
 * model's files are open and checked, before they are read.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_HOLD_H
#define SERVER_PROCESS_HOLD_H

/* Wait until somebody has opened the FIFO that this variable of the environment names to write, and
 * closed it again. */
void hold(const char *variable);

#endif
