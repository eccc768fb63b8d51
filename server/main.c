/* server/main.c - which command; everything else is in the commands. */
#include "server/cli/command.h"

#include "core/base/mem.h"
#include "server/instance.h"
#include "server/process/startup.h"

#include <stddef.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", cmd_serve},
    {"generate", cmd_generate},
    {"score", cmd_score},
    {"inspect", cmd_inspect},
    {"tokenize", cmd_tokenize},
    {"replay", cmd_replay},
    {"bench", cmd_bench},
    {"key", cmd_key},
    {"plan", cmd_plan},
    {"pull", cmd_pull},
    {"verify", cmd_verify},
    {"batch", cmd_batch},
};

/* `quire --port 80` is `quire serve --port 80`. */
int main(int argc, char **argv)
{
    startup_open_standard_fds();
    mem_torture_attach();
    if (argc < 2 || argv[1][0] == '-')
        return cmd_serve(argc, argv);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return command_fail(
        EXIT_USAGE,
        "unknown command '%s'; the commands are serve, generate, score, inspect, "
        "tokenize, replay, bench, key, plan, pull, verify and batch (quire --help)",
        argv[1]);
}
