/* server/cli/batch.c - `quire batch` and `quire decide`: answer the requests of a file into another
 * file, as /v1/batches does, but without a listening server. They differ in their help alone: a
 * line may always be the bare body of a call for decisions (batch_line.h).
 *
 * The command runs a whole server (serve_run) that listens nowhere and ends with its batch. The
 * file of answers is the record of progress: a second run with the same files skips the lines that
 * have an answer. Ids and seeds of answers derive from a hash of the input, so a file of answers to
 * another input is recognised, and is not overwritten.
 */
#include "config/config.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "server/api/server_options.h"
#include "server/batches/batch_line.h"
#include "server/batches/line_reader.h"
#include "server/cli/command.h"
#include "server/cli/serve.h"
#include "server/models/instance.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define TTY_US 200000u
#define PLAIN_US 5000000u
#define BAR 30
#define MAX_LINE ((size_t)257 << 20)
#define MAX_ERRORS ((size_t)1 << 20)

struct batch_command {
    const char *output;
    bool is_tty, has_begun, is_over, is_refused;
    uint32_t first_done; /* lines that an earlier run has answered */
    struct server_batch_progress progress;
    uint64_t begin_us, shown_us;
};

static void print_batch_help(void)
{
    fputs("quire batch IN.jsonl -o OUT.jsonl [settings]\n"
          "  IN.jsonl   a request of OpenAI's Batch API on each line: custom_id, method, url,\n"
          "             body\n"
          "  -o FILE    file for the answers, one per line, in the order in which they are ready\n"
          "Ctrl-C stops. The same command again continues: lines that have an answer in\n"
          "OUT.jsonl, or an error, are skipped. The settings of quire serve are accepted, such\n"
          "as --model.\n",
          stdout);
}

static void print_decide_help(void)
{
    fputs(
        "quire decide IN.jsonl -o OUT.jsonl [settings]\n"
        "  IN.jsonl   a body of /v1/decisions (input, questions) or /v1/systemone (state,\n"
        "             questions) on each line, with a custom_id if it is to have one\n"
        "  -o FILE    file for the answers, one per line, in the order in which they are ready\n"
        "Ctrl-C stops. The same command again continues: lines that have an answer in\n"
        "OUT.jsonl, or an error, are skipped: remove OUT.jsonl to ask them again. quire verify\n"
        "and quire diff read answers to bodies with \"receipt\": true, which need --receipts on.\n"
        "The exit code is 0 if each line has an answer or an error. The settings of quire serve\n"
        "are accepted, such as --model.\n",
        stdout);
}

/* ---- progress ---- */

static void print_time(double seconds, const char *what)
{
    const unsigned long s = (unsigned long)seconds;

    if (s >= 3600)
        fprintf(stderr, "%lu h %02lu min %s", s / 3600, s / 60 % 60, what);
    else
        fprintf(stderr, "%lu:%02lu %s", s / 60, s % 60, what);
}

static void print_bar(const struct server_batch_progress *p)
{
    const unsigned n = p->n_lines > 0 ? (unsigned)((uint64_t)BAR * p->n_done / p->n_lines) : 0;

    fputs("\r[", stderr);
    for (unsigned i = 0; i < BAR; i++)
        fputc(i < n ? '=' : ' ', stderr);
    fputs("] ", stderr);
}

static void print_progress(const struct batch_command *b)
{
    const struct server_batch_progress *p = &b->progress;
    const double seconds = (double)(clock_us() - b->begin_us) / 1e6;
    const uint32_t n_new = p->n_done - b->first_done;

    if (b->is_tty)
        print_bar(p);
    fprintf(stderr, "%" PRIu32 " of %" PRIu32 " lines", p->n_done, p->n_lines);
    if (p->n_failed > 0)
        fprintf(stderr, " (errors: %" PRIu32 ")", p->n_failed);
    if (seconds > 0 && n_new > 0) {
        fprintf(stderr, ", %.0f tokens/s, ", (double)p->n_tokens / seconds);
        if (p->n_done < p->n_lines)
            print_time(seconds * (p->n_lines - p->n_done) / n_new, "left");
        else
            print_time(seconds, "in all");
    }
    fputs(b->is_tty ? "\033[K" : "\n", stderr);
    fflush(stderr);
}

static void on_progress(void *ud, const struct server_batch_progress *p)
{
    struct batch_command *b = ud;
    const uint64_t now = clock_us();

    if (!b->has_begun) {
        b->has_begun = true;
        b->first_done = p->n_done;
        b->begin_us = now;
    }
    b->progress = *p;
    if (p->n_done < p->n_lines && now - b->shown_us < (b->is_tty ? TTY_US : PLAIN_US))
        return;
    b->shown_us = now;
    print_progress(b);
}

/* ---- the end ---- */

static void print_errors(const char *items)
{
    struct buf text;
    cJSON *list;

    buf_init(&text, MAX_ERRORS);
    buf_printf(&text, "[%s]", items);
    list = text.err == 0 ? cJSON_Parse(text.data) : NULL;
    for (const cJSON *it = list != NULL ? list->child : NULL; it != NULL; it = it->next) {
        const cJSON *line = cJSON_GetObjectItem(it, "line");
        const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(it, "message"));

        if (cJSON_IsNumber(line))
            fprintf(stderr, "line %d: ", line->valueint);
        fprintf(stderr, "%s\n", message != NULL ? message : "");
    }
    cJSON_Delete(list);
    buf_release(&text);
}

