/* server/cli/low_priority.h - runs work at a lower priority than steps. Thread: any that may wait.
 * Memory: a thread for as long as the work takes.
 */
#ifndef SERVER_CLI_LOW_PRIORITY_H
#define SERVER_CLI_LOW_PRIORITY_H

/* Run the work and return when it is done. Threads that it starts have the low priority too. */
void low_priority_run(void (*work)(void *ud), void *ud);

#endif
