/* config/config_load.c - defaults < file < environment < flags; see config.h.
 *
 * Layers are applied in ascending order, each overwriting the values of those below and noting
 * where a value came from. The flags are read twice: first only to find --config, --help and
 * --version, since the file must be read before the flags' values are applied. A model's section
 * counts as part of the file: it yields to variables and flags (setting_holder()).
 */
#include "config/config.h"

#include "config/config_impl.h"
#include "config/models.h"
#include "config/models_dir.h"
#include "config/setting.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the layers ---- */

static int load_defaults(struct config *c)
{
    for (uint32_t id = 0; id < OPTION_N; id++) {
        struct setting_origin *origin = &c->source->of[id];

        if (option_set_default(option_at(id), c) < 0)
            return ERR_NOMEM;
        origin->layer = SETTING_DEFAULT;
        snprintf(origin->where, sizeof(origin->where), "default");
    }
    return 0;
}

static int load_environment(const struct setting *s)
{
    for (uint32_t id = 0; id < OPTION_N; id++) {
        const char *setting = option_at(id)->name;
        char name[64] = "QUIRE_";
        const char *value;
        size_t n = strlen(name);

        for (const char *p = setting; *p != '\0' && n + 1 < sizeof(name); p++)
            name[n++] = (char)toupper((unsigned char)*p);
        name[n] = '\0';
        value = getenv(name);
        if (value != NULL) {
            const int rc = setting_apply(s, setting, name, value);

            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* A parsed flag of the command line: --kv-memory=1g or --kv-memory 1g. */
struct flag {
    char name[64];     /* kv_memory */
    char shown[68];    /* --kv-memory */
    const char *value; /* NULL when there is none */
    int used;          /* arguments consumed */
};

static int read_setting_flag(const struct setting *s, int argc, char *const *argv, int i,
                             struct flag *f)
{
    const char *arg = argv[i], *eq = strchr(arg, '=');
    const size_t n = eq != NULL ? (size_t)(eq - arg) : strlen(arg);

    if (strncmp(arg, "--", 2) != 0 || n < 3 || n - 2 >= sizeof(f->name)) {
        snprintf(s->err, s->err_len, "unexpected argument '%s'; a setting is --name value", arg);
        return ERR_INVAL;
    }
    for (size_t j = 2; j < n; j++)
        f->name[j - 2] = arg[j];
    f->name[n - 2] = '\0';
    snprintf(f->shown, sizeof(f->shown), "--%s", f->name);
    for (char *p = f->name; *p != '\0'; p++)
        *p = *p == '-' ? '_' : *p;
    f->value = eq != NULL ? eq + 1 : i + 1 < argc ? argv[i + 1] : NULL;
    f->used = eq != NULL ? 1 : 2;
    return 0;
}

static bool read_action(const char *arg, enum config_action *action)
{
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
        *action = CONFIG_HELP;
    else if (strcmp(arg, "--version") == 0)
        *action = CONFIG_VERSION;
    else if (strcmp(arg, "--print-config") == 0)
        *action = CONFIG_PRINT;
    else
        return false;
    return true;
}

/* One pass over the flags: with `file` not NULL it only looks for --config, otherwise it applies
 * the settings. */
static int load_flags(const struct setting *s, int argc, char *const *argv,
                      enum config_action *action, const char **file)
{
    for (int i = 1; i < argc;) {
        struct flag f;
        int rc = 0;

        if (read_action(argv[i], action)) {
            i++;
            continue;
        }
        rc = read_setting_flag(s, argc, argv, i, &f);
        if (rc < 0)
            return rc;
        if (f.value == NULL && (strcmp(f.name, "config") == 0 || option_find(f.name) != OPTION_N)) {
            snprintf(s->err, s->err_len, "%s needs a value", f.shown);
            return ERR_INVAL;
        }
        if (strcmp(f.name, "config") == 0) {
            if (file != NULL)
                *file = f.value;
        } else if (file == NULL) {
            rc = setting_apply(s, f.name, f.shown, f.value != NULL ? f.value : "");
        }
        if (rc < 0)
            return rc;
        i += f.used;
    }
    return 0;
}

static int load_settings(struct setting *s, int argc, char *const *argv, enum config_action *action)
{
    const char *file = getenv("QUIRE_CONFIG");
    bool is_question;
    int rc = load_defaults(s->config);

    s->layer = SETTING_FLAG;
    s->where = "command line";
    if (rc == 0)
        rc = load_flags(s, argc, argv, action, &file);
    /* --help must answer even if the file or a variable is invalid. */
    is_question = *action == CONFIG_HELP || *action == CONFIG_VERSION;
    s->layer = SETTING_FILE;
    if (rc == 0 && file != NULL && !is_question)
        rc = config_file_load(s, file);
    if (rc == 0 && file != NULL)
        snprintf(s->config->source->path, sizeof(s->config->source->path), "%s", file);
    s->layer = SETTING_ENVIRONMENT;
    s->where = "environment";
    if (rc == 0 && !is_question)
        rc = load_environment(s);
    s->layer = SETTING_FLAG;
    s->where = "command line";
    return rc == 0 ? load_flags(s, argc, argv, action, NULL) : rc;
}

/* Append the models of models_dir to those of `model`, unless a later layer than models_dir's set
 * `model`: then that list is complete. */
static int add_folder(const struct setting *s)
{
    struct config *c = s->config;
    struct buf list;
    int rc = 0;

    if (c->models_dir[0] == '\0' || c->source->of[OPTION_ID_model].layer >
                                        c->source->of[OPTION_ID_models_dir].layer)
        return 0;
    buf_init(&list, 2 * MODELS_MAX * MODELS_MAX_TEXT);
    buf_add_str(&list, c->model);
    rc = models_dir_add(c->models_dir, &list, s->err, s->err_len);
    if (rc == 0 && list.len == 0) {
        snprintf(s->err, s->err_len,
                 "'models_dir' '%.300s' has no model, and 'model' is empty; put a .gguf file or a "
                 "model's folder there",
                 c->models_dir);
        rc = ERR_INVAL;
    }
    if (rc == 0)
        rc = option_set(option_at(OPTION_ID_model), c, list.data);
    buf_release(&list);
    return rc;
}

static int check_settings(const struct setting *s)
{
    int rc = add_folder(s);

    if (rc == 0)
        rc = models_check(s->config->model, s->err, s->err_len);
    if (rc > 0)
        rc = config_file_check_sections(s);
    return rc == 0 ? config_check_models(s->config, s->err, s->err_len) : rc;
}

int config_load(struct config *c, int argc, char *const *argv, enum config_action *action,
                char *err, size_t err_len)
{
    struct setting s = {.config = c, .err = err, .err_len = err_len};
    int rc;

    *action = CONFIG_RUN;
    snprintf(err, err_len, "no memory for the settings");
    rc = setting_init(c);
    if (rc == 0)
        rc = load_settings(&s, argc, argv, action);
    if (rc == 0)
        rc = check_settings(&s);
    if (rc < 0)
        config_release(c);
    return rc;
}

void config_release(struct config *c)
{
    setting_release(c);
}

/* ---- models ---- */

uint32_t config_n_models(const struct config *c)
{
    char err[8]; /* the list was checked already */
    const int n = models_check(c->model, err, sizeof(err));

    return n > 0 ? (uint32_t)n : 1;
}

int config_set_models(struct config *c, const char *list, char *err, size_t err_len)
{
    const int n = models_check(list, err, err_len);

    if (n < 0)
        return n;
    if (option_set(option_at(OPTION_ID_model), c, list) == 0)
        return 0;
    snprintf(err, err_len, "no memory for the list of models");
    return ERR_NOMEM;
}

static int copy_values(struct config *out, const struct config *c, const char *model)
{
    const struct config_section *section = setting_section(c, model);
    int rc = setting_init(out);

    for (uint32_t id = 0; rc == 0 && id < OPTION_N; id++) {
        const struct config *from = setting_holder(c, section, id);

        out->source->of[id] = from->source->of[id];
        rc = option_copy(option_at(id), out, from);
    }
    return rc;
}

int config_model(struct config *out, const struct config *c, uint32_t i, char *err, size_t err_len)
{
    char text[MODELS_MAX_TEXT];
    struct model_item item;
    int rc;

    models_get(c->model, i, &item);
    models_text(&item, text);
    rc = copy_values(out, c, item.name);
    if (rc == 0)
        rc = option_set(option_at(OPTION_ID_model), out, text);
    if (rc == 0 && out->load == CONFIG_LOAD_AUTO)
        out->load = models_dir_has(c->models_dir, item.path) ? CONFIG_LOAD_DEMAND
                                                             : CONFIG_LOAD_START;
    if (rc == 0)
        return 0;
    snprintf(err, err_len, "no memory for the settings of the model '%s'", item.name);
    config_release(out);
    return rc;
}