static void on_over(void *ud, const char *errors)
{
    struct batch_command *b = ud;

    if (b->is_tty && b->has_begun)
        fputc('\n', stderr);
    b->is_over = errors == NULL;
    b->is_refused = errors != NULL;
    if (errors != NULL)
        print_errors(errors);
}

static int tell_end(const struct batch_command *b, int code)
{
    const struct server_batch_progress *p = &b->progress;

    if (code != EXIT_OK || b->is_over)
        return code;
    if (b->is_refused)
        return command_fail(EXIT_FAILED,
                            "the input is not a valid batch: no answers were computed");
    if (b->is_tty && b->has_begun)
        fputc('\n', stderr);
    return command_fail(EXIT_FAILED,
                        "stopped: %" PRIu32 " of %" PRIu32
                        " lines are answered in '%.200s'; the same command continues",
                        p->n_done, p->n_lines, b->output);
}

/* ---- the files ---- */

/* Hash the input's bytes; ids and seeds of answers derive from it. */
static int hash_input(const char *path, uint64_t *seed)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    XXH3_state_t *state = XXH3_createState();
    char block[65536];
    ssize_t n = -1;

    if (fd >= 0 && state != NULL) {
        XXH3_64bits_reset(state);
        while ((n = read(fd, block, sizeof(block))) > 0)
            XXH3_64bits_update(state, block, (size_t)n);
        *seed = XXH3_64bits_digest(state);
    }
    XXH3_freeState(state);
    if (fd >= 0)
        close(fd);
    return n == 0 ? EXIT_OK
                  : command_fail(EXIT_FAILED, "'%s' cannot be read: %s", path, strerror(errno));
}

/* Check that an existing file has answers to this input. The last answer may be incomplete. Other
 * content would be cut off, so a file with other content is refused. *lock is the file, which stays
 * locked while it is open: two commands that write to it would lose lines. */
static int check_output(const char *path, uint64_t seed, int *lock)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct line_reader r;
    int rc;

    if (fd < 0)
        return command_fail(EXIT_FAILED, "'%s' cannot be written: %s", path, strerror(errno));
    *lock = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return command_fail(EXIT_FAILED, "'%s' is being written by another command", path);
    line_reader_init(&r, fd, MAX_LINE, UINT64_MAX);
    rc = line_reader_next(&r);
    if (rc > 0 && batch_line_begins_answer(r.line.data, r.line.len, seed))
        rc = 0;
    line_reader_release(&r);
    if (rc == 0)
        return EXIT_OK;
    return command_fail(EXIT_FAILED,
                        "'%s' contains other text than answers to this input, which would be lost: "
                        "choose another output file",
                        path);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_files(const char *input, const char *output, uint64_t *seed, int *lock)
{
    int code;

    if (strlen(input) >= 4096 || strlen(output) >= 4096)
        return command_fail(EXIT_USAGE, "the path of the input or output is too long");
    code = hash_input(input, seed);
    if (code == EXIT_OK && is_same_file(input, output))
        return command_fail(EXIT_USAGE, "the output file must not be the input file");
    return code == EXIT_OK ? check_output(output, *seed, lock) : code;
}

/* Log warnings only: a line for each request would hide the progress. */
static void lower_log(struct config *c)
{
    if (c->log_level != CONFIG_LOG_INFO)
        return;
    c->log_level = CONFIG_LOG_WARN;
    log_setup(LOG_WARN, c->log_format == CONFIG_LOG_JSON, STDERR_FILENO);
}

static int run_batch(struct config *config, const char *input, const char *output)
{
    struct batch_command b = {.output = output, .is_tty = isatty(STDERR_FILENO) == 1};
    struct server_batch batch = {
        .input = input, .output = output, .progress = on_progress, .over = on_over, .ud = &b};
    int lock = -1, code = check_files(input, output, &batch.seed, &lock);

    if (code == EXIT_OK)
        code = tell_end(&b, serve_run(config, 0, NULL, &batch));
    else
        config_release(config);
    if (lock >= 0)
        close(lock);
    return code;
}

/* Take the first argument, unless it is a flag, out of the arguments: the settings' parser does not
 * know it. */
static const char *take_input(int *argc, char **argv)
{
    const char *input;

    if (*argc < 2 || argv[1][0] == '-')
        return NULL;
    input = argv[1];
    for (int i = 1; i < *argc; i++)
        argv[i] = argv[i + 1];
    (*argc)--;
    return input;
}

static int answer_file(int argc, char **argv, const char *name, void (*help)(void))
{
    const char *input = take_input(&argc, argv), *output = NULL;
    struct config config;
    bool done;
    int code;

    if (!command_take_value(&argc, argv, "-o", &output))
        return EXIT_USAGE;
    if (input == NULL)
        input = take_input(&argc, argv);
    code = command_config(&config, argc, argv, help, &done);
    if (done)
        return code;
    if (input == NULL || output == NULL) {
        config_release(&config);
        return command_fail(EXIT_USAGE, "%s needs IN.jsonl and -o OUT.jsonl (quire %s --help)",
                            name, name);
    }
    lower_log(&config);
    return run_batch(&config, input, output);
}

int cmd_batch(int argc, char **argv)
{
    return answer_file(argc, argv, "batch", print_batch_help);
}

int cmd_decide(int argc, char **argv)
{
    return answer_file(argc, argv, "decide", print_decide_help);
}
