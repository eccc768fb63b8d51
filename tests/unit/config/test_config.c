/* tests/unit/config/test_config.c - four layers, one table: every row of options.inc is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/weights.h"
#include "core/base/mem.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/files.h"
#include "tests/unit/config/settings.h"

#include <inttypes.h>
#include <math.h>

/* The table once more, as text, so that nothing here has to be kept in step with it. */
struct row {
    const char *name, *type, *def, *words;
    int64_t num, min;
    uint64_t max;
    double lo, hi;
    const char *kind;
};

static const struct row rows[] = {
#define STR(sc, n, d, h) {.name = #n, .type = "text", .def = d},
#define INT(sc, n, d, lo, hi, h) {.name = #n, .type = "int", .num = d, .min = lo, .max = hi},
#define SIZE(sc, n, d, lo, hi, h) {.name = #n, .type = "size", .num = d, .min = lo, .max = hi},
#define ENUM(sc, n, d, l, h) {.name = #n, .type = "enum", .def = d, .words = CONFIG_WORDS(l)},
#define NUM(sc, n, k, min, max, h)                                                                 \
    {.name = #n, .type = "num", .def = "auto", .lo = min, .hi = max, .kind = #k},
#include "config/options.inc"
#undef STR
#undef INT
#undef SIZE
#undef ENUM
#undef NUM
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static char *flag_name(const char *name, char *out, size_t size)
{
    snprintf(out, size, "--%s", name);
    for (char *p = out; *p != '\0'; p++)
        *p = *p == '_' ? '-' : *p;
    return out;
}

static void has_the_defaults_of_the_table(void **state)
{
    (void)state;
    assert_int_equal(LOAD(NULL), 0);
    assert_int_equal(action, CONFIG_RUN);
#define STR(sc, n, d, h) assert_string_equal(config.n, d);
#define INT(sc, n, d, lo, hi, h) assert_int_equal(config.n, d);
#define SIZE(sc, n, d, lo, hi, h) assert_int_equal(config.n, d);
#define ENUM(sc, n, d, l, h) assert_int_equal(config.n, config_word_find(CONFIG_WORDS(l), d));
#define NUM(sc, n, k, min, max, h) assert_true(isnan(config.n));
#include "config/options.inc"
#undef STR
#undef INT
#undef SIZE
#undef ENUM
#undef NUM
    assert_printed("kv_memory", "kv_memory = 1g # default");
    assert_printed("host", "host = 127.0.0.1 # default"); /* S2.35 */
    assert_printed("port", "port = 8080 # default");
    assert_printed("model", "model = # default");
    assert_printed("max_sequences", "max_sequences = 256 # default"); /* S2.15 */
    assert_printed("prefill_chunk", "prefill_chunk = 512 # default");
    assert_printed("placement", "placement = first_fit # default"); /* S1.1 */
    config_release(&config);
}

static void later_layers_win(void **state)
{
    char line[128];

    (void)state;
    write_file(
        "port = 1001\nthreads = 3\n# a comment\n\n  ; another\nkv_memory: 512m\nisa=scalar\n");
    setenv("QUIRE_THREADS", "4", 1);
    setenv("QUIRE_ISA", "avx2", 1);
    assert_int_equal(LOAD("--config", file_path, "--isa", "auto", "--print-config"), 0);
    assert_int_equal(action, CONFIG_PRINT);
    assert_int_equal(config.port, 1001);
    assert_int_equal(config.threads, 4);
    assert_int_equal(config.kv_memory, (uint64_t)512 << 20);
    assert_int_equal(config.isa, CONFIG_ISA_AUTO);
    snprintf(line, sizeof(line), "port = 1001 # %s:1", file_path);
    assert_printed("port", line);
    snprintf(line, sizeof(line), "kv_memory = 512m # %s:6", file_path);
    assert_printed("kv_memory", line);
    assert_printed("threads", "threads = 4 # environment");
    assert_printed("isa", "isa = auto # command line");
    assert_printed("host", "host = 127.0.0.1 # default");
    config_release(&config);
    unsetenv("QUIRE_THREADS");
    unsetenv("QUIRE_ISA");

    /* The file may be named by the environment; a flag names another. */
    setenv("QUIRE_CONFIG", file_path, 1);
    assert_int_equal(LOAD(NULL), 0);
    assert_int_equal(config.port, 1001);
    config_release(&config);
    assert_refused(LOAD("--config=/nonexistent/x.conf"), "/nonexistent/x.conf", "No such file");
    unsetenv("QUIRE_CONFIG");
}

static void a_flag_may_be_written_in_four_ways(void **state)
{
    (void)state;
    assert_int_equal(LOAD("--kv-memory", "2g"), 0);
    assert_int_equal(config.kv_memory, (uint64_t)2 << 30);
    config_release(&config);
    assert_int_equal(LOAD("--kv-memory=2G", "--kv_memory", "3m", "--kv_memory=1048577"), 0);
    assert_int_equal(config.kv_memory, 1048577);
    assert_printed("kv_memory", "kv_memory = 1048577 # command line");
    config_release(&config);
    assert_int_equal(LOAD("--model=a=b c"), 0);
    assert_string_equal(config.model, "a=b c");
    config_release(&config);
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    assert_refused(LOAD("--portt", "1"), "command line", "--portt", "unknown setting");
    assert_refused(LOAD("--portt"), "--portt", "unknown setting");
    assert_refused(LOAD("extra"), "'extra'");
    assert_refused(LOAD("-p", "1"), "'-p'");
    assert_refused(LOAD("--", "1"), "'--'");
    assert_refused(LOAD("--port"), "--port", "needs a value");
    assert_refused(LOAD("--config"), "--config", "needs a value");
    write_file("port = 80\nporrt = 81\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "'porrt'", "unknown setting");
    write_file("\n[server]\nkv_memory = 1g\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[server]", "quire-demo");
    write_file("port = 80\njust words\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "name = value");
}

static void reads_a_file_to_the_letter(void **state)
{
    char text[600];

    (void)state;
    assert_refused(LOAD("--config", "/tmp"), "'/tmp'", "directory");
    /* An indented line is a line, not the continuation of the one before. */
    write_file("model = x.gguf\n   port = 81\n\thost = ::1\n");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_string_equal(config.model, "x.gguf");
    assert_int_equal(config.port, 81);
    assert_string_equal(config.host, "::1");
    config_release(&config);
    /* The longest line that fits, and one byte more. */
    snprintf(text, sizeof(text), "port = 82\nmodel = %0190d\nthreads = 2\n", 7);
    write_file(text);
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_int_equal(strlen(config.model), 190);
    assert_int_equal(config.threads, 2);
    config_release(&config);
    snprintf(text, sizeof(text), "port = 82\nmodel = %0191d\nthreads = 2\n", 7);
    write_file(text);
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "longer than 198 bytes");
    /* No line end at the end. */
    write_file("port = 83");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_int_equal(config.port, 83);
    config_release(&config);
}

/* Blanks of any kind before a line are none of it; a NUL would hide what is behind it. */
static void refuses_what_hides_in_a_file(void **state)
{
    static const char text[] = "port = 80\0 81\nport = 82\n";
    FILE *f;

    (void)state;
    write_file("\f[quire-demo]\ncontext = 64\n");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_int_equal(config.context, 0); /* it is the section's */
    config_release(&config);
    write_file("[quire-demo]\n\f[x]\ncontext = 64\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[x]",
                   "none of the served models");
    write_file("host = ::1\n\v/tmp\n"); /* no continuation of the line before */
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "name = value");
    f = fopen(file_path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof(text) - 1, f), sizeof(text) - 1);
    assert_int_equal(fclose(f), 0);
    assert_refused(LOAD("--config", file_path), file_path, ":1: ", "NUL");
}

static void parses_sizes(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"1", 0, 1},
        {"1k", 0, 1024},
        {"512m", 0, 536870912},
        {"4g", 0, 4294967296},
        {"4G", 0, 4294967296},
        {"2t", 0, 2199023255552},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", ERR_RANGE, 0},
        {"16777216t", ERR_RANGE, 0},
        {"18014398509481984k", ERR_RANGE, 0},
        {"99999999999999999999g", ERR_RANGE, 0},
        {"", ERR_INVAL, 0},
        {"m", ERR_INVAL, 0},
        {"-1", ERR_INVAL, 0},
        {"+1", ERR_INVAL, 0},
        {" 1", ERR_INVAL, 0},
        {"1 m", ERR_INVAL, 0},
        {"1mb", ERR_INVAL, 0},
        {"1.5g", ERR_INVAL, 0},
        {"0x10", ERR_INVAL, 0},
        {"1p", ERR_INVAL, 0},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t n = 0;
        const int rc = config_parse_size(cases[i].text, &n);

        if (rc != cases[i].rc || n != cases[i].bytes)
            fail_msg("'%s': %d, %" PRIu64, cases[i].text, rc, n);
    }
}

