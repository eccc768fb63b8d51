/* server/cli/verify.c - `quire verify`: computes answers again from their receipts; `quire diff`:
 * computes them with another model or other settings, and counts what changes.
 *
 * The settings in the first receipt are turned into flags and put before those of the command line,
 * and the model is loaded with them. Then each receipt of the file is checked (verify_receipt.h);
 * one that was made with other settings is reported as different.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "core/hub/pull.h"
#include "core/json/json.h"
#include "server/cli/diff_report.h"
#include "server/cli/receipt_origin.h"
#include "server/cli/serve_model.h"
#include "server/cli/verify_receipt.h"
#include "server/engine_io/store_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 30)
#define MAX_FLAGS 8
#define MAX_FLAG 96

static void print_verify_help(void)
{
    fputs(
        "quire verify FILE [settings]\n"
        "Computes answers again from the receipts in a file (-: standard input), and reports\n"
        "which are equal and where others differ. A server with receipts = on adds a receipt to\n"
        "answers to requests with \"receipt\": true; the file contains one receipt, or an answer\n"
        "with one, on each line, or is a single one.\n"
        "The exit code is 0 if all are equal, else 1. The settings of quire serve are accepted,\n"
        "such as --model. Settings that change which tokens are generated are taken from the\n"
        "first receipt, unless they are given; defaults of requests (temperature,\n"
        "permutations) are always those of each receipt. --adapters NAME=PATH names adapters.\n"
        "Text and probabilities beside a receipt are not read.\n",
        stdout);
}

static void print_diff_help(void)
{
    fputs("quire diff FILE [settings]\n"
          "Computes the answers in a file again with another model or other settings, and reports\n"
          "which answers change, at which token, and which decisions flip, by how much\n"
          "probability. FILE has receipts, or answers with them, as for quire verify. Name what\n"
          "changes: --kv-type q8_0, or --load-type q4_0 for a file of F32, F16 or BF16 weights,\n"
          "which other files ignore. --model FILE is always needed, but for the built-in model.\n"
          "Other settings that change tokens are taken from the first receipt; defaults of\n"
          "requests (temperature, permutations) are always those of each receipt.\n"
          "The exit code is 0 if no answer changes and no decision flips, else 1.\n",
          stdout);
}

/* ---- the file ---- */

static int read_receipts(const char *path, struct buf *out)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    int rc = in == NULL ? ERR_IO : file_read_stream(in, out);

    if (in != NULL && in != stdin)
        fclose(in);
    return rc;
}

struct lines {
    const char *at, *end;
    uint32_t number;
};

/* Return the next line that is not empty; a file with one JSON object of several lines is one
 * line. */
static bool next_line(struct lines *l, const char **text, size_t *n)
{
    while (l->at < l->end) {
        const char *end = memchr(l->at, '\n', (size_t)(l->end - l->at));

        end = end != NULL ? end : l->end;
        *text = l->at;
        *n = (size_t)(end - l->at);
        l->at = end < l->end ? end + 1 : end;
        l->number++;
        if (*n > 0 && strspn(*text, " \t\r") < *n)
            return true;
    }
    return false;
}

static bool is_one_object(const struct buf *file)
{
    const char *why;
    cJSON *json;
    const bool is_one = json_parse(file->data, file->len, &json, &why) == 0;

    cJSON_Delete(json);
    return is_one;
}

/* If the file is one JSON object of several lines, make it one line. */
static void to_lines(struct buf *file)
{
    if (!is_one_object(file))
        return;
    cJSON_Minify(file->data);
    file->len = strlen(file->data);
}

/* ---- the first receipt's settings as flags ---- */

struct flags {
    char text[MAX_FLAGS][MAX_FLAG];
    uint32_t n;
};

static void add_flag(struct flags *f, const char *name, const cJSON *settings)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(settings, name);
    char *flag;

    if (!cJSON_IsString(item) || item->valuestring[0] == '\0' || f->n == MAX_FLAGS)
        return;
    flag = f->text[f->n];
    snprintf(flag, MAX_FLAG, "--%s=%.60s", name, item->valuestring);
    for (char *at = flag + 2; *at != '='; at++)
        *at = *at == '_' ? '-' : *at;
    f->n++;
}

/* Take the flags of the first line that has a receipt: a batch writes lines of errors too. */
static void flags_of(struct lines l, struct flags *f)
{
    static const char *const names[] = {"context", RECEIPT_SETTINGS};
    const char *text, *why;
    size_t n;

    while (f->n == 0 && next_line(&l, &text, &n)) {
        const cJSON *settings;
        cJSON *json;

        if (json_parse(text, n, &json, &why) < 0)
            continue; /* the error is reported when the receipt is checked */
        settings = cJSON_GetObjectItemCaseSensitive(verify_receipt_find(json), "settings");
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            add_flag(f, names[i], settings);
        cJSON_Delete(json);
    }
}

/* Load the settings. The last value of a setting counts: first those of the receipt, then the
 * command line, and finally settings that turn off the other parts of a server, because one may be
 * running. */
