/* server/cli/low_priority.h - work beside steps, which come first.
 *
 * Thread: any that may wait.
 * Memory: a thread for as long as the work takes.
 */
#ifndef SERVER_CLI_LOW_PRIORITY_H
#define SERVER_CLI_LOW_PRIORITY_H

/* Do it, and return when it is done. The threads that it makes have the low priority too. */
void low_priority_run(void (*work)(void *ud), void *ud);

#endif
