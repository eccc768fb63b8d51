/* core/grammar/constraint_probe.c - computes the tokens that fit at a place, whatever the stack
 * below holds.
 *
 * The probe walks the trie of all tokens from the place on an empty stack, which takes a few
 * milliseconds (constraint_sets.h). Where a token leaves the rule and its next byte can follow the
 * rule at all, its remaining bytes are kept; constraint_mask.c tries them on the stack of a text.
 */
#include "core/grammar/constraint_impl.h"

#include "core/grammar/constraint_sets.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

/* A set of more readings rarely turns up again: its place is not kept, and is walked for each
 * mask. */
#define MANY_READINGS 48
#define MAX_STEPS 200000000u /* steps of all walks: about a second */

struct found { /* a token and the iterations that it begins */
    int32_t id;
    uint32_t more;
};

struct found_rest {
    uint32_t at, n; /* the rest's n bytes, at offset `at` in probe.text */
    struct found token;
};

struct probe {
    struct constraint *c;
    struct sets *sets;
    struct byte_set *behind_rule, *behind_loop;
    uint64_t n_steps; /* steps besides those of the sets */
    uint64_t n_spent; /* steps charged to the budget, with those of the sets */
    const uint64_t *n_set_steps; /* sets_n_steps() */
    struct budget *budget;
    uint32_t worth_it;
    /* results for the place that is being probed: */
    struct found *fits; /* [trie->n_ids] */
    uint32_t n_fits;
    struct found_rest *rests; /* [PLACE_MANY] */
    uint32_t n_rests;
    char *text; /* [MAX_TEXT] bytes of the rests */
    uint32_t n_text;
    bool too_many;
    uint8_t path[TOKEN_TRIE_MAX_BYTES];
};

#define MAX_TEXT (16 * PLACE_MANY)

/* Steps here (table lookups of some 10 ns) that cost one step of the budget. */
#define PER_BUDGET_STEP 2
#define OFTEN 4096 /* at most so many steps between checks of the budget: some 50 us */

/* ---- walking ---- */

/* Charges the steps since the last call to the budget; false: it is spent. */
static bool spend(struct probe *p)
{
    const uint64_t now = p->n_steps + *p->n_set_steps;

    if (budget_spend(p->budget, (now - p->n_spent) / PER_BUDGET_STEP) < 0)
        return false;
    p->n_spent = now;
    return true;
}

static inline bool advance_probe(struct probe *p)
{
    return p->n_steps + *p->n_set_steps - p->n_spent < OFTEN || spend(p);
}

static void note_fits(struct probe *p, const struct trie_node *n, uint32_t more)
{
    for (uint32_t i = 0; i < n->n; i++)
        p->fits[p->n_fits++] = (struct found){p->c->trie->ids[n->first + i], more};
}

/* Notes what is left of the texts of node i, which leave the rule after `depth` bytes. */
static void note_rests_at(struct probe *p, uint32_t i, uint32_t depth, uint32_t more)
{
    const struct token_trie *t = p->c->trie;
    const struct trie_node *n = &t->nodes[i];
    const uint32_t len = n->depth - depth;

    for (uint32_t k = 0; k < n->n; k++) {
        if (p->n_rests == PLACE_MANY || p->n_text + len > MAX_TEXT) {
            p->too_many = true;
            return;
        }
        p->rests[p->n_rests++] =
            (struct found_rest){p->n_text, len, {t->ids[n->first + k], more}};
    }
    if (n->n > 0) {
        memcpy(p->text + p->n_text, p->path + depth, len);
        p->n_text += len;
    }
}

static void note_rests(struct probe *p, uint32_t from, uint32_t end, uint32_t depth, uint32_t more,
                       const struct byte_set *behind)
{
    const struct trie_node *nodes = p->c->trie->nodes;

    for (uint32_t i = from; i < end && !p->too_many && advance_probe(p);) {
        p->n_steps++;
        if (nodes[i].depth == depth + 1 && !byte_set_has(behind, nodes[i].byte)) {
            i = nodes[i].end;
            continue;
        }
        p->path[nodes[i].depth - 1] = nodes[i].byte;
        note_rests_at(p, i, depth, more);
        i++;
    }
}

static void note_exits(struct probe *p, uint16_t set, uint32_t from, uint32_t end, uint32_t depth,
                       const struct byte_set *behind)
{
    const struct numbered *s = sets_at(p->sets, set);

    p->too_many = p->too_many || s->is_vague;
    for (uint32_t k = 0; k < s->n_exits; k++)
        note_rests(p, from, end, depth, s->exits[k], behind);
}

/* Walks all tokens from a set of readings. Returns the steps, or 0 when the tables are full or a
 * reading was dropped. */
