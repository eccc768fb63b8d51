/* server/api/decisions/decision_cut.c - see decision_cut.h. */
#include "server/api/decisions/decision_cut.h"

#include "core/base/err.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/params/decision_set.h"

#include <string.h>

#define MAX_OPTION 48 /* tokens behind the marker */
#define SPARE 16      /* tokens that the question has at least, before options are cut further */
#define MIN_OPTION 4  /* with the marker */
#define MIN_QUESTION 8

struct cut {
    const struct decision_layout *layout;
    uint32_t at[DECISIONS_MAX_OPTIONS + 1]; /* where each option's marker is; then where the
                                             * separator behind them is */
};

static uint32_t larger_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Find the markers and separators. */
static int find_places(struct cut *c, const struct token_list *ids)
{
    const struct decision_layout *l = c->layout;
    uint32_t n = 0, end;

    for (uint32_t i = 0; i < ids->n; i++) {
        if (ids->ids[i] != l->marker)
            continue;
        if (n == l->n_options)
            return ERR_INVAL;
        c->at[n++] = i;
    }
    if (n != l->n_options || c->at[0] < 2 || ids->ids[c->at[0] - 1] != l->separator ||
        ids->ids[ids->n - 1] != l->separator)
        return ERR_INVAL;
    for (end = c->at[n - 1]; ids->ids[end] != l->separator; end++)
        ;
    c->at[n] = end;
    return end + 1 < ids->n ? 0 : ERR_INVAL;
}

/* Return the tokens of all options when each has at most `most`. */
static uint32_t options_within(const struct cut *c, uint32_t most)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < c->layout->n_options; i++)
        sum += smaller_of(c->at[i + 1] - c->at[i], most);
    return sum;
}

int decision_cut(struct token_list *ids, const struct decision_layout *layout)
{
    const uint32_t max = layout->max_head_tokens, n = layout->n_options;
    struct cut c = {.layout = layout};
    uint32_t most = MAX_OPTION + 1, n_options, n_question, to;

    if (find_places(&c, ids) < 0)
        return ERR_INVAL;
    if (options_within(&c, most) + SPARE > max)
        most = smaller_of(most, larger_of(MIN_OPTION, (max - smaller_of(max, SPARE)) / n));
    n_options = options_within(&c, most);
    n_question = larger_of(MIN_QUESTION, max - smaller_of(max, n_options));
    to = 1 + smaller_of(c.at[0] - 2, n_question);
    ids->ids[to++] = layout->separator;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t len = smaller_of(c.at[i + 1] - c.at[i], most);

        memmove(ids->ids + to, ids->ids + c.at[i], len * sizeof(*ids->ids));
        to += len;
    }
    memmove(ids->ids + to, ids->ids + c.at[n], (ids->n - c.at[n]) * sizeof(*ids->ids));
    ids->n = to + ids->n - c.at[n];
    return 0;
}
