/* config/config_file.c - see config_impl.h.
 *
 * inih splits lines into names and values. It reads them through read_ini_line(), which counts
 * lines and reads section heads itself, because inih cuts their names and does not report empty
 * sections. Each section [NAME] gets a config of its own; its lines go there, and lines above the
 * first section into the main config. The first error stops inih and is kept in `rc`, with its
 * sentence in `err`.
 */
#include "config/config_impl.h"

#include "config/setting.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/ini_line.h"
#include "core/base/mem.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct file_state {
    FILE *file;
    const char *path;
    int line;
    int rc;
    struct setting setting;         /* destination of lines outside of sections */
    struct config_section *section; /* section that lines belong to, or NULL */
    char where[SETTING_WHERE];
};

static int refuse_file_line(struct file_state *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write the error sentence after "quire.conf:7: ", and make it the file's result. */
static int refuse_file_line(struct file_state *f, const char *format, ...)
{
    const struct setting *s = &f->setting;
    int n = snprintf(s->err, s->err_len, "%s: ", f->where);
    va_list args;

    n = n < (int)s->err_len ? n : (int)s->err_len;
    va_start(args, format);
    vsnprintf(s->err + n, s->err_len - (size_t)n, format, args);
    va_end(args);
    f->rc = ERR_INVAL;
    return f->rc;
}

/* ---- sections ---- */

static int add_section(struct file_state *f, const char *name)
{
    struct config_source *source = f->setting.config->source;
    struct config_section *section = mem_calloc(1, sizeof(*section));

    if (section == NULL || setting_init(&section->values) < 0) {
        mem_free(section);
        snprintf(f->setting.err, f->setting.err_len, "no memory for the section [%s]", name);
        f->rc = ERR_NOMEM;
        return f->rc;
    }
    snprintf(section->name, sizeof(section->name), "%s", name);
    snprintf(section->where, sizeof(section->where), "%s", f->where);
    source->sections[source->n_sections++] = section;
    f->section = section;
    return 0;
}

/* Begin the section of a line that begins with '['. Without a ']' the line is left to inih, which
 * refuses it. */
static int begin_section(struct file_state *f, const char *line)
{
    const struct config_source *source = f->setting.config->source;
    const char *end = strchr(line, ']');
    const size_t len = end != NULL ? (size_t)(end - line - 1) : 0;
    const struct config_section *other;
    char name[MODELS_MAX_NAME + 1];

    if (end == NULL)
        return 0;
    if (strchr("\r\n;#", end[1 + strspn(end + 1, " \t")]) == NULL) /* a NUL is found too */
        return refuse_file_line(
            f, "there is text after the section's ']'; a setting needs a line of its own");
    if (len > MODELS_MAX_NAME)
        return refuse_file_line(f,
                                "the section's name has %zu bytes, but a model's name has at most "
                                "%d: give the model a shorter name with NAME=PATH",
                                len, MODELS_MAX_NAME);
    snprintf(name, sizeof(name), "%.*s", (int)len, line + 1);
    other = setting_section(f->setting.config, name);
    if (other != NULL)
        return refuse_file_line(f, "section [%s] occurs twice; the first one is at %s", name,
                                other->where);
    if (source->n_sections == MODELS_MAX)
        return refuse_file_line(f,
                                "there are too many sections at [%s]: at most %d models are served",
                                name, MODELS_MAX);
    return add_section(f, name);
}

/* ---- lines ---- */

/* Set the place that error sentences name. Of a long path the end is kept, so that the line number
 * is never cut. */
static void set_where(struct file_state *f)
{
    const size_t n = strlen(f->path);

    snprintf(f->where, sizeof(f->where), "%s:%d", n > 120 ? f->path + n - 120 : f->path, f->line);
}

static void refuse_line(struct file_state *f, int rc, int size)
{
    if (rc == ERR_LIMIT)
        refuse_file_line(f, "the line is longer than %d bytes", size - 2);
    else if (rc == ERR_FORMAT)
        refuse_file_line(f, "the line contains a NUL byte");
    else { /* for example a directory */
        snprintf(f->setting.err, f->setting.err_len, "cannot read the configuration file '%s': %s",
                 f->path, strerror(errno));
        f->rc = ERR_INVAL;
    }
}

/* The reader that inih calls: counts lines, and reads the heads of sections. */
static char *read_ini_line(char *line, int size, void *stream)
{
    struct file_state *f = stream;
    const int rc = ini_line_read(line, size, f->file, f->line == 0);

    f->line++;
    set_where(f);
    if (rc < 0)
        refuse_line(f, rc, size);
    if (rc <= 0)
        return NULL;
    return line[0] != '[' || begin_section(f, line) == 0 ? line : NULL;
}

static int check_scope(struct file_state *f, const char *name)
{
    const uint32_t id = option_find(name);

    if (id == OPTION_N || id == OPTION_ID_model || option_at(id)->scope == OPTION_MODEL)
        return 0;
    return refuse_file_line(
        f, "'%s' in section [%s] is a setting of the whole server: move it above the first section",
        name, f->section->name);
}

/* Apply `model` in a section: it is that model's path and is appended to the list of models, if the
 * file has one. */
static int add_model_section(struct file_state *f, const struct setting *s, const char *path)
{
    const struct config *c = f->setting.config;
    const bool is_first = c->source->of[OPTION_ID_model].layer != SETTING_FILE;
    struct buf list;

    if (!models_is_name(f->section->name, strlen(f->section->name)))
        return refuse_file_line(f, "'model' in section [%s]: " MODELS_NAME_RULE, f->section->name);
    if (!is_first && models_find(c->model, f->section->name) >= 0)
        return refuse_file_line(f, "'model' in section [%s]: another model already has this name",
                                f->section->name);
    if (strchr(path, ',') != NULL)
        return refuse_file_line(f, "'model' in section [%s] must be one path, without a comma",
                                f->section->name);
    buf_init(&list, 2 * MODELS_MAX * MODELS_MAX_TEXT);
    if (!is_first) /* an empty list is the demo model */
        buf_printf(&list, "%s,", c->model[0] != '\0' ? c->model : MODELS_DEMO "=");
    buf_printf(&list, "%s=%s", f->section->name, path);
    f->rc = list.err == 0 ? setting_apply(s, "model", "model", list.data) : list.err;
    buf_release(&list);
    return f->rc;
}

/* Handle a pair. inih's name of the section may be cut, so f->section is used instead. */
static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct file_state *f = user;
    struct setting s = f->setting;

    (void)section;
    if (f->rc < 0 || (f->section != NULL && check_scope(f, name) < 0))
        return 0;
    s.where = f->where;
    if (f->section != NULL && option_find(name) == OPTION_ID_model)
        return add_model_section(f, &s, value) == 0;
    if (f->section != NULL)
        s.config = &f->section->values;
    f->rc = setting_apply(&s, name, name, value);
    return f->rc == 0;
}

