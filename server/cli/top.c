/* server/cli/top.c - `quire top`: shows the activity of a server in a terminal.
 *
 * This file reads the options; server/top/session.c does the work.
 */
#include "server/cli/command.h"

#include "core/base/mem.h"
#include "server/models/instance.h"
#include "server/top/session.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_top_help(void)
{
    fputs("quire top [URL] [options]\n"
          "\n"
          "Shows what a server is doing and refreshes it: requests, tokens per second, steps,\n"
          "latencies and the KV cache with its owners.\n"
          "\n"
          "  URL         http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:/PATH\n"
          "              [" TOP_DEFAULT_URL "]\n"
          "  --once      print the numbers once, for a file or a pipe\n"
          "  --key       API key with admin rights, if the server needs keys [QUIRE_API_KEY]\n"
          "  --interval  seconds between two readings, from 0.2 to 60 [2]\n"
          "  --model     the model to show [all]\n"
          "  --sort      state, age, rate, prompt, generated or blocks [state]\n"
          "\n"
          "Keys: q quit, p pause, s next order, m next model, arrows and page up or down scroll.\n"
          "\n"
          "Environment: QUIRE_API_KEY; NO_COLOR; CURL_CA_BUNDLE or SSL_CERT_FILE, a file of\n"
          "certificates to trust; COLUMNS, the width that --once prints. No proxy is used.\n",
          stdout);
}

/* Wipe the key out of argv, so that lists of processes do not show it. */
static char *take_api_key(const char *argument)
{
    const char *key = argument != NULL ? argument : getenv("QUIRE_API_KEY");
    char *copy = mem_strdup(key != NULL ? key : "");

    if (argument != NULL)
        explicit_bzero((char *)(uintptr_t)argument, strlen(argument));
    return copy;
}

static int run_top(const struct top_options *options)
{
    char err[600];

    signal(SIGPIPE, SIG_IGN);
    return top_session_run(options, err, sizeof(err)) == 0 ? EXIT_OK
                                                           : command_fail(EXIT_FAILED, "%s", err);
}

int cmd_top(int argc, char **argv)
{
    const bool is_question =
        command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h");
    struct top_options options = {.url = TOP_DEFAULT_URL, .model = ""};
    const char *key = NULL, *sort = "state";
    double interval_s = 2;
    char *copy;
    int code;

    if (is_question)
        return print_top_help(), EXIT_OK;
    options.is_once = command_take_switch(&argc, argv, "--once");
    if (!command_take_value(&argc, argv, "--key", &key) ||
        !command_take_value(&argc, argv, "--model", &options.model) ||
        !command_take_value(&argc, argv, "--sort", &sort) ||
        !command_take_float(&argc, argv, "--interval", 0.2, 60, &interval_s))
        return EXIT_USAGE;
    options.interval_ms = (uint32_t)(interval_s * 1000);
    options.sort = top_sort_of(sort);
    if (options.sort == TOP_N_SORTS)
        return command_fail(EXIT_USAGE,
                            "--sort must be state, age, rate, prompt, generated or "
                            "blocks, got '%s'",
                            sort);
    if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
        return command_fail(EXIT_USAGE, "unexpected argument '%s'; see quire top --help",
                            argv[argc - 1]);
    options.url = argc == 2 ? argv[1] : options.url;
    copy = take_api_key(key);
    options.key = copy != NULL ? copy : "";
    code = run_top(&options);
    if (copy != NULL)
        explicit_bzero(copy, strlen(copy));
    mem_free(copy);
    return code;
}
