/* server/api/params/conversation_drop.c - a conversation without its oldest messages; see
 * conversation.h.
 *
 * stays[] turns all rules about roles and pairs into one number for each message, so that
 * api_request_drop.c can try different n by halving without looking at a role again. To pair a tool
 * result with its call, all calls are sorted by id and message, and each result finds the latest
 * call before it by bisection: a long conversation with many calls costs n log n.
 */
#include "server/api/params/conversation.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct call_place {
    const char *id;
    uint32_t message;
};

/* Sort order: by id; calls with the same id by their messages. */
static int compare_places(const void *a, const void *b)
{
    const struct call_place *x = a, *y = b;
    const int by_id = strcmp(x->id, y->id);

    return by_id != 0 ? by_id : (x->message > y->message) - (x->message < y->message);
}

/* List the calls that have an id, sorted by compare_places(). */
static uint32_t list_calls(const struct conversation *c, struct call_place *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_messages; i++)
        for (uint32_t k = 0; k < c->messages[i].n_calls; k++) {
            const char *id = c->calls[c->messages[i].first_call + k].id;

            if (id != NULL)
                out[n++] = (struct call_place){id, i};
        }
    if (n > 0)
        qsort(out, n, sizeof(*out), compare_places);
    return n;
}

/* Find the message with the latest call of that id before message i. Returns i: there is none. */
static uint32_t find_caller(const struct call_place *calls, uint32_t n, const char *id, uint32_t i)
{
    const struct call_place wanted = {id, i};
    uint32_t low = 0, high = n;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (compare_places(&calls[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && strcmp(calls[low - 1].id, id) == 0 ? calls[low - 1].message : i;
}

static void pair_results(const struct conversation *c, const struct call_place *calls, uint32_t n,
                         uint32_t *stays)
{
    for (uint32_t i = 0; i < c->n_messages; i++) {
        const struct chat_message *m = &c->messages[i];

        if (strcmp(m->role, "developer") == 0)
            stays[i] = UINT32_MAX;
        else if (strcmp(m->role, "tool") == 0 && m->tool_call_id != NULL)
            stays[i] = find_caller(calls, n, m->tool_call_id, i);
    }
}

int conversation_find_stays(const struct conversation *c, bool keeps_pairs, uint32_t *stays)
{
    struct call_place *calls;

    for (uint32_t i = 0; i < c->n_messages; i++)
        stays[i] = strcmp(c->messages[i].role, "system") == 0 ? UINT32_MAX : i;
    if (!keeps_pairs)
        return 0;
    calls = mem_calloc(c->n_calls + 1, sizeof(*calls));
    if (calls == NULL)
        return ERR_NOMEM;
    pair_results(c, calls, list_calls(c, calls), stays);
    mem_free(calls);
    return 0;
}

void conversation_drop(struct conversation *c, const uint32_t *stays, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n_messages; i++)
        if (stays[i] >= n)
            c->messages[kept++] = c->messages[i];
    c->n_messages = kept;
}
