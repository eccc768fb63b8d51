/* core/text/constraint_probe.c - which tokens fit at a place, whatever the stack below holds.
 *
 * The place is put on an empty stack and the whole trie is walked from it. Sets of readings that
 * turn up again (after most bytes of a text they do) are numbered, and their steps are looked up in
 * tables, so that a walk over a vocabulary takes a few milliseconds. Where the rule is left, what
 * remains of the token is noted for later, if it begins with a byte that can follow at all.
 */
#include "core/text/constraint_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SETS 8192
#define SET_SLOTS (2 * MAX_SETS)
#define MAX_POOL (4 * MAX_SETS)
#define FRAME_SLOTS (2 * WALK_MAX_FRAMES)
#define MAX_INTERNED (WALK_MAX_FRAMES / 2)
#define UNKNOWN UINT16_MAX
#define DEAD 0
#define MAX_STEPS 200000000u /* of all walks: about a second */
#define STEPS_PER_SET 64  /* what a new set costs, in steps */

struct numbered { /* a set of readings, and what is known of it */
    uint32_t from, n; /* in the pool */
    uint32_t row;     /* index + 1 of its steps, 0 = none yet */
    uint8_t more;     /* iterations begun, of the reading with the fewest */
    uint8_t n_exits, exits[WALK_MAX_EXITS];
    bool is_vague; /* there are more exits than that */
    struct byte_set first;
};

struct found { /* a token and the iterations that it begins */
    int32_t id;
    uint32_t more;
};

struct found_rest {
    uint32_t at, n; /* its bytes */
    struct found token;
};

struct probe {
    struct constraint *c;
    struct walk *w; /* frames below n_interned are those of numbered sets */
    uint32_t n_interned;
    uint32_t *frame_slots, *set_slots;
    struct frame *fresh;
    struct numbered *sets;
    uint32_t n_sets;
    struct reading *pool;
    uint32_t n_pool;
    uint16_t *rows; /* [MAX_SETS][256] */
    uint32_t n_rows;
    bool is_full; /* the tables are: begin afresh */
    struct byte_set *behind_rule, *behind_loop;
    uint64_t n_steps;
    uint32_t worth_it;
    /* the place at hand */
    struct found *fits; /* [trie->n_ids] */
    uint32_t n_fits;
    struct found_rest *rests; /* [PLACE_MANY] */
    uint32_t n_rests;
    char *text; /* of the rests */
    uint32_t n_text;
    bool too_many;
    uint8_t path[TOKEN_TRIE_MAX_BYTES];
};

#define MAX_TEXT (16 * PLACE_MANY)

/* ---- numbering frames and sets ---- */

static void begin_afresh(struct probe *p)
{
    memset(p->frame_slots, 0, FRAME_SLOTS * sizeof(*p->frame_slots));
    memset(p->set_slots, 0, SET_SLOTS * sizeof(*p->set_slots));
    p->n_interned = 1;
    p->w->n_frames = 1;
    p->n_sets = 1; /* 0 is the dead one */
    p->n_pool = 0;
    p->n_rows = 0;
    p->is_full = false;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint32_t intern_frame(struct probe *p, const struct frame *f)
{
    const uint64_t hash = mix(mix(mix(1, f->node), f->count), f->parent);
    uint32_t at = (uint32_t)hash & (FRAME_SLOTS - 1);

    for (; p->frame_slots[at] != 0; at = (at + 1) & (FRAME_SLOTS - 1)) {
        const struct frame *g = &p->w->frames[p->frame_slots[at]];

        if (g->node == f->node && g->count == f->count && g->parent == f->parent)
            return p->frame_slots[at];
    }
    if (p->n_interned == MAX_INTERNED) {
        p->is_full = true;
        return 0;
    }
    p->w->frames[p->n_interned] = *f;
    p->frame_slots[at] = p->n_interned;
    return p->n_interned++;
}

/* The number of a stack whose latest frames are among the fresh ones, which begin at `base`. */
static uint32_t intern_stack(struct probe *p, uint32_t top, uint32_t base)
{
    uint32_t chain[CONSTRAINT_MAX_DEPTH + 1], n = 0, below;

    for (below = top; below >= base; below = p->fresh[below - base].parent)
        chain[n++] = below;
    while (n > 0) {
        struct frame f = p->fresh[chain[--n] - base];

        f.parent = below;
        below = intern_frame(p, &f);
    }
    return below;
}

static int compare_readings(const void *a, const void *b)
{
    const struct reading *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->top > y->top) - (x->top < y->top);
}

