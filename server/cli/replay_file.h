/* server/cli/replay_file.h - runs the scheduler again from the journal in a file.
 *
 * Thread: the main thread.
 * Memory: the longest line, and the replay.
 */
#ifndef SERVER_CLI_REPLAY_FILE_H
#define SERVER_CLI_REPLAY_FILE_H

#include <stdbool.h>

struct replay;

/* Replay all lines of the journal. With `collect` the replay keeps the arrivals for a simulation
 * (replay_trace()). Returns an exit_code, with a message that names the file and the line. The
 * caller destroys *r with replay_destroy(), also after a failure. */
int replay_file(struct replay **r, const char *path, bool collect);

#endif
