/* server/main.c - finds the command by its name and runs it.
 *
 * The table of commands is built from cli/commands.inc, one function cmd_NAME each. Before any of
 * them, main() makes sure that descriptors 0 to 2 are open, sets the mode of floating-point
 * arithmetic and attaches the tests' fault injection into the allocator.
 */
#include "core/base/fixed_text.h"
#include "server/cli/command.h"

#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "server/models/instance.h"
#include "server/process/startup.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, usage, text) {#name, cmd_##name},
#include "server/cli/commands.inc"
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int fail_unknown(const char *name)
{
    struct fixed_text names;
    char list[400];

    fixed_text_init(&names, list, sizeof(list));
    for (size_t i = 0; i < N_COMMANDS; i++)
        fixed_text_add(&names, "%s%s", i == 0 ? "" : i + 1 < N_COMMANDS ? ", " : " and ",
                       commands[i].name);
    return command_fail(EXIT_USAGE, "unknown command '%s'; the commands are %s (quire --help)",
                        name, list);
}

/* Without a command name the command is `serve`: `quire --port 80` is `quire serve --port 80`. */
int main(int argc, char **argv)
{
    startup_open_standard_fds();
    float_mode_set();
    mem_torture_attach();
    if (argc < 2 || argv[1][0] == '-')
        return cmd_serve(argc, argv);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return fail_unknown(argv[1]);
}
