/* scheduler/drafts/drafter.c - see drafter.h. */
#include "scheduler/drafts/drafter.h"

static bool is_among(int32_t id, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

uint32_t draft_before_end(const int32_t *ids, uint32_t n, const int32_t *ends, size_t n_ends)
{
    uint32_t i = 0;

    while (i < n && !is_among(ids[i], ends, n_ends))
        i++;
    return i;
}

const char *draft_source_name(enum draft_source s)
{
    static const char *const names[DRAFT_SOURCES] = {
        [DRAFT_LOOKUP] = "lookup",
        [DRAFT_PREDICTION] = "prediction",
        [DRAFT_GRAMMAR] = "grammar",
        [DRAFT_HISTORY] = "history",
        [DRAFT_INJECTED] = "injected",
    };

    return names[s];
}
