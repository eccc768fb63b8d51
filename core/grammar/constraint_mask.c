/* core/grammar/constraint_mask.c - the tokens that a state allows next.
 *
 * A reading at a precomputed place gives its mask at once; only the remaining bytes of tokens that
 * leave its rule are walked along the real stack. All other readings are walked along the whole
 * vocabulary together. The sampler (core/runtime/sampler.c) asks for a mask before each token of a
 * constrained sequence, so CONSTRAINT_MAX_WORK bounds the steps; beyond it only single bytes are
 * tried.
 */
#include "core/grammar/constraint.h"

#include "core/grammar/constraint_impl.h"

#include <string.h>

struct mask {
    const struct constraint *c;
    struct walk *w;
    uint32_t *bits;
    uint32_t n_words;
};

static void set_bit(const struct mask *m, int32_t id)
{
    m->bits[id >> 5] |= (uint32_t)1 << (id & 31);
}

/* ---- walking along a trie ---- */

/* Decides which texts that end at a node of a trie are allowed. */
struct rest_rule {
    const struct place *place; /* NULL: the trie is the vocabulary */
    uint32_t count, min, left; /* the count of the loop that the token leaves, its minimum, the
                                * iterations left */
};

static void take_node(const struct mask *m, const struct token_trie *t, const struct trie_node *n,
                      const struct rest_rule *rule)
{
    for (uint32_t i = n->first; i < n->first + n->n; i++) {
        const int32_t id = t->ids[i];

        if (rule->place == NULL) {
            set_bit(m, id);
        } else {
            const uint32_t more = rule->place->out_more[id];

            if (rule->count + more >= rule->min && more <= rule->left)
                set_bit(m, rule->place->out_ids[id]);
        }
    }
}

struct level { /* the readings after some bytes */
    uint32_t from, to, n_frames;
};

static bool mask_is_empty(const struct mask *m)
{
    uint32_t any = 0;

    for (uint32_t i = 0; i < m->n_words; i++)
        any |= m->bits[i];
    return any == 0;
}

/* Beyond `most` steps only texts of one byte, which can spell every text, are tried, and those only
 * until one has been found. */
static bool is_over(const struct mask *m, const struct trie_node *n, uint32_t most)
{
    return m->w->work > most && (n->depth > 1 || !mask_is_empty(m));
}

/* Walks readings[from ..] along all texts of a trie and sets the bits of those that fit. */
static void walk_trie(const struct mask *m, const struct token_trie *t, uint32_t from,
                      const struct rest_rule *rule, uint32_t most)
{
    struct walk *w = m->w;
    struct level at[TOKEN_TRIE_MAX_BYTES + 1];

    walk_look(w, from, w->n_readings);
    at[0] = (struct level){from, w->n_readings, w->n_frames};
    for (uint32_t i = 0; i < t->n_nodes;) {
        const struct trie_node *n = &t->nodes[i];
        const struct level *above = &at[n->depth - 1];

        if ((n->depth == 1 && !byte_set_has(&w->first, n->byte)) || is_over(m, n, most)) {
            i = n->end;
            continue;
        }
        w->n_readings = above->to;
        w->n_frames = above->n_frames;
        walk_step(w, above->from, above->to, n->byte);
        if (w->n_readings == above->to) {
            i = n->end;
            continue;
        }
        at[n->depth] = (struct level){above->to, w->n_readings, w->n_frames};
        take_node(m, t, n, rule);
        i++;
    }
    w->n_readings = from;
    w->n_frames = at[0].n_frames;
}

/* ---- places ---- */

static void merge_masks(const struct mask *m, const uint32_t *words)
{
    for (uint32_t i = 0; i < m->n_words; i++)
        m->bits[i] |= words[i];
}

/* Merges the mask of all ids, then clears those from `keep` on: tokens that begin many iterations
 * are few, and at the end of the list. */
static void merge_but_last(const struct mask *m, const struct place *p, uint32_t keep)
{
    for (uint32_t i = 0; i < m->n_words; i++)
        m->bits[i] |= p->all[i];
    for (uint32_t i = keep; i < p->n_ids; i++)
        m->bits[p->ids[i] >> 5] &= ~((uint32_t)1 << (p->ids[i] & 31));
}

