/* scheduler/drafts/injected_drafter.c - see injected_drafter.h.
 *
 * In debug builds only. Random numbers come from a seed and a counter, so a test that fails with
 * SEED:N fails again. Wrong guesses exercise what real drafters rarely cause: undoing blocks and
 * recurrent states after a rejected token.
 */
#include "scheduler/drafts/injected_drafter.h"

#ifdef QUIRE_DEBUG
#include "core/runtime/random.h"
#include "scheduler/request/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void injected_drafter_init(struct injected_drafter *d)
{
    const char *text = getenv("QUIRE_DEBUG_DRAFTS");
    unsigned seed = 0, permille = 0;
    char rest;

    *d = (struct injected_drafter){.takes_all = text != NULL};
    if (text == NULL || strcmp(text, "always") == 0)
        return;
    if (sscanf(text, "%u:%u%c", &seed, &permille, &rest) != 2 || permille > 1000) {
        fprintf(stderr, "QUIRE_DEBUG_DRAFTS must be \"always\" or SEED:N with N up to 1000\n");
        exit(2);
    }
    d->state = (uint64_t)seed << 32;
    d->permille = permille;
}

/* A random number below n. */
static uint32_t draw_injected(struct injected_drafter *d, uint32_t n)
{
    return (uint32_t)(random_uniform(d->state++, 0) * n);
}

struct draft injected_drafter_propose(struct injected_drafter *d, struct request *r,
                                      uint32_t n_known, uint32_t most)
{
    uint32_t n = 0;

    if (d->permille > 0 && draw_injected(d, 1000) < d->permille)
        n = 1 + draw_injected(d, most);
    for (uint32_t i = 0; i < n; i++)
        r->ids[n_known + i] = r->ids[draw_injected(d, n_known)];
    return draft_behind_match(n, DRAFT_INJECTED, 0);
}
#else
void injected_drafter_init(struct injected_drafter *d)
{
    *d = (struct injected_drafter){0};
}

struct draft injected_drafter_propose(struct injected_drafter *d, struct request *r,
                                      uint32_t n_known, uint32_t most)
{
    (void)d;
    (void)r;
    (void)n_known;
    (void)most;
    return (struct draft){0};
}
#endif
