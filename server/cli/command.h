/* server/cli/command.h - the commands of the program, each with its own main function.
 *
 * argv[0] is the command's name. A command prints its own errors ("quire: ...", on standard
 * error) and returns the exit code (instance.h): 0, 1 after a failure, 2 for wrong usage.
 *
 * Thread: the main thread.
 * Memory: each command frees what it took.
 */
#ifndef SERVER_CLI_COMMAND_H
#define SERVER_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Declare cmd_serve(), cmd_generate(), ...: see commands.inc. */
#define COMMAND(name, usage, text) int cmd_##name(int argc, char **argv);
#include "core/hub/cached.h"
#include "server/cli/commands.inc"

/* Take `--name value` (or --name=value) out of the arguments; without it *value is not changed.
 * False, with a message, when the value is missing. */
bool command_take_value(int *argc, char **argv, const char *name, const char **value);
/* Take `--name` out of the arguments. True: it was there. */
bool command_take_switch(int *argc, char **argv, const char *name);
/* Take `--name value` out, where the value is a number in a range; false, with a message, for any
 * other value. */
bool command_take_int(int *argc, char **argv, const char *name, int64_t min, int64_t max,
                      int64_t *value);
bool command_take_float(int *argc, char **argv, const char *name, double min, double max,
                        double *value);

/* Print "quire: <message>" on standard error; returns `code`. */
int command_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copy a path, or fetch a model of the Hub and write its path in the cache: at most size - 1 bytes;
 * `path` may be the same memory as `text`. Returns an exit_code, with a message. */
int command_model_path(const char *text, hub_find_fn *find, char *path, size_t size);

struct config;
/* Call config_load() for a command: --help, --version and --print-config are handled here (then
 * *done is true and the exit code is returned). Models of the Hub are fetched, and replaced by
 * their paths. */
int command_config(struct config *c, int argc, char **argv, void (*help)(void), bool *done);

#endif