/* ---- every row, from every layer */

/* Give `value` to a setting by flag, variable and file; each must be refused in its own words. */
static void refuse_everywhere(const struct row *r, const char *value, const char *allowed)
{
    char flag[64], variable[64], text[200], quoted[120];

    snprintf(quoted, sizeof(quoted), "got '%s'", value);
    flag_name(r->name, flag, sizeof(flag));
    variable_name(r->name, variable, sizeof(variable));
    assert_refused(LOAD(flag, value), "command line", flag, allowed, quoted);
    setenv(variable, value, 1);
    assert_refused(LOAD(NULL), "environment", variable, allowed, quoted);
    /* ... but the help answers, whatever the environment says. */
    assert_ok(LOAD("--help"));
    assert_int_equal(action, CONFIG_HELP);
    unsetenv(variable);
    snprintf(text, sizeof(text), "%s = %s\n", r->name, value);
    write_file(text);
    assert_refused(LOAD("--config", file_path), file_path, ":1: ", r->name, allowed, quoted);
}

/* The pairs that have to fit together are kept apart here. */
static int load_one(const char *name, const char *value)
{
    char flag[64];

    flag_name(name, flag, sizeof(flag));
    if (strcmp(name, "max_sequences") == 0)
        return LOAD("--max-batch-tokens", "65536", flag, value);
    if (strcmp(name, "kv_critical_percent") == 0)
        return LOAD("--kv-low-percent", "100", flag, value);
    if (strcmp(name, "kv_low_percent") == 0)
        return LOAD("--kv-critical-percent", "0", flag, value);
    return LOAD("--max-sequences", "1", flag, value);
}