/* How many iterations the reading has begun, if the place is in a loop. */
static uint32_t begun(const struct probe *p, struct reading r)
{
    const struct frame *f;

    if (r.top == 0)
        return 0;
    f = &p->w->frames[r.top];
    while (f->parent != 0)
        f = &p->w->frames[f->parent];
    return f->node >= p->c->g->first_probe ? f->count : 0;
}

/* What can be said of a new set, once and for all. */
static void look_at_set(struct probe *p, struct numbered *set)
{
    struct walk *w = p->w;
    uint32_t more = UINT8_MAX;

    memcpy(w->readings, p->pool + set->from, set->n * sizeof(*w->readings));
    w->n_readings = set->n;
    w->n_frames = p->n_interned;
    walk_look(w, 0, set->n);
    set->first = w->first;
    for (uint32_t i = 0; i < w->n_exits; i++)
        set->exits[i] = (uint8_t)(w->exits[i] < UINT8_MAX ? w->exits[i] : UINT8_MAX);
    set->n_exits = (uint8_t)w->n_exits;
    set->is_vague = w->too_many_exits;
    if (w->may_end && set->n_exits < WALK_MAX_EXITS) /* the place's own rule has ended */
        set->exits[set->n_exits++] = 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (begun(p, w->readings[i]) < more)
            more = begun(p, w->readings[i]);
    set->more = (uint8_t)more;
}

static uint16_t number_set(struct probe *p, struct reading *r, uint32_t n)
{
    uint64_t hash = n;
    uint32_t at;

    qsort(r, n, sizeof(*r), compare_readings);
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, (uint64_t)r[i].node << 32 | r[i].top);
    for (at = (uint32_t)hash & (SET_SLOTS - 1); p->set_slots[at] != 0;
         at = (at + 1) & (SET_SLOTS - 1)) {
        const struct numbered *s = &p->sets[p->set_slots[at]];

        if (s->n == n && memcmp(p->pool + s->from, r, n * sizeof(*r)) == 0)
            return (uint16_t)p->set_slots[at];
    }
    if (p->n_sets == MAX_SETS || p->n_pool + n > MAX_POOL) {
        p->is_full = true;
        return DEAD;
    }
    p->n_steps += STEPS_PER_SET;
    memcpy(p->pool + p->n_pool, r, n * sizeof(*r));
    p->sets[p->n_sets] = (struct numbered){.from = p->n_pool, .n = n};
    p->n_pool += n;
    p->set_slots[at] = p->n_sets;
    look_at_set(p, &p->sets[p->n_sets]);
    return (uint16_t)p->n_sets++;
}

/* Number what a step has left in readings[from ..]. */
static uint16_t number_result(struct probe *p, uint32_t from)
{
    struct walk *w = p->w;
    const uint32_t n = w->n_readings - from, base = p->n_interned;

    if (n == 0)
        return DEAD;
    memcpy(p->fresh, w->frames + base, (w->n_frames - base) * sizeof(*p->fresh));
    for (uint32_t i = from; i < w->n_readings && !p->is_full; i++)
        w->readings[i].top = intern_stack(p, w->readings[i].top, base);
    return p->is_full ? DEAD : number_set(p, w->readings + from, n);
}

static uint16_t compute_step(struct probe *p, const struct numbered *set, uint8_t byte)
{
    struct walk *w = p->w;

    memcpy(w->readings, p->pool + set->from, set->n * sizeof(*w->readings));
    w->n_readings = set->n;
    w->n_frames = p->n_interned;
    w->work = 0;
    walk_step(w, 0, set->n, byte);
    p->n_steps += w->work;
    return number_result(p, set->n);
}

