/* config/config_print.c - prints the settings in force, and the options part of --help.
 *
 * Both are loops over the rows of options.inc, so a new setting appears in them by itself. --help
 * shows the defaults, of a config that was never loaded. Values are printed in the form in which
 * they can be read again.
 */
#include "config/config.h"

#include "config/setting.h"

#include <assert.h>
#include <string.h>

static void print_value(const struct config *c, uint32_t id, FILE *out)
{
    const struct option *o = option_at(id);
    char buf[32];

    fprintf(out, "%-19s = %-12s # %s\n", o->name, option_show(o, c, buf, sizeof(buf)),
            c->source->of[id].where);
}

static void print_section(const struct config *c, const struct config_section *section, FILE *out)
{
    fprintf(out, "\n[%s]\n", section->name);
    for (uint32_t id = 0; id < OPTION_N; id++)
        if (section->values.source->of[id].layer != SETTING_NONE)
            print_value(setting_holder(c, section, id), id, out);
}

const char *config_show(const struct config *c, const char *name, char *buf, size_t size)
{
    const uint32_t id = option_find(name);

    assert(id < OPTION_N);
    return option_show(option_at(id), c, buf, size);
}

void config_print(const struct config *c, FILE *out)
{
    const uint32_t n = config_n_models(c);

    for (uint32_t id = 0; id < OPTION_N; id++)
        print_value(c, id, out);
    for (uint32_t i = 0; i < n; i++) {
        const struct config_section *section;
        struct model_item item;

        models_get(c->model, i, &item);
        section = setting_section(c, item.name);
        if (section != NULL)
            print_section(c, section, out);
    }
}

#define HELP_COLUMN 25
#define HELP_WIDTH 80

/* Print the text from `column` on, and its further lines from HELP_COLUMN, broken between words. */
static void print_wrapped(const char *text, size_t column, FILE *out)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, " ");

        if (column > HELP_COLUMN && column + n > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        fprintf(out, "%.*s", (int)n, text);
        column += n;
        text += n;
        if (*text == ' ') {
            text++;
            if (column + 1 + strcspn(text, " ") <= HELP_WIDTH)
                fputc(' ', out);
            column++;
        }
    }
    fputc('\n', out);
}

static void print_option(const struct option *o, const struct config *c, FILE *out)
{
    char flag[64], buf[32], text[300];
    const char *value = option_show(o, c, buf, sizeof(buf));
    const int n = snprintf(flag, sizeof(flag), "--%s", o->name);

    for (int j = 2; j < n; j++)
        flag[j] = flag[j] == '_' ? '-' : flag[j];
    snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", o->help, value[0] != '\0' ? " [" : "", value,
             value[0] != '\0' ? "]" : "", o->words != NULL ? " (" : "",
             o->words != NULL ? o->words : "", o->words != NULL ? ")" : "");
    fprintf(out, "  %-22s ", flag);
    print_wrapped(text, n > HELP_COLUMN - 3 ? (size_t)n + 3 : HELP_COLUMN, out);
}

void config_print_help(FILE *out)
{
    struct config c = {0}; /* gets the defaults; origins are not needed */

    for (uint32_t id = 0; id < OPTION_N; id++) {
        const struct option *o = option_at(id);

        if (option_set_default(o, &c) < 0)
            break; /* no memory */
        print_option(o, &c, out);
    }
    setting_release(&c);
}
