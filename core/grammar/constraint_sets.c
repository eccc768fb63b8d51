/* core/grammar/constraint_sets.c - numbers sets of readings and caches their steps.
 *
 * Stacks are interned first: frames below n_interned are unique, so equal stacks have one number
 * and a set is a sorted array that memcmp() compares. A step copies a set into the walk above the
 * interned frames, interns the frames that it makes, and fills the set's row for all bytes that
 * would have gone the same way, mostly many at once. When a table is full, the caller clears all of
 * them and begins again.
 */
#include "core/grammar/constraint_sets.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SETS 8192
#define SET_SLOTS (2 * MAX_SETS)
#define MAX_POOL (32 * MAX_SETS)
#define FRAME_SLOTS (2 * WALK_MAX_FRAMES)
#define MAX_INTERNED (WALK_MAX_FRAMES / 2)
#define UNKNOWN UINT16_MAX
#define STEPS_PER_SET 64 /* steps that a new set costs */
#define STEPS_TO_CLEAR 2000

struct sets {
    struct walk *w; /* frames below n_interned are those of the sets */
    uint32_t n_interned;
    uint32_t *frame_slots, *set_slots; /* open addressing */
    struct frame *fresh;               /* copies of the frames that the latest step made */
    struct numbered *at;               /* [MAX_SETS] set 0 is the dead one */
    uint32_t n_sets;
    struct reading *pool;
    uint32_t n_pool;
    uint16_t *rows; /* [MAX_SETS][256] the set that a byte leads to */
    uint32_t n_rows;
    bool is_full;
    uint64_t n_steps;
};

int sets_create(struct sets **out, const struct constraint *c)
{
    struct sets *s = mem_calloc(1, sizeof(*s));

    *out = s;
    if (s == NULL)
        return ERR_NOMEM;
    s->frame_slots = mem_calloc(FRAME_SLOTS, sizeof(*s->frame_slots));
    s->set_slots = mem_calloc(SET_SLOTS, sizeof(*s->set_slots));
    s->fresh = mem_calloc(WALK_MAX_FRAMES, sizeof(*s->fresh));
    s->at = mem_calloc(MAX_SETS, sizeof(*s->at));
    s->pool = mem_calloc(MAX_POOL, sizeof(*s->pool));
    s->rows = mem_alloc((size_t)MAX_SETS * 256 * sizeof(*s->rows));
    if (s->frame_slots == NULL || s->set_slots == NULL || s->fresh == NULL || s->at == NULL ||
        s->pool == NULL || s->rows == NULL || walk_create(&s->w) < 0) {
        sets_destroy(out);
        return ERR_NOMEM;
    }
    walk_begin(s->w, c->g, c->needs, &c->bytes);
    sets_clear(s);
    return 0;
}

void sets_destroy(struct sets **sets)
{
    struct sets *s = sets != NULL ? *sets : NULL;

    if (s == NULL)
        return;
    walk_destroy(&s->w);
    mem_free(s->frame_slots);
    mem_free(s->set_slots);
    mem_free(s->fresh);
    mem_free(s->at);
    mem_free(s->pool);
    mem_free(s->rows);
    mem_free(s);
    *sets = NULL;
}

const struct walk *sets_walk(const struct sets *s)
{
    return s->w;
}

const struct numbered *sets_at(const struct sets *s, uint16_t set)
{
    return &s->at[set];
}

bool sets_are_full(const struct sets *s)
{
    return s->is_full;
}

const uint64_t *sets_n_steps(const struct sets *s)
{
    return &s->n_steps;
}