static void keeps_to_the_range_of_every_number(void **state)
{
    static const char *const junk[] = {"", "x", "1.5", "1x", "99999999999999999999999"};
    char value[40], allowed[80];
    size_t n_tried = 0;

    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *r = &rows[i];
        const bool is_size = strcmp(r->type, "size") == 0;

        if (!is_size && strcmp(r->type, "int") != 0)
            continue;
        n_tried++;
        snprintf(value, sizeof(value), "%" PRId64, r->min);
        assert_ok(load_one(r->name, value));
        snprintf(value, sizeof(value), "%" PRIu64, r->max);
        assert_ok(load_one(r->name, value));
        if (is_size)
            snprintf(allowed, sizeof(allowed), "a size from ");
        else
            snprintf(allowed, sizeof(allowed), "a whole number from %" PRId64 " to %" PRIu64,
                     r->min, r->max);
        snprintf(value, sizeof(value), "%" PRId64, r->min - 1);
        refuse_everywhere(r, value, allowed);
        snprintf(value, sizeof(value), "%" PRIu64, r->max + 1);
        refuse_everywhere(r, value, allowed);
        for (size_t j = 0; j < sizeof(junk) / sizeof(junk[0]); j++)
            refuse_everywhere(r, junk[j], allowed);
    }
    assert_true(n_tried > 10);
}

/* "a number from 0 to 2, or auto", or as it begins in quire.conf. */
static void number_text(char *out, size_t size, const struct row *r)
{
    snprintf(out, size, "%s %s %.10g to %.10g, or auto",
             strcmp(r->kind, "WHOLE") == 0 ? "a whole number" : "a number",
             strcmp(r->kind, "ABOVE") == 0 ? "above" : "from", r->lo, r->hi);
}

