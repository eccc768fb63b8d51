/* tests/unit/config/settings.h - settings from a command line, the environment and a file, and what
 * is said of them.
 *
 * Thread: one.
 * Memory: what LOAD() has loaded is in `config`; the test releases it.
 */
#ifndef TESTS_UNIT_CONFIG_SETTINGS_H
#define TESTS_UNIT_CONFIG_SETTINGS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every setting of the table, with the scope that it has there. */
static const struct {
    const char *name, *scope;
} setting_names[] = {
#define STR(sc, n, ...) {#n, #sc},
#define INT STR
#define SIZE STR
#define ENUM STR
#define NUM STR
#include "config/options.inc"
#undef STR
#undef INT
#undef SIZE
#undef ENUM
#undef NUM
};
#define N_SETTINGS (sizeof(setting_names) / sizeof(setting_names[0]))

static struct config config;
static enum config_action action;
static char err[512];
static char file_path[64];

static inline int load(int argc, const char **argv)
{
    err[0] = '\0';
    return config_load(&config, argc, (char *const *)argv, &action, err, sizeof(err));
}

#define LOAD(...) load_list(__VA_ARGS__, NULL)
static inline int load_list(const char *first, ...)
{
    const char *argv[16] = {"quire", first};
    int argc = first != NULL ? 2 : 1;
    va_list list;

    va_start(list, first);
    while (first != NULL && argc < 15 && (argv[argc] = va_arg(list, const char *)) != NULL)
        argc++;
    va_end(list);
    return load(argc, argv);
}

static inline void assert_ok(int rc)
{
    if (rc != 0)
        fail_msg("%s", err);
    config_release(&config);
}

/* Refused, and the sentence holds all of the words. */
#define assert_refused(rc, ...) assert_refused_with((rc), (const char *const[]){__VA_ARGS__, NULL})
static inline void assert_refused_with(int rc, const char *const *words)
{
    assert_int_equal(rc, ERR_INVAL);
    assert_null(config.source);
    for (; *words != NULL; words++)
        if (strstr(err, *words) == NULL)
            fail_msg("'%s' is not in: %s", *words, err);
}

/* For loops over failing allocations: what was loaded stays, or nothing is. */
static inline void assert_loads_or_lacks_memory(int rc)
{
    assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
    if (rc == 0)
        return;
    assert_non_null(strstr(err, "no memory"));
    assert_null(config.source);
    assert_null(config.model);
}

static inline void write_file(const char *text)
{
    FILE *f;

    snprintf(file_path, sizeof(file_path), "/tmp/quire-config-%d.conf", (int)getpid());
    f = fopen(file_path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline char *variable_name(const char *name, char *out, size_t size)
{
    snprintf(out, size, "QUIRE_%s", name);
    for (char *p = out; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    return out;
}

/* `name = value # source` of --print-config, blanks squeezed, for one name. */
static inline void printed(const char *name, char *out, size_t size)
{
    char *text = NULL;
    size_t bytes, n = 0;
    FILE *f = open_memstream(&text, &bytes);

    assert_non_null(f);
    config_print(&config, f);
    fclose(f);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, strlen(name)) != 0 || line[strlen(name)] != ' ')
            continue;
        for (; *line != '\n' && n + 1 < size; line++)
            if (*line != ' ' || n == 0 || out[n - 1] != ' ')
                out[n++] = *line;
        break;
    }
    out[n] = '\0';
    free(text);
}

static inline void assert_printed(const char *name, const char *expected)
{
    char line[256];

    printed(name, line, sizeof(line));
    assert_string_equal(line, expected);
}

static inline int clean_environment(void **state)
{
    char variable[64];

    (void)state;
    unsetenv("QUIRE_CONFIG");
    for (size_t i = 0; i < N_SETTINGS; i++)
        unsetenv(variable_name(setting_names[i].name, variable, sizeof(variable)));
    return 0;
}

static inline int remove_file(void **state)
{
    (void)state;
    unlink(file_path);
    return 0;
}

#endif
