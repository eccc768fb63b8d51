/* config/config.c - defaults < file < environment < flags; see config.h. */
#include "config/config.h"

#include "config/together.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum option_type { OPTION_STR, OPTION_INT, OPTION_SIZE, OPTION_ENUM };

struct option {
    const char *name;
    enum option_type type;
    size_t offset;      /* of the member in struct config */
    const char *def;    /* STR, ENUM */
    int64_t num, min;   /* INT and SIZE: default and range */
    uint64_t max;
    const char *words;  /* ENUM: "a|b|c" */
    const char *help;
};

static const struct option options[] = {
#define ROW(n, t, h, ...)                                                                          \
    {.name = #n, .type = t, .offset = offsetof(struct config, n), .help = h, __VA_ARGS__},
#define STR(n, d, h) ROW(n, OPTION_STR, h, .def = d)
#define INT(n, d, lo, hi, h) ROW(n, OPTION_INT, h, .num = d, .min = lo, .max = hi)
#define SIZE(n, d, lo, hi, h) ROW(n, OPTION_SIZE, h, .num = d, .min = lo, .max = hi)
#define ENUM(n, d, w, h) ROW(n, OPTION_ENUM, h, .def = d, .words = w)
#include "config/options.inc"
#undef ROW
#undef STR
#undef INT
#undef SIZE
#undef ENUM
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

struct config_source {
    char text[N_OPTIONS][160]; /* "default", "file quire.conf:7", "environment", "flag" */
};

/* What a value is being read for: the sentences need it. */
struct setting {
    struct config *config;
    const char *where;
    char *err;
    size_t err_len;
};

/* ---- values ---- */

int config_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    char *end;
    uint64_t n;

    if (!isdigit((unsigned char)*text))
        return ERR_INVAL;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno == ERANGE)
        return ERR_RANGE;
    if (*end != '\0') {
        const char *unit = strchr(units, tolower((unsigned char)*end));

        if (unit == NULL || end[1] != '\0')
            return ERR_INVAL;
        for (const char *u = units; u <= unit; u++)
            if (__builtin_mul_overflow(n, 1024u, &n))
                return ERR_RANGE;
    }
    *out = n;
    return 0;
}

static int parse_int(const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)*text))
        return ERR_INVAL;
    return errno == ERANGE ? ERR_RANGE : 0;
}

static bool has_word(const char *words, const char *word)
{
    const size_t n = strcspn(word, "|");

    if (word[n] != '\0')
        return false;
    for (const char *w = words; w != NULL; w = strchr(w, '|') != NULL ? strchr(w, '|') + 1 : NULL)
        if (n > 0 && strncmp(w, word, n) == 0 && (w[n] == '|' || w[n] == '\0'))
            return true;
    return false;
}

/* 512m for 536870912; plain digits when no unit divides it. */
static void format_size(char *buf, size_t size, uint64_t n)
{
    static const char units[] = "tgmk";

    for (int i = 0; i < 4; i++) {
        const int shift = 40 - 10 * i;

        if (n >= (uint64_t)1 << shift && (n & (((uint64_t)1 << shift) - 1)) == 0) {
            snprintf(buf, size, "%" PRIu64 "%c", n >> shift, units[i]);
            return;
        }
    }
    snprintf(buf, size, "%" PRIu64, n);
}

static void describe_allowed(const struct option *o, char *buf, size_t size)
{
    char lo[32], hi[32];

    switch (o->type) {
    case OPTION_STR:
        snprintf(buf, size, "any text");
        break;
    case OPTION_ENUM:
        snprintf(buf, size, "one of %s", o->words);
        break;
    case OPTION_INT:
        snprintf(buf, size, "a whole number from %" PRId64 " to %" PRIu64, o->min, o->max);
        break;
    case OPTION_SIZE:
        format_size(lo, sizeof(lo), (uint64_t)o->min);
        format_size(hi, sizeof(hi), o->max);
        snprintf(buf, size, "a size from %s to %s, such as 512m", lo, hi);
        break;
    }
}

static void *target(struct config *c, const struct option *o)
{
    return (char *)c + o->offset;
}

static int set_string(struct config *c, const struct option *o, const char *value)
{
    char **text = target(c, o);
    char *copy = mem_strdup(value);

    if (copy == NULL)
        return ERR_NOMEM;
    mem_free(*text);
    *text = copy;
    return 0;
}