static uint16_t step(struct probe *p, uint16_t from, uint8_t byte)
{
    struct numbered *set = &p->sets[from];
    uint16_t *cell, to;

    if (!byte_set_has(&set->first, byte))
        return DEAD;
    if (set->row == 0) {
        memset(p->rows + (size_t)p->n_rows * 256, 0xFF, 256 * sizeof(*p->rows));
        set->row = ++p->n_rows;
    }
    cell = p->rows + (size_t)(set->row - 1) * 256 + byte;
    if (*cell == UNKNOWN) {
        to = compute_step(p, set, byte);
        *cell = to;
    }
    return *cell;
}

/* ---- walking ---- */

static void note_fits(struct probe *p, const struct trie_node *n, uint32_t more)
{
    for (uint32_t i = 0; i < n->n; i++)
        p->fits[p->n_fits++] = (struct found){p->c->trie->ids[n->first + i], more};
}

/* The rule was left `depth` bytes into the texts of node i: what is left of them. */
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

    for (uint32_t i = from; i < end && !p->too_many;) {
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
    const struct numbered *s = &p->sets[set];

    p->too_many = p->too_many || s->is_vague;
    for (uint32_t k = 0; k < s->n_exits; k++)
        note_rests(p, from, end, depth, s->exits[k], behind);
}

/* All tokens from a set of readings. Returns the steps, or 0 when the tables are full. */
static uint64_t walk_all(struct probe *p, uint16_t start, const struct byte_set *behind)
{
    const struct token_trie *t = p->c->trie;
    uint16_t at[TOKEN_TRIE_MAX_BYTES + 1];
    uint64_t n_steps = 1;

    p->n_fits = p->n_rests = p->n_text = 0;
    p->too_many = false;
    at[0] = start;
    note_exits(p, start, 0, t->n_nodes, 0, behind);
    for (uint32_t i = 0; i < t->n_nodes && !p->too_many;) {
        const struct trie_node *n = &t->nodes[i];
        const uint16_t set = step(p, at[n->depth - 1], n->byte);

        if (p->is_full)
            return 0;
        if (set == DEAD) {
            i = n->end;
            continue;
        }
        n_steps++;
        at[n->depth] = set;
        p->path[n->depth - 1] = n->byte;
        note_fits(p, n, p->sets[set].more);
        note_exits(p, set, i + 1, n->end, n->depth, behind);
        i++;
    }
    p->n_steps += n_steps;
    return n_steps;
}

/* The place on an empty stack, as a numbered set. */
static uint16_t start_at(struct probe *p, struct place_key key)
{
    struct reading r = {.node = key.node};
    struct frame loop = {.depth = 1};

    if (key.loop != PLACE_NO_LOOP) {
        loop.node = p->c->g->rules[key.loop].probe;
        r.top = intern_frame(p, &loop);
    }
    return number_set(p, &r, 1);
}

/* ---- keeping what was found ---- */

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

/* Each level has its own tokens first, then those of the levels below it as well. */
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

/* Sorted by counting: `upto` first says where each number's tokens begin, in the end where they
 * end. */
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
    return make_masks(place, p, place->upto[0] < p->n_fits);
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
        texts[i] = (struct trie_text){p->text + p->rests[i].at, p->rests[i].n, (int32_t)i};
        place->out_ids[i] = p->rests[i].token.id;
        place->out_more[i] = (uint8_t)p->rests[i].token.more;
    }
    rc = token_trie_create(&place->rest, texts, p->n_rests, 0);
    mem_free(texts);
    return rc;
}

