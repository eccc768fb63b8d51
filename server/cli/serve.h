/* server/cli/serve.h - runs a server, from its settings to its end, for several commands.
 *
 * Thread: the main thread.
 * Memory: its own.
 */
#ifndef SERVER_CLI_SERVE_H
#define SERVER_CLI_SERVE_H

struct config;
struct server_batch;

/* Serve until told to stop; with a batch, listen nowhere and end with the batch. Returns an
 * exit_code, with a message. The settings are taken. argv[argc] are the arguments that they were
 * read from; on SIGHUP, without a batch, they are read again. */
int serve_run(const struct config *config, int argc, char *const *argv,
              const struct server_batch *batch);

#endif
