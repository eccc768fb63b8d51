/* server/api/response/best_of.c - see best_of.h. */
#include "server/api/response/best_of.h"

/* Of no token at all: as good as it can be. */
static double mean_logprob(const struct choice *c)
{
    return c->n_tokens > 0 ? c->sum_logprob / c->n_tokens : 0;
}

/* Move choices[from] to choices[to], and those between by one. */
static void move(struct choice *choices, uint32_t to, uint32_t from)
{
    const struct choice moved = choices[from];

    for (; from > to; from--)
        choices[from] = choices[from - 1];
    choices[to] = moved;
}

void best_of_take(struct choice *choices, uint32_t n_prompts, uint32_t n_each, uint32_t n)
{
    for (uint32_t i = 0; i < n_prompts * n; i++) {
        const uint32_t end = (i / n + 1) * n_each; /* of the prompt's choices, also after moves */
        uint32_t best = end - n_each + i % n;

        for (uint32_t k = best + 1; k < end; k++)
            if (mean_logprob(&choices[k]) > mean_logprob(&choices[best]))
                best = k;
        move(choices, i, best);
        choices[i].index = i;
    }
}