static void keeps_to_the_range_of_every_decimal(void **state)
{
    static const char *const junk[] = {"",    "x",   "AUTO",  "1x",  "0x1", "1e",
                                       "nan", "inf", "1e999", "1,5", "--1", "."};
    char value[40], allowed[80];
    size_t n_tried = 0;

    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *r = &rows[i];

        if (strcmp(r->type, "num") != 0)
            continue;
        n_tried++;
        number_text(allowed, sizeof(allowed), r);
        snprintf(value, sizeof(value), "%.10g", r->hi);
        assert_ok(load_one(r->name, value));
        assert_ok(load_one(r->name, "auto"));
        snprintf(value, sizeof(value), "%.10g", r->lo);
        if (strcmp(r->kind, "ABOVE") == 0)
            refuse_everywhere(r, value, allowed);
        else
            assert_ok(load_one(r->name, value));
        snprintf(value, sizeof(value), "%.10g", r->lo - (*r->kind == 'W' ? 1 : 0.001));
        refuse_everywhere(r, value, allowed);
        snprintf(value, sizeof(value), "%.10g", r->hi + (*r->kind == 'W' ? 1 : 0.001));
        refuse_everywhere(r, value, allowed);
        if (strcmp(r->kind, "WHOLE") == 0)
            refuse_everywhere(r, "1.5", allowed);
        for (size_t j = 0; j < sizeof(junk) / sizeof(junk[0]); j++)
            refuse_everywhere(r, junk[j], allowed);
    }
    assert_true(n_tried > 5);
    assert_int_equal(LOAD("--temperature", "0.7", "--top-k", "2147483647"), 0);
    assert_true(config.temperature == 0.7 && config.top_k == 2147483647);
    assert_printed("temperature", "temperature = 0.7 # command line");
    assert_printed("top_k", "top_k = 2147483647 # command line");
    assert_printed("min_p", "min_p = auto # default");
    config_release(&config);
}

static void knows_the_words_of_every_enum(void **state)
{
    size_t n_tried = 0;

    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        char words[80], allowed[120], *rest = words, *word;

        if (rows[i].words == NULL)
            continue;
        snprintf(words, sizeof(words), "%s", rows[i].words);
        snprintf(allowed, sizeof(allowed), "one of %s", rows[i].words);
        while ((word = strsep(&rest, "|")) != NULL) {
            assert_ok(load_one(rows[i].name, word));
            word[strlen(word) - 1] = '\0'; /* a prefix is no word */
            refuse_everywhere(&rows[i], word, allowed);
            n_tried++;
        }
        refuse_everywhere(&rows[i], "", allowed);
        refuse_everywhere(&rows[i], "AUTO", allowed);
        if (strchr(rows[i].words, '|') != NULL) /* two words with the bar between */
            refuse_everywhere(&rows[i], rows[i].words, allowed);
    }
    assert_true(n_tried > 10);
}

static void settings_must_fit_together(void **state)
{
    (void)state;
    assert_refused(LOAD("--max-batch-tokens", "100", "--max-sequences", "101"), "max_batch_tokens",
                   "100", "max_sequences", "101");
    assert_ok(LOAD("--max-batch-tokens", "101", "--max-sequences", "101"));
    assert_refused(LOAD("--kv-low-percent", "9"), "kv_critical_percent", "(10)", "kv_low_percent",
                   "(9)");
}

static void swapping_needs_a_place(void **state)
{
    (void)state;
    assert_refused(LOAD("--swap-file", "/tmp/x"), "swap_file_size", "/tmp/x", "above 0");
    assert_ok(LOAD("--swap-file", "/tmp/x", "--swap-file-size", "1m"));
    assert_ok(LOAD("--preemption", "swap"));
    assert_refused(LOAD("--preemption", "swap", "--swap-ram", "0"), "preemption", "swap_ram",
                   "swap_file");
    assert_ok(LOAD("--preemption", "swap", "--swap-ram", "0", "--swap-file", "/tmp/x",
                   "--swap-file-size", "1m"));
    assert_ok(LOAD("--preemption", "auto", "--swap-ram", "0"));
}

/* ---- tenants */

static void reads_weights(void **state)
{
    const char *text = " alice=4, bob=1000 ,c/d@e=1";
    struct weight w;
    (void)state;

    assert_int_equal(weights_next(&text, &w), 1);
    assert_string_equal(w.name, "alice");
    assert_int_equal(w.value, 4);
    assert_int_equal(weights_next(&text, &w), 1);
    assert_string_equal(w.name, "bob");
    assert_int_equal(w.value, 1000);
    assert_int_equal(weights_next(&text, &w), 1);
    assert_string_equal(w.name, "c/d@e");
    assert_int_equal(w.value, 1);
    assert_int_equal(weights_next(&text, &w), 0);
    text = "  ";
    assert_int_equal(weights_next(&text, &w), 0);
}

