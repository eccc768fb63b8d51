/* server/cli/diff_report.h - counts how the answers of receipts change under another model or other
 * settings, for `quire diff`.
 *
 * A line is printed for each answer whose tokens change and for each decision whose best option
 * changes; diff_report_print() prints the table of all.
 *
 * Thread: the main thread.
 * Memory: four bytes for each changed answer.
 */
#ifndef SERVER_CLI_DIFF_REPORT_H
#define SERVER_CLI_DIFF_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/api/params/decision_set.h"
#include "server/api/response/decision_result.h"

struct diff_report {               /* zero is empty */
    uint64_t n_answers, n_changed; /* answers of tokens; those that change */
    uint32_t *first;               /* [n_first] place of the first other token, from 1 */
    uint64_t n_first;              /* n_changed, unless there was no memory for more */
    uint64_t n_decisions, n_flips; /* decisions; those whose best option changes */
    uint64_t n_probabilities;      /* of all options, and their absolute changes: */
    double sum, largest;
    uint64_t n_other_prompts; /* prompts whose tokens are others here */
};

void diff_report_release(struct diff_report *r);

/* Count an answer of n tokens, of which the first n_same are the same. */
void diff_report_answer(struct diff_report *r, const char *place, uint32_t index, size_t n_same,
                        size_t n);
/* Count a decision: question `index` of the call, with the options of the whole call. */
void diff_report_decision(struct diff_report *r, const char *place, uint32_t index,
                          const struct decision_question *q, const struct decision_option *options,
                          const struct decision_result *before,
                          const struct decision_result *after);
/* True: no answer and no decision has changed. */
bool diff_report_is_equal(const struct diff_report *r);
void diff_report_print(const struct diff_report *r);

#endif
