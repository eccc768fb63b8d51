/* server/cli/serve.h - a server from its settings to its end, for the commands that need one.
 *
 * Thread: the main thread.
 * Memory: its own.
 */
#ifndef SERVER_CLI_SERVE_H
#define SERVER_CLI_SERVE_H

struct config;
struct server_batch;

/* Serve until told to stop. With a batch nobody is listened to: the server ends with it. An
 * exit_code, with a message. The settings are taken; argv [argc] is what they were read from, and
 * is read again on SIGHUP, without a batch. */
int serve_run(const struct config *config, int argc, char *const *argv,
              const struct server_batch *batch);

#endif
