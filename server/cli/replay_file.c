/* server/cli/replay_file.c - see replay_file.h.
 *
 * Each line of the journal is parsed (replay_line.h) and given to the replay, which stops at the
 * first plan that differs from the recorded one.
 */
#include "server/cli/replay_file.h"

#include "core/base/err.h"
#include "scheduler/replay/replay.h"
#include "server/cli/command.h"
#include "server/cli/replay_line.h"
#include "server/models/instance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Give one line to the replay. On failure `err` has a sentence. */
static int take_line(struct replay *r, const char *text, size_t n, char *err, size_t err_len)
{
    struct replay_record record;
    int rc;

    if (n == 0 || text[n - 1] != '\n') {
        snprintf(err, err_len, "the line is incomplete");
        return ERR_FORMAT;
    }
    rc = replay_line_parse(&record, text, n - 1, err, err_len);
    if (rc == 0)
        rc = replay_take(r, &record, err, err_len);
    replay_record_release(&record);
    return rc;
}

static int fail_line(const char *path, uint64_t number, const struct replay *r, const char *err)
{
    const struct replay_stats s = replay_stats(r);

    return command_fail(EXIT_FAILED,
                        "%s, line %" PRIu64 ": %s (before it %" PRIu64 " posts, %" PRIu64
                        " plans and %" PRIu64 " tokens were replayed, all plans equal)",
                        path, number, err, s.n_posts, s.n_plans, s.n_tokens);
}

static int replay_lines(struct replay *r, FILE *in, const char *path)
{
    char *line = NULL, err[512] = "";
    size_t cap = 0;
    ssize_t n;
    uint64_t number = 0;
    int rc = 0, code = EXIT_OK;

    while (rc == 0 && (n = getline(&line, &cap, in)) >= 0) {
        number++;
        rc = take_line(r, line, (size_t)n, err, sizeof(err));
    }
    if (rc < 0)
        code = fail_line(path, number, r, err);
    else if (ferror(in) != 0)
        code = command_fail(EXIT_FAILED, "cannot read %s: %s", path, strerror(errno));
    else if (number == 0)
        code = command_fail(EXIT_FAILED, "%s is empty", path);
    free(line); /* getline() allocated it with malloc() */
    return code;
}

int replay_file(struct replay **r, const char *path, bool collect)
{
    FILE *in = fopen(path, "re");
    int code;

    *r = NULL;
    if (in == NULL)
        return command_fail(EXIT_FAILED, "cannot open %s: %s", path, strerror(errno));
    if (replay_create(r, collect) < 0)
        code = command_fail(EXIT_FAILED, "out of memory");
    else
        code = replay_lines(*r, in, path);
    fclose(in);
    return code;
}