static void tenants_must_make_sense(void **state)
{
    static const char *const bad[] = {"alice",   "alice=",     "=4",     "alice=0",   "alice=1001",
                                      "alice=x", "alice=4x",   "a b=4",  "alice=4,",  ",alice=4",
                                      "a=1,,b=2", "alice=-1",  "a=1 b=2", "alice=4;b=1",
                                      "alice=99999999999999999999"};
    char name[128];
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(LOAD("--tenant-header", "X-Tenant", "--tenant-weights", bad[i]),
                       "tenant_weights", "name=weight", "got '");
    assert_ok(LOAD("--tenant-header", "X-Tenant", "--tenant-weights", "alice=4,bob=1"));
    assert_refused(LOAD("--tenant-weights", "alice=4"), "tenant_weights", "tenant_header");
    assert_refused(LOAD("--tenant-header", "X-T", "--tenant-weights", "a=4,b=1,a=2"),
                   "tenant_weights", "'a' twice");
    assert_refused(LOAD("--tenant-header", "X-T", "--tenant-weights", "a=1,b=2", "--max-tenants",
                        "3"),
                   "max_tenants", "4", "got 3");
    assert_refused(LOAD("--tenant-header", "X Tenant"), "tenant_header", "'X Tenant'");
    assert_refused(LOAD("--tenant-header", "X-Tenant:"), "tenant_header");
    snprintf(name, sizeof(name), "%064d=1", 7);
    assert_ok(LOAD("--tenant-header", "X-T", "--tenant-weights", name));
    snprintf(name, sizeof(name), "%065d=1", 7);
    assert_refused(LOAD("--tenant-header", "X-T", "--tenant-weights", name), "tenant_weights");
}

/* ---- the sample file */

/* "# name = value" -> name and value; prose is not of that form. */
static bool is_setting(const char *line, char *name, size_t size, char *value)
{
    const char *p = strncmp(line, "# ", 2) == 0 ? line + 2 : line;
    const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");

    if (n == 0 || n >= size || strncmp(p + n, " =", 2) != 0)
        return false;
    memcpy(name, p, n);
    name[n] = '\0';
    p += n + 2;
    p += *p == ' ';
    memcpy(value, p, strlen(p) + 1);
    return true;
}

static void size_text(char *out, size_t size, uint64_t n)
{
    const char *units[] = {"", "k", "m", "g", "t"};
    int u = 0;

    for (; u < 4 && n >= 1024 && n % 1024 == 0; u++)
        n /= 1024;
    snprintf(out, size, "%" PRIu64 "%s", n, units[u]);
}

/* What the paragraph above a setting has to say. */
static void check_paragraph(const struct row *r, const char *paragraph, const char *value)
{
    char expected[120], lo[32], hi[32], words[80], *rest = words, *word;

    if (strcmp(r->type, "int") == 0) {
        snprintf(expected, sizeof(expected), "A whole number from %" PRId64 " to %" PRIu64, r->min,
                 r->max);
        snprintf(lo, sizeof(lo), "%" PRId64, r->num);
    } else if (strcmp(r->type, "size") == 0) {
        size_text(lo, sizeof(lo), (uint64_t)r->min);
        size_text(hi, sizeof(hi), r->max);
        snprintf(expected, sizeof(expected), "A size from %s to %s", lo, hi);
        size_text(lo, sizeof(lo), (uint64_t)r->num);
    } else {
        expected[0] = '\0';
        if (strcmp(r->type, "num") == 0)
            number_text(expected, sizeof(expected), r);
        snprintf(lo, sizeof(lo), "%s", r->def);
        expected[0] = expected[0] == 'a' ? 'A' : expected[0];
    }
    if (strstr(paragraph, expected) == NULL)
        fail_msg("%s: '%s' is not in: %s", r->name, expected, paragraph);
    assert_string_equal(value, lo);
    snprintf(words, sizeof(words), "%s", r->words != NULL ? r->words : "");
    while ((word = strsep(&rest, "|")) != NULL)
        if (strstr(paragraph, word) == NULL)
            fail_msg("%s: '%s' is not in: %s", r->name, word, paragraph);
}

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    fail_msg("config/quire.conf documents '%s', which is no setting", name);
    return NULL;
}

/* Every key, no other, in the order of the table, with its range and its default; and the file with
 * every key uncommented is a good one that changes nothing. */
