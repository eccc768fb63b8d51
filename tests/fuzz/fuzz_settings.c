/* tests/fuzz/fuzz_settings.c - libFuzzer: any bytes as the file of settings.
 *
 * What is accepted has the sections that a plain look at its lines shows and all values in their
 * ranges, for every model; written as another file it gives the same settings; and --print-config
 * has a line for each. What is refused is so with a sentence.
 */
#include "tests/fuzz/scratch.h"

#include <ctype.h>

#include "config/config.h"
#include "config/models.h"
#include "config/option.h"
#include "config/setting.h"
#include "core/base/buf.h"
#include "core/base/err.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

#define MAX_TEXT ((size_t)1 << 20)

extern char **environ;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    for (uint32_t id = 0; id < OPTION_N; id++) {
        char name[64];
        const int n = snprintf(name, sizeof(name), "QUIRE_%s", option_at(id)->name);

        for (int i = 0; i < n; i++)
            name[i] = (char)toupper((unsigned char)name[i]);
        unsetenv(name);
    }
    unsetenv("QUIRE_CONFIG");
    return 0;
}

static int load(struct config *c, const char *path, const char *model, char *err, size_t err_len)
{
    char flag[MAX_TEXT / 8];
    char *argv[] = {(char *)"quire", (char *)"--config", (char *)path, flag, NULL};
    enum config_action action;

    if (model != NULL)
        require(snprintf(flag, sizeof(flag), "--model=%s", model) < (int)sizeof(flag));
    return config_load(c, model != NULL ? 4 : 3, argv, &action, err, err_len);
}

/* A value in its range says so by being accepted again. */
static void check_value(const struct config *c, uint32_t id)
{
    const struct option *o = option_at(id);
    struct config again = {0};
    char a[32], b[32];

    require(option_set(o, &again, option_show(o, c, a, sizeof(a))) == 0);
    require(strcmp(option_show(o, c, a, sizeof(a)), option_show(o, &again, b, sizeof(b))) == 0);
    option_release(o, &again);
}

static uint32_t count_sections(const char *text)
{
    uint32_t n = 0;

    while (scratch_section(&text) != NULL)
        n++;
    return n;
}

static void write_values(const struct config *c, enum option_scope scope, struct buf *out)
{
    char value[32];

    for (uint32_t id = 0; id < OPTION_N; id++)
        if (id != OPTION_ID_model && option_at(id)->scope >= scope)
            buf_printf(out, "%s=%s\n", option_at(id)->name,
                       option_show(option_at(id), c, value, sizeof(value)));
}

/* All that is in force, as a file: the lists of models may be longer than a line of it. */
static void write_all(const struct config *c, struct buf *out)
{
    char err[200];

    write_values(c, OPTION_SERVER, out);
    for (uint32_t i = 0; i < config_n_models(c); i++) {
        struct model_item item;
        struct config own;

        models_get(c->model, i, &item);
        if (setting_section(c, item.name) == NULL)
            continue;
        require(config_model(&own, c, i, err, sizeof(err)) == 0);
        buf_printf(out, "[%s]\n", item.name);
        write_values(&own, OPTION_MODEL, out);
        config_release(&own);
    }
    require(out->err == 0);
}

static void check_same(const struct config *a, const struct config *b)
{
    char x[32], y[32];

    for (uint32_t id = 0; id < OPTION_N; id++)
        require(strcmp(option_show(option_at(id), a, x, sizeof(x)),
                       option_show(option_at(id), b, y, sizeof(y))) == 0);
}

static void check_again(const struct config *c)
{
    char err[600];
    struct config again, own[2];
    struct buf text;

    buf_init(&text, MAX_TEXT);
    write_all(c, &text);
    require(load(&again, scratch_write("again", text.data, text.len), c->model, err,
                 sizeof(err)) == 0);
    check_same(c, &again);
    require(config_n_models(c) == config_n_models(&again));
    for (uint32_t i = 0; i < config_n_models(c); i++) {
        require(config_model(&own[0], c, i, err, sizeof(err)) == 0);
        require(config_model(&own[1], &again, i, err, sizeof(err)) == 0);
        for (uint32_t id = 0; id < OPTION_N; id++)
            check_value(&own[0], id);
        check_same(&own[0], &own[1]);
        config_release(&own[0]);
        config_release(&own[1]);
    }
    config_release(&again);
    buf_release(&text);
}

static void check_printed(const struct config *c)
{
    char *text = NULL, *at, value[32];
    size_t n;
    FILE *out = open_memstream(&text, &n);

    require(out != NULL);
    config_print(c, out);
    fclose(out);
    at = text;
    for (uint32_t id = 0; id < OPTION_N; id++) {
        const struct option *o = option_at(id);
        const char *shown = option_show(o, c, value, sizeof(value));

        require(strncmp(at, o->name, strlen(o->name)) == 0);
        at = strstr(at, " = ");
        require(at != NULL && strncmp(at + 3, shown, strlen(shown)) == 0);
        at = strchr(at + 3 + strlen(shown), '\n');
        require(at != NULL);
        at++;
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = scratch_write("settings", data, n);
    char err[600] = "", *text = calloc(1, n + 1);
    struct config c;

    require(text != NULL);
    memcpy(text, data, n);
    if (load(&c, path, NULL, err, sizeof(err)) == 0) {
        require(memchr(data, '\0', n) == NULL);
        require(count_sections(text) == c.source->n_sections);
        for (uint32_t i = 0; i < c.source->n_sections; i++)
            require(setting_section(&c, c.source->sections[i]->name) == c.source->sections[i]);
        check_printed(&c);
        check_again(&c);
        config_release(&c);
    } else {
        require(c.source == NULL && err[0] != '\0');
    }
    free(text);
    return 0;
}