static size_t place_bytes(const struct place *p)
{
    size_t sum = sizeof(*p) + p->n_ids * sizeof(*p->ids);

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

/* In the middle of a word of the grammar hardly any token fits: not worth a walk. */
static bool is_plain(const struct grammar *g, struct place_key key)
{
    const struct grammar_node *n = &g->nodes[key.node];

    return n->kind == GRAMMAR_BYTE && n_bytes(&g->sets[n->arg]) == 1;
}

static const struct byte_set *behind(const struct probe *p, struct place_key key)
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
            begin_afresh(p);
        start = start_at(p, entry->key);
        if (!p->is_full)
            n_steps = walk_all(p, start, behind(p, entry->key));
    }
    if (p->w->dropped)
        return ERR_RANGE;
    if (p->is_full)
        begin_afresh(p);
    if (n_steps < p->worth_it || p->too_many)
        return 0;
    return add_place(p, entry);
}

static int probe_all(struct probe *p, char *err, size_t err_len)
{
    struct constraint *c = p->c;
    int rc = places_follow(c->g, p->behind_rule, p->behind_loop);

    for (uint32_t i = 0; rc == 0 && i < c->map.cap; i++) {
        struct place_entry *entry = &c->map.slots[i];

        if (!entry->is_used || !entry->is_target || is_plain(c->g, entry->key))
            continue;
        rc = probe_place(p, entry);
        if (rc == ERR_RANGE) {
            snprintf(err, err_len, "it has too many alternatives at one place");
            rc = ERR_LIMIT;
        } else if (rc == 0 && (p->n_steps > MAX_STEPS || c->bytes_used > CONSTRAINT_MAX_BYTES)) {
            snprintf(err, err_len, "it is too complex for a vocabulary of %u tokens",
                     c->trie->n_vocab);
            rc = ERR_LIMIT;
        }
    }
    c->deepest = p->w->deepest;
    return rc;
}

static int allocate(struct probe *p)
{
    const uint32_t n_rules = p->c->g->n_rules;

    p->frame_slots = mem_calloc(FRAME_SLOTS, sizeof(*p->frame_slots));
    p->set_slots = mem_calloc(SET_SLOTS, sizeof(*p->set_slots));
    p->fresh = mem_calloc(WALK_MAX_FRAMES, sizeof(*p->fresh));
    p->sets = mem_calloc(MAX_SETS, sizeof(*p->sets));
    p->pool = mem_calloc(MAX_POOL, sizeof(*p->pool));
    p->rows = mem_alloc((size_t)MAX_SETS * 256 * sizeof(*p->rows));
    p->behind_rule = mem_calloc(n_rules, sizeof(*p->behind_rule));
    p->behind_loop = mem_calloc(n_rules, sizeof(*p->behind_loop));
    p->fits = mem_calloc((size_t)p->c->trie->n_ids + 1, sizeof(*p->fits));
    p->rests = mem_calloc(PLACE_MANY, sizeof(*p->rests));
    p->text = mem_alloc(MAX_TEXT);
    if (p->frame_slots == NULL || p->set_slots == NULL || p->fresh == NULL || p->sets == NULL ||
        p->pool == NULL || p->rows == NULL || p->behind_rule == NULL || p->behind_loop == NULL ||
        p->fits == NULL || p->rests == NULL || p->text == NULL)
        return ERR_NOMEM;
    return walk_create(&p->w);
}

static void release(struct probe *p)
{
    walk_destroy(&p->w);
    mem_free(p->frame_slots);
    mem_free(p->set_slots);
    mem_free(p->fresh);
    mem_free(p->sets);
    mem_free(p->pool);
    mem_free(p->rows);
    mem_free(p->behind_rule);
    mem_free(p->behind_loop);
    mem_free(p->fits);
    mem_free(p->rests);
    mem_free(p->text);
}

int probe_places(struct constraint *c, uint32_t worth_it, char *err, size_t err_len)
{
    struct probe p = {.c = c, .worth_it = worth_it};
    int rc;

    snprintf(err, err_len, "out of memory");
    rc = allocate(&p);
    if (rc == 0) {
        walk_begin(p.w, c->g, c->needs, &c->bytes);
        begin_afresh(&p);
        rc = probe_all(&p, err, err_len);
    }
    release(&p);
    return rc;
}
