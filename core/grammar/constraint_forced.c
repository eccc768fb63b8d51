/* core/grammar/constraint_forced.c - the tokens that must come next, where there is one way only;
 * see constraint.h.
 *
 * What is forced is bytes: a text may be spelled by other tokens than the longest ones, and a token
 * may go on behind the last forced byte. So these tokens are likely, and not certain.
 */
#include "core/grammar/constraint.h"

#include "core/grammar/constraint_impl.h"

#define FORCED_BYTES 128 /* looked ahead at most */

/* The only byte of a set, or -1: there are none or several. */
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

/* The bytes that follow any reading of the state; returns how many. */
static uint32_t forced_bytes(const struct constraint_state *s, struct walk *w, uint8_t *out)
{
    uint32_t n = 0, from = 0;

    constraint_load(s, w);
    for (; n < FORCED_BYTES; n++) {
        const uint32_t to = w->n_readings;
        int byte;

        walk_look(w, from, to);
        byte = w->may_end ? -1 : only_byte(&w->first);
        if (byte < 0 || w->n_frames > WALK_MAX_FRAMES / 2 || to > WALK_MAX_READINGS / 2)
            break;
        walk_step(w, from, to, (uint8_t)byte);
        if (w->n_readings == to)
            break;
        out[n] = (uint8_t)byte;
        from = to;
    }
    return n;
}

/* The child of a node (UINT32_MAX: of the root) with that byte, or n_nodes. */
static uint32_t child_of(const struct token_trie *t, uint32_t node, uint8_t byte)
{
    const uint32_t end = node == UINT32_MAX ? t->n_nodes : t->nodes[node].end;
    uint32_t i = node == UINT32_MAX ? 0 : node + 1;

    while (i < end && t->nodes[i].byte != byte)
        i = t->nodes[i].end;
    return i < end ? i : t->n_nodes;
}

/* The longest text at the beginning of the bytes: its id, or -1, and its length. */
static int32_t longest(const struct token_trie *t, const uint8_t *bytes, uint32_t n, uint32_t *len)
{
    uint32_t node = UINT32_MAX;
    int32_t id = -1;

    for (uint32_t i = 0; i < n; i++) {
        node = child_of(t, node, bytes[i]);
        if (node == t->n_nodes)
            break;
        if (t->nodes[node].n > 0) {
            id = t->ids[t->nodes[node].first];
            *len = i + 1;
        }
    }
    return id;
}

uint32_t constraint_forced(const struct constraint_state *s, struct constraint_scratch *scratch,
                           int32_t *ids, uint32_t most)
{
    uint8_t bytes[FORCED_BYTES];
    const uint32_t n_bytes = forced_bytes(s, scratch->walk, bytes);
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
