/* server/main.c - which command; everything else is in the commands. */
#include "core/base/fixed_text.h"
#include "server/cli/command.h"

#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "server/instance.h"
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

/* `quire --port 80` is `quire serve --port 80`. */
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
