/* server/cli/diff_report.c - see diff_report.h.
 *
 * The places of the first other tokens are kept, since their median says more than their mean: an
 * answer differs from its first other token on.
 */
#include "server/cli/diff_report.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void diff_report_release(struct diff_report *r)
{
    mem_free(r->first);
    *r = (struct diff_report){0};
}

void diff_report_answer(struct diff_report *r, const char *place, uint32_t index, size_t n_same,
                        size_t n)
{
    uint32_t *more;

    r->n_answers++;
    if (n_same >= n)
        return;
    printf("%s: choice %" PRIu32 " changes at token %zu of %zu\n", place, index, n_same + 1, n);
    r->n_changed++;
    more = mem_realloc(r->first, ((size_t)r->n_first + 1) * sizeof(*more));
    if (more == NULL)
        return;
    r->first = more;
    r->first[r->n_first++] = (uint32_t)n_same + 1;
}

static const char *name_of(const struct decision_question *q, const struct decision_option *options,
                           uint32_t i)
{
    static const char *const yes_no[] = {"yes", "no"};
    const char *name = options[q->first_option + i].name;

    return name != NULL ? name : yes_no[i & 1];
}

void diff_report_decision(struct diff_report *r, const char *place, uint32_t index,
                          const struct decision_question *q, const struct decision_option *options,
                          const struct decision_result *before, const struct decision_result *after)
{
    const bool both_valid = before->is_valid && after->is_valid;

    r->n_decisions++;
    for (uint32_t i = 0; both_valid && i < q->n_options; i++) {
        const double change = fabs(after->probabilities[i] - before->probabilities[i]);

        r->n_probabilities++;
        r->sum += change;
        r->largest = change > r->largest ? change : r->largest;
    }
    if (both_valid ? after->best == before->best : before->is_valid == after->is_valid)
        return;
    r->n_flips++;
    if (!both_valid) {
        printf("%s: question %" PRIu32 " flips: %s a refusal\n", place, index,
               after->is_valid ? "it is no longer" : "it becomes");
        return;
    }
    printf("%s: question %" PRIu32 " flips: '%.60s' %.4f becomes '%.60s' %.4f\n", place, index,
           name_of(q, options, before->best), before->probabilities[before->best],
           name_of(q, options, after->best), after->probabilities[after->best]);
}

bool diff_report_is_equal(const struct diff_report *r)
{
    return r->n_changed == 0 && r->n_flips == 0;
}

static int compare_places(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return a < b ? -1 : a > b;
}

void diff_report_print(const struct diff_report *r)
{
    printf("%-10s %10s %10s\n", "", "compared", "changed");
    printf("%-10s %10" PRIu64 " %10" PRIu64, "answers", r->n_answers, r->n_changed);
    if (r->n_first > 0) {
        qsort(r->first, r->n_first, sizeof(*r->first), compare_places);
        printf("   first other token: median %" PRIu32 ", earliest %" PRIu32,
               r->first[(r->n_first - 1) / 2], r->first[0]);
    }
    printf("\n%-10s %10" PRIu64 " %10" PRIu64, "decisions", r->n_decisions, r->n_flips);
    if (r->n_probabilities > 0)
        printf("   change of a probability: mean %.6f, largest %.6f",
               r->sum / (double)r->n_probabilities, r->largest);
    putchar('\n');
    if (r->n_other_prompts > 0)
        printf("note: %" PRIu64 " prompts have other tokens here (another chat template or "
               "tokenizer)\n",
               r->n_other_prompts);
}