static int set_value(struct config *c, const struct option *o, const char *value)
{
    int64_t n;
    uint64_t size;
    int rc = 0;

    switch (o->type) {
    case OPTION_STR:
        return set_string(c, o, value);
    case OPTION_ENUM:
        return has_word(o->words, value) ? set_string(c, o, value) : ERR_INVAL;
    case OPTION_INT:
        rc = parse_int(value, &n);
        if (rc == 0 && (n < o->min || (n > 0 && (uint64_t)n > o->max)))
            rc = ERR_RANGE;
        if (rc == 0)
            *(int64_t *)target(c, o) = n;
        return rc;
    case OPTION_SIZE:
        rc = config_parse_size(value, &size);
        if (rc == 0 && (size < (uint64_t)o->min || size > o->max))
            rc = ERR_RANGE;
        if (rc == 0)
            *(uint64_t *)target(c, o) = size;
        return rc;
    }
    return ERR_INTERNAL;
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static int apply(const struct setting *s, const char *name, const char *shown, const char *value)
{
    const struct option *o = find_option(name);
    char allowed[200];
    int rc;

    if (o == NULL) {
        snprintf(s->err, s->err_len, "%s: unknown setting '%s'; --help lists them all", s->where,
                 shown);
        return ERR_INVAL;
    }
    rc = set_value(s->config, o, value);
    if (rc == ERR_NOMEM)
        snprintf(s->err, s->err_len, "no memory for the setting '%s'", shown);
    else if (rc < 0) {
        describe_allowed(o, allowed, sizeof(allowed));
        snprintf(s->err, s->err_len, "%s: '%s' must be %s, got '%s'", s->where, shown, allowed,
                 value);
    }
    if (rc < 0)
        return rc == ERR_NOMEM ? rc : ERR_INVAL;
    snprintf(s->config->source->text[o - options], sizeof(s->config->source->text[0]), "%s",
             s->where);
    return 0;
}

/* ---- the four layers ---- */

static int load_defaults(struct config *c)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &options[i];

        snprintf(c->source->text[i], sizeof(c->source->text[i]), "default");
        if (o->type == OPTION_INT)
            *(int64_t *)target(c, o) = o->num;
        else if (o->type == OPTION_SIZE)
            *(uint64_t *)target(c, o) = (uint64_t)o->num;
        else if (set_string(c, o, o->def) < 0)
            return ERR_NOMEM;
    }
    return 0;
}

struct file_state {
    FILE *file;
    const char *path;
    int line;
    int rc;
    struct setting setting;
};

/* inih reads through this: it counts lines, refuses one that would be cut in two, and drops leading
 * blanks, which inih would take for the continuation of the line before. */
static char *read_line(char *buf, int size, void *stream)
{
    struct file_state *f = stream;
    char *line = fgets(buf, size, f->file);
    size_t blanks;

    f->line++;
    if (line == NULL && ferror(f->file)) { /* a directory, for one */
        snprintf(f->setting.err, f->setting.err_len, "cannot read the configuration file '%s': %s",
                 f->path, strerror(errno));
        f->rc = ERR_INVAL;
    }
    if (line == NULL)
        return NULL;
    if (strchr(line, '\n') == NULL && (int)strlen(line) == size - 1) {
        snprintf(f->setting.err, f->setting.err_len, "%s:%d: the line is longer than %d bytes",
                 f->path, f->line, size - 2);
        f->rc = ERR_INVAL;
        return NULL;
    }
    blanks = strspn(line, " \t");
    memmove(line, line + blanks, strlen(line + blanks) + 1);
    return line;
}

static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct file_state *f = user;
    const size_t n = strlen(f->path);
    char where[140];

    if (f->rc < 0)
        return 0;
    /* Of a long path the end is kept: the line number must survive. */
    snprintf(where, sizeof(where), "%s:%d", n > 120 ? f->path + n - 120 : f->path, f->line);
    f->setting.where = where;
    if (section[0] != '\0') {
        snprintf(f->setting.err, f->setting.err_len,
                 "%s: section [%s]: this file has no sections, only name = value", where, section);
        f->rc = ERR_INVAL;
    } else {
        f->rc = apply(&f->setting, name, name, value);
    }
    return f->rc == 0;
}

/* inih hands the same pointer to the reader and the handler, as `stream` and as `user`. */
static int load_file(const struct setting *s, const char *path)
{
    struct file_state f = {.path = path, .setting = *s};
    int bad_line;

    f.file = fopen(path, "re");
    if (f.file == NULL) {
        snprintf(s->err, s->err_len, "cannot open the configuration file '%s': %s", path,
                 strerror(errno));
        return ERR_INVAL;
    }
    bad_line = ini_parse_stream(read_line, &f, on_pair, &f);
    fclose(f.file);
    if (f.rc == 0 && bad_line > 0) {
        snprintf(s->err, s->err_len, "%s:%d: not a line of the form name = value", path, bad_line);
        f.rc = ERR_INVAL;
    }
    return f.rc;
}