static uint64_t walk_all(struct probe *p, uint16_t start, const struct byte_set *behind)
{
    const struct token_trie *t = p->c->trie;
    uint16_t at[TOKEN_TRIE_MAX_BYTES + 1];
    uint64_t n_steps = 1;

    p->n_fits = p->n_rests = p->n_text = 0;
    p->too_many = false;
    at[0] = start;
    note_exits(p, start, 0, t->n_nodes, 0, behind);
    for (uint32_t i = 0; i < t->n_nodes && !p->too_many && advance_probe(p);) {
        const struct trie_node *n = &t->nodes[i];
        const uint16_t set = sets_step(p->sets, at[n->depth - 1], n->byte);

        if (sets_are_full(p->sets) || sets_walk(p->sets)->dropped)
            return 0;
        if (set == SETS_DEAD) {
            i = n->end;
            continue;
        }
        p->too_many = sets_at(p->sets, set)->n > MANY_READINGS;
        n_steps++;
        p->n_steps++;
        at[n->depth] = set;
        p->path[n->depth - 1] = n->byte;
        note_fits(p, n, sets_at(p->sets, set)->more);
        note_exits(p, set, i + 1, n->end, n->depth, behind);
        i++;
    }
    return n_steps;
}

/* ---- keeping the results ---- */

void place_release(struct place *p)
{
    mem_free(p->ids);
    mem_free(p->all);
    mem_free(p->levels);
    mem_free(p->out_ids);
    mem_free(p->out_more);
    token_trie_destroy(&p->rest);
    *p = (struct place){0};
}

static void set_bit(uint32_t *bits, int32_t id)
{
    bits[id >> 5] |= (uint32_t)1 << (id & 31);
}

/* Gives each level its own tokens, then those of the levels below it as well. */
static void fill_levels(struct place *place, const struct probe *p)
{
    for (uint32_t i = 0; i < p->n_fits; i++)
        if (p->fits[i].more < PLACE_LEVELS)
            set_bit(place->levels + (size_t)p->fits[i].more * place->n_words, p->fits[i].id);
    for (size_t i = place->n_words; i < (size_t)PLACE_LEVELS * place->n_words; i++)
        place->levels[i] |= place->levels[i - place->n_words];
}

static int make_masks(struct place *place, const struct probe *p, bool has_levels)
{
    place->n_words = p->c->trie->n_vocab / 32 + 1;
    place->all = mem_calloc(place->n_words, sizeof(*place->all));
    if (has_levels)
        place->levels = mem_calloc((size_t)PLACE_LEVELS * place->n_words, sizeof(*place->levels));
    if (place->all == NULL || (has_levels && place->levels == NULL))
        return ERR_NOMEM;
    for (uint32_t i = 0; i < p->n_fits; i++)
        set_bit(place->all, p->fits[i].id);
    if (has_levels)
        fill_levels(place, p);
    return 0;
}

/* Sorts the ids by counting: at[more] is where the next id of that number goes, upto[more] where
 * they end. */
static int keep_fits(struct place *place, const struct probe *p)
{
    uint32_t at[TOKEN_TRIE_MAX_BYTES + 2] = {0};

    place->n_ids = p->n_fits;
    place->ids = mem_calloc((size_t)p->n_fits + 1, sizeof(*place->ids));
    if (place->ids == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < p->n_fits; i++)
        at[p->fits[i].more + 1]++;
    for (uint32_t more = 0; more <= TOKEN_TRIE_MAX_BYTES; more++) {
        at[more + 1] += at[more];
        place->upto[more] = at[more + 1];
    }
    for (uint32_t i = 0; i < p->n_fits; i++)
        place->ids[at[p->fits[i].more]++] = p->fits[i].id;
    if (p->n_fits <= PLACE_FEW)
        return 0;
    if (place->upto[0] == p->n_fits) { /* no token begins an iteration: the mask is enough */
        mem_free(place->ids);
        place->ids = NULL;
        return make_masks(place, p, false);
    }
    return make_masks(place, p, true);
}

static int keep_rests(struct place *place, const struct probe *p)
{
    struct trie_text *texts;
    int rc;

    if (p->n_rests == 0)
        return 0;
    texts = mem_calloc(p->n_rests, sizeof(*texts));
    place->out_ids = mem_calloc(p->n_rests, sizeof(*place->out_ids));
    place->out_more = mem_calloc(p->n_rests, 1);
    if (texts == NULL || place->out_ids == NULL || place->out_more == NULL) {
        mem_free(texts);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < p->n_rests; i++) {
        texts[i] = (struct trie_text){p->text + p->rests[i].at, p->rests[i].n, (int32_t)i, false};
        place->out_ids[i] = p->rests[i].token.id;
        place->out_more[i] = (uint8_t)p->rests[i].token.more;
    }
    rc = token_trie_create(&place->rest, texts, p->n_rests, 0);
    mem_free(texts);
    return rc;
}

static size_t place_bytes(const struct place *p)
{
    size_t sum = sizeof(*p);

    if (p->ids != NULL)
        sum += p->n_ids * sizeof(*p->ids);
    if (p->all != NULL)
        sum += p->n_words * sizeof(*p->all);
    if (p->levels != NULL)
        sum += (size_t)PLACE_LEVELS * p->n_words * sizeof(*p->levels);
    if (p->rest != NULL)
        sum += p->rest->n_nodes * sizeof(*p->rest->nodes) + p->rest->n_ids * (size_t)9;
    return sum;
}

