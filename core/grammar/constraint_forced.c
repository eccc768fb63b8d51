/* core/grammar/constraint_forced.c - looks ahead along bytes that leave no choice.
 *
 * The grammar drafter (scheduler/drafts/grammar_drafter.c) turns these bytes into draft tokens,
 * which the model then verifies; so a wrong guess about white space costs time, never the result.
 * The walk looks at its readings before each byte and continues while there is one way only; a
 * limit on its steps keeps it cheap beside a decode step.
 */
#include "core/grammar/constraint.h"

#include "core/grammar/constraint_impl.h"

#define MAX_WORK 20000 /* steps after which the look-ahead stops */

/* Returns the only byte of a set, or -1: there are none or several. */
static int only_byte(const struct byte_set *set)
{
    int n = 0, byte = -1;

    for (int i = 0; i < 4; i++) {
        n += __builtin_popcountll(set->bits[i]);
        if (set->bits[i] != 0)
            byte = 64 * i + __builtin_ctzll(set->bits[i]);
    }
    return n == 1 ? byte : -1;
}

/* Returns the byte of `first` that comes next after `last`; -1: there is a choice beyond white
 * space. */
static int next_byte(const struct constraint_state *s, const struct byte_set *first, uint8_t last)
{
    static const char white[] = " \t\n\r";
    struct byte_set rest = *first;
    int byte = only_byte(first);

    if (byte >= 0)
        return byte;
    for (int i = 0; white[i] != 0; i++)
        byte_set_remove(&rest, (uint8_t)white[i]);
    byte = only_byte(&rest);
    return byte >= 0 && byte_set_has(first, ' ') && byte_set_has(&s->spaced, last) ? ' ' : byte;
}

uint32_t constraint_forced(const struct constraint_state *s, struct constraint_scratch *scratch,
                           uint8_t bytes[CONSTRAINT_FORCED])
{
    struct walk *w = scratch->walk;
    uint32_t n = 0, from = 0;

    constraint_load(s, w);
    for (; n < CONSTRAINT_FORCED; n++) {
        const uint32_t to = w->n_readings;
        int byte;

        walk_look(w, from, to);
        byte = w->may_end ? -1 : next_byte(s, &w->first, n > 0 ? bytes[n - 1] : s->last);
        if (byte < 0 || w->work > MAX_WORK || w->n_frames > WALK_MAX_FRAMES / 2 ||
            to > WALK_MAX_READINGS / 2)
            break;
        walk_step(w, from, to, (uint8_t)byte);
        if (w->n_readings == to)
            break;
        bytes[n] = (uint8_t)byte;
        from = to;
    }
    return n;
}

/* Returns the longest token with which the bytes begin, or -1; *len is its length. */
static int32_t longest(const struct token_trie *t, const uint8_t *bytes, uint32_t n, uint32_t *len)
{
    uint32_t node = UINT32_MAX;
    int32_t id = -1;

    for (uint32_t i = 0; i < n; i++) {
        node = token_trie_child(t, node, bytes[i]);
        if (node == t->n_nodes)
            break;
        if (t->nodes[node].n > 0) {
            id = t->ids[t->nodes[node].first];
            *len = i + 1;
        }
    }
    return id;
}

uint32_t constraint_spell(const struct constraint_state *s, const uint8_t *bytes, uint32_t n_bytes,
                          int32_t *ids, uint32_t most)
{
    uint32_t at = 0, n = 0, len = 0;

    while (n < most && at < n_bytes) {
        ids[n] = longest(s->c->trie, bytes + at, n_bytes - at, &len);
        if (ids[n] < 0)
            break;
        at += len;
        n++;
    }
    return n;
}
