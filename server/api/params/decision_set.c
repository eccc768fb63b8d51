/* server/api/params/decision_set.c - see decision_set.h.
 *
 * The options of all questions stand in one array, in the order of the questions, and so do the
 * prompts. Both arrays double when they are full.
 */
#include "server/api/params/decision_set.h"

#include "core/base/mem.h"

#include <string.h>

void decision_set_release(struct decision_set *s)
{
    mem_free(s->questions);
    mem_free(s->options);
    *s = (struct decision_set){0};
}

/* Make room for one more element of `size` bytes in an array whose room is a power of two. */
static bool grow_set(void **array, uint32_t n, size_t size)
{
    void *more;

    if ((n & (n - 1)) != 0)
        return true;
    more = mem_realloc(*array, (n == 0 ? 1 : 2 * (size_t)n) * size);
    if (more == NULL)
        return false;
    *array = more;
    return true;
}

struct decision_question *decision_set_add(struct decision_set *s, enum decision_kind kind)
{
    struct decision_question *q;

    if (!grow_set((void **)&s->questions, s->n_questions, sizeof(*s->questions)))
        return NULL;
    q = &s->questions[s->n_questions++];
    *q = (struct decision_question){.kind = kind, .first_option = s->n_options};
    return q;
}

struct decision_option *decision_set_add_option(struct decision_set *s)
{
    struct decision_option *o;

    if (!grow_set((void **)&s->options, s->n_options, sizeof(*s->options)))
        return NULL;
    o = &s->options[s->n_options++];
    *o = (struct decision_option){0};
    s->questions[s->n_questions - 1].n_options++;
    return o;
}

/* Options of a choice can be rotated by each number of places; the order of levels, and of yes and
 * no, can only be reversed. */
static uint32_t most_orders(const struct decision_question *q)
{
    return q->kind == DECISION_CHOICE ? q->n_options : 2;
}

uint32_t decision_set_count_prompts(struct decision_set *s)
{
    const uint32_t wanted = s->permutations > 0 ? s->permutations : 1;
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_questions; i++) {
        struct decision_question *q = &s->questions[i];
        const uint32_t most = most_orders(q);

        q->first_prompt = n;
        q->n_orders = wanted < most ? wanted : most;
        n += q->n_orders;
    }
    return n;
}

const struct decision_question *decision_set_of_prompt(const struct decision_set *s, uint32_t i,
                                                       uint32_t *order)
{
    uint32_t low = 0, high = s->n_questions;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;

        if (s->questions[middle].first_prompt <= i)
            low = middle;
        else
            high = middle;
    }
    *order = i - s->questions[low].first_prompt;
    return &s->questions[low];
}

uint32_t decision_option_at(const struct decision_question *q, uint32_t order, uint32_t place)
{
    if (q->kind != DECISION_CHOICE)
        return order == 0 ? place : q->n_options - 1 - place;
    /* The rotations are spread evenly, so that each option stands in different parts of the list.
     */
    return (place + (uint32_t)((uint64_t)order * q->n_options / q->n_orders)) % q->n_options;
}