void sets_clear(struct sets *s)
{
    s->n_steps += STEPS_TO_CLEAR;
    memset(s->frame_slots, 0, FRAME_SLOTS * sizeof(*s->frame_slots));
    memset(s->set_slots, 0, SET_SLOTS * sizeof(*s->set_slots));
    s->n_interned = 1;
    s->w->n_frames = 1;
    s->n_sets = 1; /* set 0 is the dead one */
    s->n_pool = 0;
    s->n_rows = 0;
    s->is_full = false;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint32_t intern_frame(struct sets *s, const struct frame *f)
{
    const uint64_t hash = mix(mix(mix(1, f->node), f->count), f->parent);
    uint32_t at = (uint32_t)hash & (FRAME_SLOTS - 1);

    for (; s->frame_slots[at] != 0; at = (at + 1) & (FRAME_SLOTS - 1)) {
        const struct frame *g = &s->w->frames[s->frame_slots[at]];

        if (g->node == f->node && g->count == f->count && g->parent == f->parent)
            return s->frame_slots[at];
    }
    if (s->n_interned == MAX_INTERNED) {
        s->is_full = true;
        return 0;
    }
    s->w->frames[s->n_interned] = *f;
    s->frame_slots[at] = s->n_interned;
    return s->n_interned++;
}

/* Interns a stack whose top frames are fresh ones, numbered from `base` on; returns its number. */
static uint32_t intern_stack(struct sets *s, uint32_t top, uint32_t base)
{
    uint32_t chain[CONSTRAINT_MAX_DEPTH + 1], n = 0, below;

    for (below = top; below >= base; below = s->fresh[below - base].parent)
        chain[n++] = below;
    while (n > 0) {
        struct frame f = s->fresh[chain[--n] - base];

        f.parent = below;
        below = intern_frame(s, &f);
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

/* Returns how many iterations the reading has begun, if the place is in a loop. */
static uint32_t begun(const struct sets *s, struct reading r)
{
    const struct frame *f;

    if (r.top == 0)
        return 0;
    f = &s->w->frames[r.top];
    while (f->parent != 0)
        f = &s->w->frames[f->parent];
    return f->node >= s->w->g->first_probe ? f->count : 0;
}

/* Computes the facts about a new set, which never change. */
static void look_at_set(struct sets *s, struct numbered *set)
{
    struct walk *w = s->w;
    uint32_t more = UINT8_MAX;

    memcpy(w->readings, s->pool + set->from, set->n * sizeof(*w->readings));
    w->n_readings = set->n;
    w->n_frames = s->n_interned;
    w->work = 0;
    walk_look(w, 0, set->n);
    s->n_steps += 4 * (uint64_t)w->work;
    set->first = w->first;
    for (uint32_t i = 0; i < w->n_exits; i++)
        set->exits[i] = (uint8_t)(w->exits[i] < UINT8_MAX ? w->exits[i] : UINT8_MAX);
    set->n_exits = (uint8_t)w->n_exits;
    set->is_vague = w->too_many_exits;
    if (w->may_end && set->n_exits < WALK_MAX_EXITS) /* the place's own rule has ended */
        set->exits[set->n_exits++] = 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (begun(s, w->readings[i]) < more)
            more = begun(s, w->readings[i]);
    set->more = (uint8_t)more;
}

static uint16_t number_set(struct sets *s, struct reading *r, uint32_t n)
{
    uint64_t hash = n;
    uint32_t at;

    qsort(r, n, sizeof(*r), compare_readings);
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, (uint64_t)r[i].node << 32 | r[i].top);
    for (at = (uint32_t)hash & (SET_SLOTS - 1); s->set_slots[at] != 0;
         at = (at + 1) & (SET_SLOTS - 1)) {
        const struct numbered *old = &s->at[s->set_slots[at]];

        if (old->n == n && memcmp(s->pool + old->from, r, n * sizeof(*r)) == 0)
            return (uint16_t)s->set_slots[at];
    }
    if (s->n_sets == MAX_SETS || s->n_pool + n > MAX_POOL) {
        s->is_full = true;
        return SETS_DEAD;
    }
    s->n_steps += STEPS_PER_SET + 8 * n; /* sorted, hashed, copied */
    memcpy(s->pool + s->n_pool, r, n * sizeof(*r));
    s->at[s->n_sets] = (struct numbered){.from = s->n_pool, .n = n};
    s->n_pool += n;
    s->set_slots[at] = s->n_sets;
    look_at_set(s, &s->at[s->n_sets]);
    return (uint16_t)s->n_sets++;
}

/* Numbers the set that a step has left in readings[from ..]. */
static uint16_t number_result(struct sets *s, uint32_t from)
{
    struct walk *w = s->w;
    const uint32_t n = w->n_readings - from, base = s->n_interned;

    if (n == 0)
        return SETS_DEAD;
    memcpy(s->fresh, w->frames + base, (w->n_frames - base) * sizeof(*s->fresh));
    for (uint32_t i = from; i < w->n_readings && !s->is_full; i++)
        w->readings[i].top = intern_stack(s, w->readings[i].top, base);
    return s->is_full ? SETS_DEAD : number_set(s, w->readings + from, n);
}

static uint16_t compute_step(struct sets *s, const struct numbered *set, uint8_t byte)
{
    struct walk *w = s->w;

    memcpy(w->readings, s->pool + set->from, set->n * sizeof(*w->readings));
    w->n_readings = set->n;
    w->n_frames = s->n_interned;
    w->work = 0;
    walk_step(w, 0, set->n, byte);
    s->n_steps += 4 * (uint64_t)w->work;
    return number_result(s, set->n);
}

uint16_t sets_step(struct sets *s, uint16_t from, uint8_t byte)
{
    struct numbered *set = &s->at[from];
    uint16_t *row, to;

    if (!byte_set_has(&set->first, byte))
        return SETS_DEAD;
    if (set->row == 0) {
        memset(s->rows + (size_t)s->n_rows * 256, 0xFF, 256 * sizeof(*s->rows));
        set->row = ++s->n_rows;
    }
    row = s->rows + (size_t)(set->row - 1) * 256;
    if (row[byte] == UNKNOWN) {
        to = compute_step(s, set, byte);
        for (uint32_t b = 0; b < 256; b++)
            if (byte_set_has(&s->w->same, (uint8_t)b))
                row[b] = to;
    }
    return row[byte];
}

uint16_t sets_start(struct sets *s, struct place_key key)
{
    struct reading r = {.node = key.node};
    struct frame loop = {.depth = 1};

    if (key.loop != PLACE_NO_LOOP) {
        loop.node = s->w->g->rules[key.loop].probe;
        r.top = intern_frame(s, &loop);
    }
    return s->is_full ? SETS_DEAD : number_set(s, &r, 1);
}