static void add_fits(const struct mask *m, const struct place *p, uint32_t left, bool is_only)
{
    const uint32_t n = p->upto[left < TOKEN_TRIE_MAX_BYTES ? left : TOKEN_TRIE_MAX_BYTES];

    if (p->all != NULL && n == p->n_ids) {
        merge_masks(m, p->all);
    } else if (p->levels != NULL && left < PLACE_LEVELS) {
        merge_masks(m, p->levels + (size_t)left * p->n_words);
    } else if (p->all != NULL && is_only) {
        merge_but_last(m, p, n);
    } else {
        for (uint32_t i = 0; i < n; i++)
            set_bit(m, p->ids[i]);
    }
}

/* Returns the precomputed place of a reading; NULL: there is none, or its tokens might not fit on
 * this stack. */
static const struct place *mask_place(const struct mask *m, struct reading r, uint32_t *loop)
{
    const struct constraint *c = m->c;
    const struct frame *f = &m->w->frames[r.top];
    const bool in_loop = r.top != 0 && c->g->nodes[f->node].kind == GRAMMAR_LOOP;
    struct place_key key = {r.node, PLACE_NO_LOOP};
    const struct place_entry *e;

    if (in_loop)
        key.loop = c->g->repeats[c->g->nodes[f->node].arg].body;
    if (c->g->nodes[r.node].kind == GRAMMAR_LOOP)
        key.node = c->g->rules[key.loop].probe;
    e = places_find(&c->map, key);
    *loop = in_loop ? f->node : GRAMMAR_NO_LIMIT;
    if (e == NULL || e->place == 0 || f->depth + c->deepest > CONSTRAINT_MAX_DEPTH)
        return NULL;
    return &c->places[e->place - 1];
}

/* Adds the place's tokens, and those that leave it, whose rests are walked along the real stack. */
static void add_place(const struct mask *m, const struct place *p, struct reading r, uint32_t loop,
                      bool is_only)
{
    struct walk *w = m->w;
    const struct frame f = w->frames[r.top];
    struct rest_rule rule = {.place = p, .left = TOKEN_TRIE_MAX_BYTES};
    struct reading behind = {f.node, f.parent};
    const uint32_t from = w->n_readings;

    if (loop != GRAMMAR_NO_LIMIT) {
        const struct grammar_node *n = &m->c->g->nodes[loop];
        const struct grammar_repeat *repeat = &m->c->g->repeats[n->arg];

        rule.count = f.count;
        rule.min = repeat->min;
        if (repeat->max != GRAMMAR_NO_LIMIT)
            rule.left = repeat->max - f.count;
        behind.node = n->next;
    }
    add_fits(m, p, rule.left, is_only);
    if (p->rest == NULL || r.top == 0)
        return;
    walk_add(w, walk_settle(w, behind));
    walk_trie(m, p->rest, from, &rule, CONSTRAINT_MAX_WORK);
}

/* Adds the tokens of all readings; those without a precomputed place are walked last, together. */
static void add_readings(const struct mask *m)
{
    static const struct rest_rule all = {0};
    struct walk *w = m->w;
    const uint32_t n = w->n_readings;
    uint32_t n_left = 0, loop;

    for (uint32_t i = 0; i < n; i++) {
        const struct reading r = w->readings[i];
        const struct place *p = mask_place(m, r, &loop);

        if (p != NULL)
            add_place(m, p, r, loop, n == 1);
        else
            w->readings[n_left++] = r; /* n_left <= i */
    }
    if (n_left == 0)
        return;
    w->n_readings = n_left;
    walk_trie(m, m->c->trie, 0, &all, CONSTRAINT_MAX_WORK);
}

static void add_marks(const struct mask *m)
{
    const uint32_t *marks = m->c->trie->marks;

    for (uint32_t i = 0; i < m->n_words && marks != NULL; i++)
        m->bits[i] |= marks[i];
}

bool constraint_mask(const struct constraint_state *s, struct constraint_scratch *scratch,
                     uint32_t *bits, uint32_t n_vocab)
{
    static const struct rest_rule all = {0};
    const struct mask m = {
        .c = s->c, .w = scratch->walk, .bits = bits, .n_words = s->c->trie->n_vocab / 32 + 1};
    bool may_end;

    memset(bits, 0, (n_vocab / 32 + 1) * sizeof(*bits));
    constraint_load(s, m.w);
    walk_look(m.w, 0, s->n_readings);
    may_end = m.w->may_end;
    add_readings(&m);
    if (!may_end && mask_is_empty(&m)) { /* the steps ran out before the first token was found */
        constraint_load(s, m.w);
        walk_trie(&m, m.c->trie, 0, &all, 0);
    }
    if (constraint_is_waiting(s))
        add_marks(&m);
    return may_end;
}