static int load_environment(const struct setting *s)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        char name[64] = "QUIRE_";
        const char *value;
        size_t n = strlen(name);

        for (const char *p = options[i].name; *p != '\0' && n + 1 < sizeof(name); p++)
            name[n++] = (char)toupper((unsigned char)*p);
        name[n] = '\0';
        value = getenv(name);
        if (value != NULL) {
            const int rc = apply(s, options[i].name, name, value);

            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

/* A flag of the command line, taken apart: --kv-memory=1g or --kv-memory 1g. */
struct flag {
    char name[64];     /* kv_memory */
    char shown[68];    /* --kv-memory */
    const char *value; /* NULL when there is none */
    int used;          /* arguments consumed */
};

static int read_flag(const struct setting *s, int argc, char *const *argv, int i, struct flag *f)
{
    const char *arg = argv[i], *eq = strchr(arg, '=');
    const size_t n = eq != NULL ? (size_t)(eq - arg) : strlen(arg);

    if (strncmp(arg, "--", 2) != 0 || n < 3 || n - 2 >= sizeof(f->name)) {
        snprintf(s->err, s->err_len, "unexpected argument '%s'; settings are --name value", arg);
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

/* One pass: with `file` set it only looks for --config, else it applies the settings. */
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
        rc = read_flag(s, argc, argv, i, &f);
        if (rc < 0)
            return rc;
        if (f.value == NULL && (strcmp(f.name, "config") == 0 || find_option(f.name) != NULL)) {
            snprintf(s->err, s->err_len, "%s wants a value", f.shown);
            return ERR_INVAL;
        }
        if (strcmp(f.name, "config") == 0) {
            if (file != NULL)
                *file = f.value;
        } else if (file == NULL) {
            rc = apply(s, f.name, f.shown, f.value != NULL ? f.value : "");
        }
        if (rc < 0)
            return rc;
        i += f.used;
    }
    return 0;
}

int config_load(struct config *c, int argc, char *const *argv, enum config_action *action,
                char *err, size_t err_len)
{
    struct setting s = {.config = c, .err = err, .err_len = err_len};
    const char *file = getenv("QUIRE_CONFIG");
    bool is_question;
    int rc;

    *action = CONFIG_RUN;
    memset(c, 0, sizeof(*c));
    snprintf(err, err_len, "no memory for the settings");
    c->source = mem_calloc(1, sizeof(*c->source));
    rc = c->source == NULL ? ERR_NOMEM : load_defaults(c);
    s.where = "command line";
    if (rc == 0)
        rc = load_flags(&s, argc, argv, action, &file);
    /* A broken file or variable must not keep --help from answering. */
    is_question = *action == CONFIG_HELP || *action == CONFIG_VERSION;
    if (rc == 0 && file != NULL && !is_question)
        rc = load_file(&s, file);
    s.where = "environment";
    if (rc == 0 && !is_question)
        rc = load_environment(&s);
    s.where = "command line";
    if (rc == 0)
        rc = load_flags(&s, argc, argv, action, NULL);
    if (rc == 0)
        rc = config_check_together(c, err, err_len);
    if (rc < 0)
        config_release(c);
    return rc;
}

void config_release(struct config *c)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (options[i].type == OPTION_STR || options[i].type == OPTION_ENUM)
            mem_free(*(char **)target(c, &options[i]));
    mem_free(c->source);
    memset(c, 0, sizeof(*c));
}

/* ---- printing ---- */

/* The value as text: in `buf`, or the string itself, which may be longer. */
static const char *show_value(const struct config *c, const struct option *o, char *buf,
                              size_t size)
{
    const void *at = (const char *)c + o->offset;

    if (o->type == OPTION_STR || o->type == OPTION_ENUM)
        return *(char *const *)at;
    if (o->type == OPTION_INT)
        snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
    else
        format_size(buf, size, *(const uint64_t *)at);
    return buf;
}

void config_print(const struct config *c, FILE *out)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        char buf[32];

        fprintf(out, "%-19s = %-12s # %s\n", options[i].name,
                show_value(c, &options[i], buf, sizeof(buf)), c->source->text[i]);
    }
}

#define HELP_COLUMN 25
#define HELP_WIDTH 80

/* The text from HELP_COLUMN on, broken between words. */
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = HELP_COLUMN;

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

void config_print_help(FILE *out)
{
    struct config c = {0};
    struct config_source source;
    int rc;

    c.source = &source;
    rc = load_defaults(&c);
    c.source = NULL;
    for (size_t i = 0; rc == 0 && i < N_OPTIONS; i++) {
        const struct option *o = &options[i];
        char flag[64], buf[32], text[300];
        const char *value = show_value(&c, o, buf, sizeof(buf));
        const int n = snprintf(flag, sizeof(flag), "--%s", o->name);

        for (int j = 2; j < n; j++)
            flag[j] = flag[j] == '_' ? '-' : flag[j];
        snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", o->help, value[0] != '\0' ? " [" : "", value,
                 value[0] != '\0' ? "]" : "", o->words != NULL ? " (" : "",
                 o->words != NULL ? o->words : "", o->words != NULL ? ")" : "");
        fprintf(out, "  %-22s ", flag);
        print_wrapped(text, out);
    }
    config_release(&c);
}