/* ---- the file ---- */

/* Mark sections whose models the file lists. Flags or variables may name other models; the file is
 * valid all the same. */
static void mark_listed(const struct config *c)
{
    if (c->source->of[OPTION_ID_model].layer != SETTING_FILE)
        return;
    for (uint32_t i = 0; i < c->source->n_sections; i++) {
        struct config_section *section = c->source->sections[i];

        section->is_listed = models_find(c->model, section->name) >= 0;
    }
}

/* f is passed to both the reader (as `stream`) and the handler (as `user`). */
int config_file_load(const struct setting *s, const char *path)
{
    struct file_state f = {.path = path, .setting = *s};
    int bad_line;

    f.file = fopen(path, "re");
    if (f.file == NULL) {
        snprintf(s->err, s->err_len, "cannot open the configuration file '%s': %s", path,
                 strerror(errno));
        return ERR_INVAL;
    }
    bad_line = ini_parse_stream(read_ini_line, &f, on_pair, &f);
    fclose(f.file);
    if (f.rc == 0 && bad_line > 0) {
        snprintf(s->err, s->err_len, "%s:%d: the line does not have the form name = value", path,
                 bad_line);
        f.rc = ERR_INVAL;
    }
    if (f.rc == 0)
        mark_listed(s->config);
    return f.rc;
}

int config_file_check_sections(const struct setting *s)
{
    const struct config *c = s->config;
    char names[256]; /* longer lists are cut */

    for (uint32_t i = 0; i < c->source->n_sections; i++) {
        const struct config_section *section = c->source->sections[i];

        if (section->is_listed || models_find(c->model, section->name) >= 0)
            continue;
        models_names(c->model, names, sizeof(names));
        snprintf(s->err, s->err_len,
                 "%s: section [%s] names none of the served models (%s), and has no 'model'",
                 section->where, section->name, names);
        return ERR_INVAL;
    }
    return 0;
}