static struct place *new_place(struct constraint *c)
{
    if (c->n_places == c->cap_places) {
        const uint32_t cap = c->cap_places > 0 ? 2 * c->cap_places : 16;
        struct place *more = mem_realloc(c->places, cap * sizeof(*more));

        if (more == NULL)
            return NULL;
        c->places = more;
        c->cap_places = cap;
    }
    c->places[c->n_places] = (struct place){0};
    return &c->places[c->n_places++];
}

static int add_place(struct probe *p, struct place_entry *entry)
{
    struct constraint *c = p->c;
    struct place *place = new_place(c);
    int rc;

    if (place == NULL)
        return ERR_NOMEM;
    rc = keep_fits(place, p);
    if (rc == 0)
        rc = keep_rests(place, p);
    c->bytes_used += place_bytes(place);
    entry->place = c->n_places;
    return rc;
}

/* ---- all places ---- */

static uint32_t n_bytes(const struct byte_set *s)
{
    uint32_t n = 0;

    for (int i = 0; i < 4; i++)
        n += (uint32_t)__builtin_popcountll(s->bits[i]);
    return n;
}

/* True: only one byte is allowed. Inside a literal hardly any token fits, so a walk is not worth
 * it. */
static bool probe_is_plain(const struct grammar *g, struct place_key key)
{
    const struct grammar_node *n = &g->nodes[key.node];

    return n->kind == GRAMMAR_BYTE && n_bytes(&g->sets[n->arg]) == 1;
}

static const struct byte_set *place_behind(const struct probe *p, struct place_key key)
{
    return key.loop != PLACE_NO_LOOP ? &p->behind_loop[key.loop]
                                     : &p->behind_rule[p->c->g->nodes[key.node].rule];
}

static int probe_place(struct probe *p, struct place_entry *entry)
{
    uint64_t n_steps = 0;

    for (int attempt = 0; attempt < 2 && n_steps == 0; attempt++) {
        uint16_t start;

        if (attempt > 0)
            sets_clear(p->sets);
        start = sets_start(p->sets, entry->key);
        if (!sets_are_full(p->sets))
            n_steps = walk_all(p, start, place_behind(p, entry->key));
    }
    if (sets_walk(p->sets)->dropped)
        return ERR_RANGE; /* more readings than a state can hold */
    if (sets_are_full(p->sets))
        sets_clear(p->sets);
    if (n_steps < p->worth_it || p->too_many)
        return 0;
    return add_place(p, entry);
}

static int probe_all(struct probe *p, char *err, size_t err_len)
{
    struct constraint *c = p->c;
    int rc = places_follow(c->g, p->behind_rule, p->behind_loop, p->budget);

    for (uint32_t i = 0; rc == 0 && i < c->map.cap; i++) {
        struct place_entry *entry = &c->map.slots[i];

        if (!entry->is_used || !entry->is_target || probe_is_plain(c->g, entry->key))
            continue;
        p->n_steps += PER_BUDGET_STEP;
        rc = probe_place(p, entry);
        if (rc == 0)
            rc = budget_error(p->budget);
        if (rc == ERR_RANGE) {
            snprintf(err, err_len, "it has too many alternatives at one position");
            rc = ERR_LIMIT;
        } else if (rc == 0 && (p->n_steps + *p->n_set_steps > MAX_STEPS ||
                               c->bytes_used > CONSTRAINT_MAX_BYTES)) {
            snprintf(err, err_len, "it is too complex for a vocabulary of %u tokens",
                     c->trie->n_vocab);
            rc = ERR_LIMIT;
        }
    }
    c->deepest = sets_walk(p->sets)->deepest;
    return rc;
}

static int allocate_probe(struct probe *p)
{
    const uint32_t n_rules = p->c->g->n_rules;

    p->behind_rule = mem_calloc(n_rules, sizeof(*p->behind_rule));
    p->behind_loop = mem_calloc(n_rules, sizeof(*p->behind_loop));
    p->fits = mem_calloc((size_t)p->c->trie->n_ids + 1, sizeof(*p->fits));
    p->rests = mem_calloc(PLACE_MANY, sizeof(*p->rests));
    p->text = mem_alloc(MAX_TEXT);
    if (p->behind_rule == NULL || p->behind_loop == NULL || p->fits == NULL || p->rests == NULL ||
        p->text == NULL)
        return ERR_NOMEM;
    if (sets_create(&p->sets, p->c) < 0)
        return ERR_NOMEM;
    p->n_set_steps = sets_n_steps(p->sets);
    return 0;
}

static void release(struct probe *p)
{
    sets_destroy(&p->sets);
    mem_free(p->behind_rule);
    mem_free(p->behind_loop);
    mem_free(p->fits);
    mem_free(p->rests);
    mem_free(p->text);
}

int probe_places(struct constraint *c, uint32_t worth_it, struct budget *budget, char *err,
                 size_t err_len)
{
    struct probe p = {.c = c, .worth_it = worth_it, .budget = budget};
    int rc;

    snprintf(err, err_len, "out of memory");
    rc = allocate_probe(&p);
    if (rc == 0)
        rc = probe_all(&p, err, err_len);
    release(&p);
    return rc;
}