static int load_config(struct config *c, int argc, char **argv, struct flags *f, void (*help)(void),
                       bool *done)
{
    static const char *const own[] = {"--receipts=on",   "--journal=",   "--kv-store=",
                                      "--kv-events=off", "--swap-file=", "--slot-save-path="};
    const int n_own = sizeof(own) / sizeof(own[0]);
    char **all = mem_calloc((size_t)(argc + MAX_FLAGS + n_own) + 1, sizeof(*all));
    int n = 0, code;

    if (all == NULL)
        return command_fail(EXIT_FAILED, "no memory");
    all[n++] = argv[0];
    for (uint32_t i = 0; i < f->n; i++)
        all[n++] = f->text[i];
    for (int i = 1; i < argc; i++)
        all[n++] = argv[i];
    for (int i = 0; i < n_own; i++)
        all[n++] = (char *)(uintptr_t)own[i]; /* the texts are only read */
    code = command_config(c, n, all, help, done);
    mem_free(all);
    return code;
}

/* ---- checking ---- */

static void on_verify_wake(void *ud)
{
    sem_post(ud);
}

static void check_lines(struct served *model, sem_t *wake, struct lines l, struct diff_report *diff,
                        struct verifier *v)
{
    const char *text;
    char place[32];
    size_t n;

    *v =
        (struct verifier){.model = model, .wake = wake, .place = place, .next_id = 1, .diff = diff};
    while (next_line(&l, &text, &n)) {
        snprintf(place, sizeof(place), "line %u", l.number);
        verify_receipt(v, text, n);
        fflush(stdout);
    }
    if (diff != NULL)
        diff_report_print(diff);
    else
        printf("%" PRIu64 " answers are equal (%" PRIu64 " tokens), %" PRIu64 " are not\n",
               v->n_equal, v->n_tokens, v->n_different);
}

static int run_verify(const struct config *c, const struct lines *l, struct diff_report *diff)
{
    struct served model;
    struct verifier v = {.n_different = 1};
    sem_t wake;
    char err[512];
    int code;
    const struct store_place nowhere = {0};
    const struct served_company company = {
        .wake = on_verify_wake, .wake_ud = &wake, .place = &nowhere};

    sem_init(&wake, 0, 0);
    code = served_init(&model, c, 0, hub_pull, err, sizeof(err));
    if (code == EXIT_OK)
        code = served_load(&model, &company, err, sizeof(err));
    if (code != EXIT_OK) {
        command_fail(code, "%s", err);
    } else {
        served_complete(&model);
        check_lines(&model, &wake, *l, diff, &v);
        code = v.n_different == 0 && (diff == NULL || diff_report_is_equal(diff)) ? EXIT_OK
                                                                                  : EXIT_FAILED;
    }
    served_stop(&model);
    served_join(&model);
    served_release(&model);
    sem_destroy(&wake);
    return code;
}

struct mode { /* what the two commands differ in */
    const char *name;
    void (*help)(void);
    struct diff_report *diff; /* NULL: verify */
};

static int verify(int argc, char **argv, struct buf *file, const struct mode *mode)
{
    struct lines l, first;
    struct flags flags = {0};
    struct config config;
    const char *text;
    size_t n;
    bool done;
    int code;

    to_lines(file);
    l = first = (struct lines){file->data, file->data + file->len, 0};
    if (!next_line(&first, &text, &n))
        return command_fail(EXIT_FAILED, "the file contains no receipt");
    flags_of(l, &flags);
    code = load_config(&config, argc, argv, &flags, mode->help, &done);
    if (!done && code == EXIT_OK)
        code = run_verify(&config, &l, mode->diff);
    if (!done)
        config_release(&config);
    return code;
}

static int run_mode(int argc, char **argv, const struct mode *mode)
{
    const char *path = argc > 1 ? argv[1] : "";
    struct config config;
    struct buf file;
    bool done;
    int code;

    if (argc < 2 || (path[0] == '-' && path[1] != '\0')) {
        code = command_config(&config, argc, argv, mode->help, &done);
        if (done)
            return code;
        config_release(&config);
        return command_fail(EXIT_USAGE, "%s needs a FILE first (quire %s --help)", mode->name,
                            mode->name);
    }
    buf_init(&file, MAX_FILE);
    code = read_receipts(path, &file);
    if (code < 0)
        code = command_fail(EXIT_FAILED, "%s: %s", path, err_text(code));
    else {
        argv[1] = argv[0];
        code = verify(argc - 1, argv + 1, &file, mode);
    }
    buf_release(&file);
    return code;
}

int cmd_verify(int argc, char **argv)
{
    const struct mode mode = {"verify", print_verify_help, NULL};

    return run_mode(argc, argv, &mode);
}

int cmd_diff(int argc, char **argv)
{
    struct diff_report report = {0};
    const struct mode mode = {"diff", print_diff_help, &report};
    const int code = run_mode(argc, argv, &mode);

    diff_report_release(&report);
    return code;
}
