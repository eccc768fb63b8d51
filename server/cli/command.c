/* server/cli/command.c - see command.h: functions that the commands share.
 *
 * Each command takes its own options out of argv first; the rest goes to config_load(), which
 * refuses options that it does not know. Models of the Hub in the settings are fetched afterwards
 * and replaced by their paths in the cache, so that other code knows only paths.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "config/models.h"
#include "core/base/buf.h"
#include "core/base/log.h"
#include "core/base/version.h"
#include "core/hub/pull.h"
#include "core/hub/reference.h"
#include "server/models/instance.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STDERR_WAIT_MS 1000

/* True: standard error can be written to without waiting. A full pipe that is not read must not
 * prevent a process from ending. */
static bool can_print(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, STDERR_WAIT_MS) > 0;
}

int command_fail(int code, const char *format, ...)
{
    va_list args;

    if (!can_print())
        return code;
    fputs("quire: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

static void drop_arguments(int *argc, char **argv, int at, int n)
{
    for (int i = at; i + n <= *argc; i++)
        argv[i] = argv[i + n];
    *argc -= n;
}

bool command_take_value(int *argc, char **argv, const char *name, const char **value)
{
    const size_t n = strlen(name);

    for (int i = 1; i < *argc; i++) {
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') {
            *value = argv[i] + n + 1;
            drop_arguments(argc, argv, i--, 1);
        } else if (strcmp(argv[i], name) == 0) {
            if (i + 1 == *argc) {
                command_fail(EXIT_USAGE, "%s needs a value", name);
                return false;
            }
            *value = argv[i + 1];
            drop_arguments(argc, argv, i--, 2);
        }
    }
    return true;
}

bool command_take_switch(int *argc, char **argv, const char *name)
{
    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], name) == 0) {
            drop_arguments(argc, argv, i, 1);
            return true;
        }
    return false;
}

bool command_take_int(int *argc, char **argv, const char *name, int64_t min, int64_t max,
                      int64_t *value)
{
    const char *text = NULL;
    char *end;

    if (!command_take_value(argc, argv, name, &text))
        return false;
    if (text == NULL)
        return true;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && *value >= min && *value <= max)
        return true;
    command_fail(EXIT_USAGE, "%s must be a whole number from %" PRId64 " to %" PRId64 ", got '%s'",
                 name, min, max, text);
    return false;
}

bool command_take_float(int *argc, char **argv, const char *name, double min, double max,
                        double *value)
{
    const char *text = NULL;
    char *end;

    if (!command_take_value(argc, argv, name, &text))
        return false;
    if (text == NULL)
        return true;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value >= min && *value <= max)
        return true;
    command_fail(EXIT_USAGE, "%s must be a number from %g to %g, got '%s'", name, min, max, text);
    return false;
}

_Static_assert((int)CONFIG_LOG_DEBUG == LOG_DEBUG && (int)CONFIG_LOG_OFF == LOG_OFF,
               "levels are in the order of their words");

/* Print versions. The version of a library comes from the library, as its header's may differ. The
 * instruction sets are the values of --isa that this CPU has. */
static void print_version(void)
{
    printf("quire %s\nlibmicrohttpd %s\ninstruction sets:", quire_version(), MHD_get_version());
    for (enum kern_isa isa = KERN_ISA_SCALAR; isa < KERN_N_ISA; isa++)
        if (kern_isa_exists(isa))
            printf(" %s", kern_isa_name(isa));
    printf("\n");
}

/* ---- models of the Hub ---- */

int command_model_path(const char *text, hub_find_fn *find, char *path, size_t size)
{
    char err[1024], found[HUB_MAX_FOUND];
    size_t n;

    if (hub_reference_is(text)) {
        if (find(text, found, err, sizeof(err)) < 0)
            return command_fail(EXIT_FAILED, "%s", err);
        text = found;
    }
    n = strlen(text) + 1;
    if (n > size)
        return command_fail(EXIT_USAGE, "%.200s...: the path is too long", text);
    memmove(path, text, n);
    return EXIT_OK;
}

/* Append an item to a list of models; one of the Hub with its name and its path in the cache. */
static int add_fetched(struct buf *list, struct model_item *item)
{
    char text[MODELS_MAX_TEXT];
    int code;

    code = command_model_path(item->path, hub_pull, item->path, sizeof(item->path));
    if (code == EXIT_OK && strchr(item->path, ',') != NULL)
        return command_fail(
            EXIT_USAGE,
            "%s: the path of a model must not contain a comma: set HF_HUB_CACHE to another folder",
            item->path);
    models_text(item, text);
    buf_printf(list, "%s%s", list->len > 0 ? "," : "", text);
    return code;
}

/* Replace every model of the Hub in the setting `model` by its path. Returns an exit_code. */
static int fetch_models(struct config *c)
{
    struct model_item item;
    struct buf list;
    char err[512];
    bool is_any = false;
    int code = EXIT_OK;

    for (uint32_t i = 0; i < config_n_models(c); i++) {
        models_get(c->model, i, &item);
        is_any |= hub_reference_is(item.path);
    }
    if (!is_any)
        return EXIT_OK;
    buf_init(&list, MODELS_MAX * MODELS_MAX_TEXT);
    for (uint32_t i = 0; i < config_n_models(c) && code == EXIT_OK; i++) {
        models_get(c->model, i, &item);
        code = add_fetched(&list, &item);
    }
    if (code == EXIT_OK && list.err < 0)
        code = command_fail(EXIT_FAILED, "no memory for the list of models");
    else if (code == EXIT_OK && config_set_models(c, list.data, err, sizeof(err)) < 0)
        code = command_fail(EXIT_USAGE, "%s", err);
    buf_release(&list);
    return code;
}

int command_config(struct config *c, int argc, char **argv, void (*help)(void), bool *done)
{
    enum config_action action;
    char err[512];
    int code = EXIT_OK;

    *done = true;
    if (config_load(c, argc, argv, &action, err, sizeof(err)) < 0)
        return command_fail(EXIT_USAGE, "%s", err);
    log_setup((enum log_level)c->log_level, c->log_format == CONFIG_LOG_JSON, STDERR_FILENO);
    if (action == CONFIG_HELP)
        help();
    else if (action == CONFIG_VERSION)
        print_version();
    else if (action == CONFIG_PRINT)
        config_print(c, stdout);
    else
        code = fetch_models(c);
    *done = action != CONFIG_RUN || code != EXIT_OK;
    if (*done)
        config_release(c);
    return code;
}
