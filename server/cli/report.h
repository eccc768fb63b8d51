/* server/cli/report.h - the results of `quire doctor`: checks, each with a sentence and a
 * remedy.
 *
 * Texts may contain names of files and settings: every byte that is not visible ASCII or UTF-8
 * becomes a '?'.
 *
 * Thread: one owner.
 * Memory: the caller's struct.
 * Errors: none; checks beyond DOCTOR_MAX_CHECKS are counted, and not kept.
 */
#ifndef SERVER_CLI_REPORT_H
#define SERVER_CLI_REPORT_H

#include <stdint.h>
#include <stdio.h>

#define DOCTOR_MAX_CHECKS 64
#define DOCTOR_TEXT 400

enum doctor_level {
    DOCTOR_OK = 0,
    DOCTOR_NOTE,    /* it works, but slower or less safely than it could */
    DOCTOR_PROBLEM, /* a server does not start, is stopped or killed, or is open to others */
    DOCTOR_N_LEVELS,
};

struct doctor_check {
    const char *name; /* borrowed */
    enum doctor_level level;
    char text[DOCTOR_TEXT];
    char remedy[DOCTOR_TEXT]; /* "": none is needed */
};

struct doctor_report {
    struct doctor_check checks[DOCTOR_MAX_CHECKS];
    uint32_t n_checks;
    uint32_t count[DOCTOR_N_LEVELS];
};

void doctor_add(struct doctor_report *r, enum doctor_level level, const char *name,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Set the remedy of the check that was added last. */
void doctor_remedy(struct doctor_report *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void doctor_print(const struct doctor_report *r, FILE *out);
void doctor_print_json(const struct doctor_report *r, FILE *out);

#endif