static void the_sample_documents_every_key(void **state)
{
    size_t n_text;
    char *text = read_whole("config/quire.conf", &n_text), *rest = text, *line;
    char paragraph[1024] = "", active[4096] = "";
    char name[64], value[128];
    size_t n_found = 0, used = 0;

    (void)state;
    while ((line = strsep(&rest, "\n")) != NULL) {
        const size_t len = strlen(paragraph);

        assert_true(strlen(line) <= 100);
        assert_true(line[0] == '\0' || line[0] == '#');
        if (line[0] == '\0') {
            paragraph[0] = '\0';
        } else if (!is_setting(line, name, sizeof(name), value)) {
            snprintf(paragraph + len, sizeof(paragraph) - len, "%s%s", len > 0 ? " " : "",
                     line[1] == ' ' ? line + 2 : line + 1);
        } else {
            const struct row *r = find_row(name);

            assert_true(n_found < N_ROWS);
            assert_string_equal(rows[n_found].name, name);
            assert_true(len > 20);
            check_paragraph(r, paragraph, value);
            used +=
                (size_t)snprintf(active + used, sizeof(active) - used, "%s = %s\n", name, value);
            n_found++;
        }
    }
    assert_int_equal(n_found, N_ROWS);
    free(text);
    assert_ok(LOAD("--config", "config/quire.conf"));
    write_file(active);
    assert_int_equal(LOAD("--config", file_path), 0);
    for (size_t i = 0; i < N_ROWS; i++) {
        char was[256], is[256];
        struct config from_file = config;

        printed(rows[i].name, is, sizeof(is));
        assert_non_null(strstr(is, file_path));
        assert_int_equal(LOAD(NULL), 0);
        printed(rows[i].name, was, sizeof(was));
        config_release(&config);
        config = from_file;
        assert_int_equal(strcspn(was, "#"), strcspn(is, "#"));
        assert_memory_equal(was, is, strcspn(was, "#"));
    }
    config_release(&config);
}

/* ---- the rest */

static void the_help_is_narrow_and_complete(void **state)
{
    char *text = NULL, flag[64];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    (void)state;
    config_print_help(f);
    fclose(f);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_true(strcspn(line, "\n") <= 80);
        assert_true(line[strcspn(line, "\n") - 1] != ' ');
    }
    for (size_t i = 0; i < N_ROWS; i++)
        if (strstr(text, flag_name(rows[i].name, flag, sizeof(flag))) == NULL)
            fail_msg("%s is not in the help", flag);
    free(text);
}

static void survives_a_failure_of_any_allocation(void **state)
{
    int64_t n = 0;

    (void)state;
    write_file("port = 84\nmodel = a\nhost = b\n");
    setenv("QUIRE_ISA", "scalar", 1);
    while (each_failure(&n))
        assert_loads_or_lacks_memory(
            LOAD("--config", file_path, "--model", "c", "--log-level", "debug"));
    assert_string_equal(config.model, "c");
    config_release(&config);
    unsetenv("QUIRE_ISA");
    assert_true(n > 11);
    for (int i = 0; i < n; i++) { /* prints less, and leaks nothing (asan) */
        char *text = NULL;
        size_t bytes;
        FILE *f = open_memstream(&text, &bytes);

        mem_fail_after(i);
        config_print_help(f);
        mem_fail_after(-1);
        fclose(f);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_defaults_of_the_table),
        cmocka_unit_test(later_layers_win),
        cmocka_unit_test(a_flag_may_be_written_in_four_ways),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(reads_a_file_to_the_letter),
        cmocka_unit_test(refuses_what_hides_in_a_file),
        cmocka_unit_test(parses_sizes),
        cmocka_unit_test(keeps_to_the_range_of_every_number),
        cmocka_unit_test(keeps_to_the_range_of_every_decimal),
        cmocka_unit_test(knows_the_words_of_every_enum),
        cmocka_unit_test(settings_must_fit_together),
        cmocka_unit_test(swapping_needs_a_place),
        cmocka_unit_test(reads_weights),
        cmocka_unit_test(tenants_must_make_sense),
        cmocka_unit_test(the_sample_documents_every_key),
        cmocka_unit_test(the_help_is_narrow_and_complete),
        cmocka_unit_test(survives_a_failure_of_any_allocation),
    };

    return cmocka_run_group_tests(tests, clean_environment, remove_file);
}
