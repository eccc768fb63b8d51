/* core/grammar/constraint.c - creates constraints, and advances states.
 *
 * A state is what a walk needs to continue: constraint_load() copies its readings and frames into
 * the thread's scratch, the walk takes the bytes one by one there, and save() copies the result
 * back only if all bytes were allowed, so a refused token leaves the state unchanged. Creation does
 * the expensive part, listing and probing places within a budget; masks and steps allocate nothing.
 */
#include "core/grammar/constraint.h"

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Places whose walk takes fewer steps are not precomputed: such a walk takes some 20 us. */
#define WORTH_IT 150

/* ---- constraints ---- */

static void destroy_constraint(struct constraint *c)
{
    for (uint32_t i = 0; i < c->n_places; i++)
        place_release(&c->places[i]);
    mem_free(c->places);
    places_release(&c->map);
    mem_free(c->needs);
    grammar_destroy(&c->g);
    mem_free(c);
}

/* Checks that some text can be spelled with the vocabulary's bytes within the largest depth. */
static int check_needs(struct constraint *c, char *err, size_t err_len)
{
    const uint16_t need = c->needs[c->g->rules[0].start];

    if (need == GRAMMAR_HOPELESS) {
        snprintf(err, err_len, "it needs bytes for which the model has no tokens");
        return ERR_UNSUPPORTED;
    }
    if (need > CONSTRAINT_MAX_DEPTH) {
        snprintf(err, err_len, "its shortest text is nested deeper than %d", CONSTRAINT_MAX_DEPTH);
        return ERR_LIMIT;
    }
    return 0;
}

static int prepare_constraint(struct constraint *c, uint32_t worth_it, struct budget *budget,
                              char *err, size_t err_len)
{
    int rc;

    c->needs = mem_calloc(c->g->n_nodes, sizeof(*c->needs));
    if (c->needs == NULL)
        return ERR_NOMEM;
    rc = grammar_needs(c->g, &c->bytes, c->needs);
    if (rc == 0)
        rc = check_needs(c, err, err_len);
    if (rc == 0)
        rc = places_list(&c->map, c->g, budget);
    if (rc == 0)
        rc = probe_places(c, worth_it, budget, err, err_len);
    return rc;
}

int constraint_make(struct constraint **out, struct grammar *g, const struct token_trie *trie,
                    uint32_t worth_it, struct budget *budget, char *err, size_t err_len)
{
    struct constraint *c = mem_calloc(1, sizeof(*c));
    int rc;

    *out = NULL;
    snprintf(err, err_len, "out of memory");
    if (c == NULL)
        return ERR_NOMEM;
    atomic_init(&c->n_refs, 1);
    c->g = g;
    c->trie = trie;
    memcpy(c->bytes.bits, trie->has_byte, sizeof(c->bytes.bits));
    rc = prepare_constraint(c, worth_it, budget, err, err_len);
    if (rc < 0) {
        if (rc == ERR_NOMEM)
            snprintf(err, err_len, "out of memory");
        if (budget_error(budget) < 0) /* the budget's error replaces any other */
            snprintf(err, err_len, "it takes too many steps to compile");
        c->g = NULL;
        destroy_constraint(c);
        return rc;
    }
    c->bytes_used += sizeof(*c) + g->n_nodes * (sizeof(*g->nodes) + sizeof(*c->needs)) +
                     g->n_rules * sizeof(*g->rules) + c->map.cap * sizeof(*c->map.slots);
    *out = c;
    return 0;
}

int constraint_create(struct constraint **out, struct grammar *g, const struct token_trie *trie,
                      struct budget *budget, char *err, size_t err_len)
{
    return constraint_make(out, g, trie, WORTH_IT, budget, err, err_len);
}

struct constraint *constraint_ref(struct constraint *c)
{
    atomic_fetch_add_explicit(&c->n_refs, 1, memory_order_relaxed);
    return c;
}

/* The thread that frees must see what other threads did before they gave up their reference:
 * release by each, acquire by the last. */
void constraint_unref(struct constraint **constraint)
{
    struct constraint *c = constraint != NULL ? *constraint : NULL;

    if (c == NULL)
        return;
    *constraint = NULL;
    if (atomic_fetch_sub_explicit(&c->n_refs, 1, memory_order_acq_rel) == 1)
        destroy_constraint(c);
}

size_t constraint_bytes(const struct constraint *c)
{
    return c->bytes_used;
}

uint32_t constraint_n_places(const struct constraint *c)
{
    return c->n_places;
}

/* ---- scratch ---- */

int constraint_scratch_create(struct constraint_scratch **out)
{
    struct constraint_scratch *s = mem_calloc(1, sizeof(*s));

    *out = NULL;
    if (s == NULL)
        return ERR_NOMEM;
    if (walk_create(&s->walk) < 0) {
        mem_free(s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

void constraint_scratch_destroy(struct constraint_scratch **s)
{
    if (s == NULL || *s == NULL)
        return;
    walk_destroy(&(*s)->walk);
    mem_free(*s);
    *s = NULL;
}

uint32_t constraint_work(const struct constraint_scratch *s)
{
    return s->walk->work;
}

/* ---- states ---- */

size_t constraint_state_bytes(void)
{
    return sizeof(struct constraint_state);
}

void constraint_state_init(struct constraint_state *s, const struct constraint *c)
{
    memset(s, 0, sizeof(*s));
    s->c = c;
    byte_set_add(&s->spaced, ',');
    byte_set_add(&s->spaced, ':');
    s->n_frames = 1;
    s->n_readings = 1;
    s->readings[0] = (struct reading){.node = c->g->rules[0].start};
    if (c->g->nodes[s->readings[0].node].kind == GRAMMAR_REPEAT) { /* move past the REPEAT to its
                                                                    * LOOP, as walk_settle() does */
        s->readings[0].node = c->g->nodes[s->readings[0].node].other;
        s->readings[0].top = s->n_frames;
        s->frames[s->n_frames++] = (struct frame){.node = s->readings[0].node, .depth = 1};
    }
}

void constraint_load(const struct constraint_state *s, struct walk *w)
{
    walk_begin(w, s->c->g, s->c->needs, &s->c->bytes);
    memcpy(w->frames, s->frames, s->n_frames * sizeof(*w->frames));
    memcpy(w->readings, s->readings, s->n_readings * sizeof(*w->readings));
    w->n_frames = s->n_frames;
    w->n_readings = s->n_readings;
}

static void save(struct constraint_state *s, const struct walk *w)
{
    assert(w->n_frames <= STATE_MAX_FRAMES && w->n_readings <= CONSTRAINT_MAX_READINGS);
    memcpy(s->frames, w->frames, w->n_frames * sizeof(*w->frames));
    memcpy(s->readings, w->readings, w->n_readings * sizeof(*w->readings));
    s->n_frames = w->n_frames;
    s->n_readings = w->n_readings;
}

/* Walks over the bytes; the latest step's readings move to the front when space runs low. */
static bool advance_bytes(struct walk *w, const char *bytes, size_t n)
{
    uint32_t from = 0;

    for (size_t i = 0; i < n; i++) {
        const uint32_t to = w->n_readings;

        walk_step(w, from, to, (uint8_t)bytes[i]);
        if (w->n_readings == to)
            return false;
        from = to;
        if (w->n_frames > WALK_MAX_FRAMES / 2 || w->n_readings > WALK_MAX_READINGS / 2) {
            walk_keep(w, from, WALK_MAX_FRAMES / 4);
            from = 0;
        }
    }
    walk_keep(w, from, STATE_MAX_FRAMES);
    return w->n_readings > 0;
}

static void note_spaces(struct constraint_state *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == ' ')
            byte_set_add(&s->spaced, s->last);
        else
            byte_set_remove(&s->spaced, s->last);
        s->last = (uint8_t)bytes[i];
    }
}

static bool can_go_on(const struct walk *w)
{
    return (w->first.bits[0] | w->first.bits[1] | w->first.bits[2] | w->first.bits[3]) != 0;
}

enum constraint_status constraint_advance(struct constraint_state *s,
                                          struct constraint_scratch *scratch, const char *bytes,
                                          size_t n)
{
    struct walk *w = scratch->walk;

    constraint_load(s, w);
    if (!advance_bytes(w, bytes, n))
        return CONSTRAINT_BROKEN;
    save(s, w);
    note_spaces(s, bytes, n);
    walk_look(w, 0, w->n_readings);
    return can_go_on(w) ? CONSTRAINT_OPEN : CONSTRAINT_DONE;
}

bool constraint_is_waiting(const struct constraint_state *s)
{
    const struct grammar *g = s->c->g;

    for (uint32_t i = 0; i < s->n_readings; i++) {
        const struct grammar_node *n = &g->nodes[s->readings[i].node];

        if (g->rules[n->rule].is_free ||
            (n->kind == GRAMMAR_CALL && g->rules[n->arg].is_free)) /* before the first byte */
            return true;
    }
    return false;
}

static bool is_control_mark(const struct token_trie *t, int32_t id)
{
    return t->marks != NULL && (t->marks[id >> 5] >> (id & 31) & 1) != 0;
}

/* Takes a control token if the grammar asks for it here. */
static enum constraint_status take_named(struct constraint_state *s, struct constraint_scratch *w,
                                         int32_t id)
{
    uint32_t n = 0;
    const char *name = token_trie_name(s->c->trie, id, &n);

    return name != NULL ? constraint_advance(s, w, name, n) : CONSTRAINT_BROKEN;
}

/* Takes a token that is not text. Before a trigger any may come: it stands for its name or, where
 * that cannot follow, restarts the text. */
static enum constraint_status take_mark(struct constraint_state *s, struct constraint_scratch *w,
                                        int32_t id)
{
    const struct token_trie *t = s->c->trie;
    enum constraint_status status = CONSTRAINT_BROKEN;

    if (!constraint_is_waiting(s))
        return take_named(s, w, id);
    if (t->text[id] != NULL)
        status = constraint_advance(s, w, t->text[id], t->len[id]);
    if (status != CONSTRAINT_BROKEN)
        return status;
    constraint_state_init(s, s->c);
    return CONSTRAINT_OPEN;
}

enum constraint_status constraint_take(struct constraint_state *s, struct constraint_scratch *w,
                                       int32_t id)
{
    const struct token_trie *t = s->c->trie;

    if (id < 0 || (uint32_t)id >= t->n_vocab)
        return CONSTRAINT_BROKEN;
    if (is_control_mark(t, id))
        return take_mark(s, w, id);
    if (t->text[id] == NULL)
        return CONSTRAINT_BROKEN;
    return constraint_advance(s, w, t->text[id], t->len[id]);
}

const char *constraint_text(const struct constraint_state *s, int32_t id, uint32_t *len)
{
    const struct token_trie *t = s->c->trie;

    if (id < 0 || (uint32_t)id >= t->n_vocab || t->text[id] == NULL)
        return NULL;
    if (is_control_mark(t, id))
        return constraint_is_waiting(s) ? NULL : token_trie_name(t, id, len);
    *len = t->len[id];
    return t->text[id];
}

bool constraint_allows(const struct constraint_state *s, struct constraint_scratch *scratch,
                       int32_t id)
{
    uint32_t n = 0;
    const char *text = constraint_text(s, id, &n);

    if (text == NULL)
        return false;
    constraint_load(s, scratch->walk);
    return advance_bytes(scratch->walk, text, n);
}

bool constraint_may_end(const struct constraint_state *s, struct constraint_scratch *scratch)
{
    constraint_load(s, scratch->walk);
    walk_look(scratch->walk, 0, s->n_readings);
    return scratch->walk->may_end;
}
