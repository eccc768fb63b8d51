/* core/grammar/constraint_walk.c - runs a pushdown automaton over bytes, on all readings at once.
 *
 * A step is a depth-first search from each reading along the edges that take no byte, with a list
 * of its own instead of recursion; if a BYTE node has the byte, the reading after it joins the next
 * set. Marks of visited pairs and of new frames carry the step's number, so no table is cleared
 * between steps. A reading that could not end within CONSTRAINT_MAX_DEPTH is not followed, so every
 * set that is left can be completed.
 */
#include "core/grammar/constraint_walk.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

#define NO_BYTE (-1)
#define VISIT_SLOTS (2 * WALK_MAX_VISITS)
#define FRESH_SLOTS (2 * WALK_MAX_FRAMES)

int walk_create(struct walk **out)
{
    struct walk *w = mem_calloc(1, sizeof(*w));

    *out = NULL;
    if (w == NULL)
        return ERR_NOMEM;
    w->frames = mem_calloc(WALK_MAX_FRAMES, sizeof(*w->frames));
    w->readings = mem_calloc(WALK_MAX_READINGS, sizeof(*w->readings));
    w->moved = mem_calloc(WALK_MAX_FRAMES, sizeof(*w->moved));
    w->in_set = mem_calloc(WALK_MAX_NODES, sizeof(*w->in_set));
    w->visits = mem_calloc(VISIT_SLOTS, sizeof(*w->visits));
    w->fresh = mem_calloc(FRESH_SLOTS, sizeof(*w->fresh));
    if (w->visits == NULL || w->fresh == NULL || w->in_set == NULL || w->frames == NULL ||
        w->readings == NULL || w->moved == NULL) {
        walk_destroy(&w);
        return ERR_NOMEM;
    }
    *out = w;
    return 0;
}

void walk_destroy(struct walk **walk)
{
    struct walk *w = walk != NULL ? *walk : NULL;

    if (w == NULL)
        return;
    mem_free(w->frames);
    mem_free(w->readings);
    mem_free(w->moved);
    mem_free(w->in_set);
    mem_free(w->visits);
    mem_free(w->fresh);
    mem_free(w);
    *walk = NULL;
}

void walk_begin(struct walk *w, const struct grammar *g, const uint16_t *needs,
                const struct byte_set *bytes)
{
    w->g = g;
    w->needs = needs;
    w->bytes = bytes;
    w->frames[0] = (struct frame){0};
    w->n_frames = 1;
    w->n_readings = 0;
    w->work = 0;
    w->deepest = 0;
    w->dropped = false;
}

/* ---- sets of readings ---- */

static bool is_loop(const struct walk *w, uint32_t node)
{
    return w->g->nodes[node].kind == GRAMMAR_LOOP;
}

static uint32_t mix(uint32_t a, uint32_t b)
{
    const uint64_t product = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(product >> 32);
}

/* Begins a step. When its number wraps around, all marks are cleared. */
static void begin_step(struct walk *w)
{
    w->born = w->n_frames;
    w->n_visits = 0;
    w->work_before = w->work;
    w->is_over = false;
    if (++w->step != 0)
        return;
    memset(w->visits, 0, VISIT_SLOTS * sizeof(*w->visits));
    memset(w->fresh, 0, FRESH_SLOTS * sizeof(*w->fresh));
    w->step = 1;
}

/* Pushes a frame, or returns the equal one that this step has made. The caller has checked that
 * there is room. */
static uint32_t push_frame(struct walk *w, uint32_t node, uint32_t count, uint32_t parent)
{
    uint32_t at = mix(node ^ count << 20, parent) & (FRESH_SLOTS - 1);

    for (; w->fresh[at].step == w->step; at = (at + 1) & (FRESH_SLOTS - 1)) {
        const struct frame *f = &w->frames[w->fresh[at].frame];

        if (f->node == node && f->count == count && f->parent == parent)
            return w->fresh[at].frame;
    }
    w->fresh[at] = (struct fresh_frame){w->step, w->n_frames};
    w->frames[w->n_frames] = (struct frame){
        .node = node, .count = count, .parent = parent, .depth = w->frames[parent].depth + 1};
    return w->n_frames++;
}

static struct reading settle_reading(struct walk *w, struct reading r)
{
    while (w->g->nodes[r.node].kind == GRAMMAR_END && r.top != 0) {
        const struct frame *f = &w->frames[r.top];

        r.node = f->node;
        if (is_loop(w, f->node))
            break;
        r.top = f->parent;
    }
    if (w->g->nodes[r.node].kind == GRAMMAR_REPEAT && w->n_frames < WALK_MAX_FRAMES) {
        r.node = w->g->nodes[r.node].other;
        r.top = push_frame(w, r.node, 0, r.top);
    }
    return r;
}

struct reading walk_settle(struct walk *w, struct reading r)
{
    begin_step(w);
    return settle_reading(w, r);
}

static bool same_stack(struct walk *w, uint32_t a, uint32_t b)
{
    for (; a != b; w->work++) {
        const struct frame *x = &w->frames[a], *y = &w->frames[b];

        if (x->node != y->node || x->count != y->count || x->depth != y->depth)
            return false;
        a = x->parent;
        b = y->parent;
    }
    return true;
}

/* Begins a set. When its number wraps around, all marks are cleared. */
static void begin_set(struct walk *w)
{
    if (++w->set != 0)
        return;
    memset(w->in_set, 0, WALK_MAX_NODES * sizeof(*w->in_set));
    w->set = 1;
}

/* True: the reading is in the set that begins at `from`. Most often no other reading stands at its
 * node. */
static bool has_reading(struct walk *w, uint32_t from, struct reading r)
{
    if (w->in_set[r.node] != w->set) {
        w->in_set[r.node] = w->set;
        return false;
    }
    w->work += (w->n_readings - from) / 2;
    for (uint32_t i = from; i < w->n_readings; i++)
        if (w->readings[i].node == r.node && same_stack(w, w->readings[i].top, r.top))
            return true;
    return false;
}

static void add_to_set(struct walk *w, uint32_t from, struct reading r)
{
    const uint32_t n = w->n_readings - from;

    if (has_reading(w, from, r))
        return;
    if (n == CONSTRAINT_MAX_READINGS || w->n_readings == WALK_MAX_READINGS)
        w->dropped = true;
    else
        w->readings[w->n_readings++] = r;
}

void walk_add(struct walk *w, struct reading r)
{
    begin_set(w);
    add_to_set(w, w->n_readings, r);
}

/* ---- edges that take no byte ---- */

static void push_node(struct walk *w, uint32_t node, uint32_t top)
{
    if (w->n_todo == WALK_MAX_TODO)
        w->dropped = true;
    else
        w->todo[w->n_todo++] = (struct reading){node, top};
}

/* Pushes a frame on the stack `parent` and continues at `node`. */
static void put_above(struct walk *w, uint32_t node, uint32_t back, uint32_t count, uint32_t parent)
{
    if (w->n_frames == WALK_MAX_FRAMES) {
        w->dropped = true;
        return;
    }
    push_node(w, node, push_frame(w, back, count, parent));
}

/* True: this step reaches the node with this stack for the first time. A second visit would lead to
 * the same readings; at a loop's head it means that an iteration took no byte. */
static bool is_first_visit(struct walk *w, struct reading r)
{
    uint32_t at = mix(r.node, r.top) & (VISIT_SLOTS - 1);

    for (; w->visits[at].step == w->step; at = (at + 1) & (VISIT_SLOTS - 1))
        if (w->visits[at].node == r.node && w->visits[at].top == r.top)
            return false;
    if (w->n_visits == WALK_MAX_VISITS) {
        w->is_over = true;
        return false;
    }
    w->n_visits++;
    w->visits[at] = (struct visit){w->step, r.node, r.top};
    return true;
}

/* BYTEs and ENDs, which have one successor, are not worth remembering. */
static bool reading_is_known(struct walk *w, const struct grammar_node *n, struct reading r)
{
    return n->kind != GRAMMAR_BYTE && n->kind != GRAMMAR_END && !is_first_visit(w, r);
}

/* True: the byte is in the set. Removes the bytes with the other answer from `same`, since they go
 * another way. */
static bool has_byte(struct walk *w, const struct byte_set *set, int byte)
{
    const bool has = byte_set_has(set, (uint8_t)byte);

    for (int i = 0; i < 4; i++)
        w->same.bits[i] &= has ? set->bits[i] : ~set->bits[i];
    return has;
}

static bool can_begin(struct walk *w, const struct grammar_rule *rule, int byte)
{
    return byte == NO_BYTE || has_byte(w, &rule->first, byte);
}

static void go_call(struct walk *w, const struct grammar_node *n, uint32_t top, int byte)
{
    const struct grammar_rule *rule = &w->g->rules[n->arg];

    if (!rule->is_nullable && !can_begin(w, rule, byte))
        return;
    if (n->flags & GRAMMAR_IS_TAIL)
        push_node(w, n->other, top);
    else
        put_above(w, n->other, n->next, 0, top);
}

static void go_repeat(struct walk *w, const struct grammar_node *n, uint32_t top, int byte)
{
    const struct grammar_repeat *repeat = &w->g->repeats[w->g->nodes[n->other].arg];

    if (repeat->min == 0 || can_begin(w, &w->g->rules[repeat->body], byte))
        put_above(w, n->other, n->other, 0, top);
}

static void leave_loop(struct walk *w, uint32_t node, const struct frame *f)
{
    if (node < w->g->first_probe)
        push_node(w, w->g->nodes[node].next, f->parent);
    else if (w->n_exits == WALK_MAX_EXITS)
        w->too_many_exits = true;
    else
        w->exits[w->n_exits++] = f->count;
}

/* A count without an upper limit stops at the minimum: further iterations are all alike. */
static void go_loop(struct walk *w, uint32_t node, uint32_t top, int byte)
{
    const struct grammar_node *n = &w->g->nodes[node];
    const struct grammar_repeat *repeat = &w->g->repeats[n->arg];
    const struct frame f = w->frames[top];
    const bool is_full = repeat->max == GRAMMAR_NO_LIMIT && f.count >= repeat->min;

    if (f.count >= repeat->min)
        leave_loop(w, node, &f);
    if (f.count < repeat->max && can_begin(w, &w->g->rules[repeat->body], byte))
        put_above(w, n->other, node, is_full ? f.count : f.count + 1, f.parent);
}

/* An iteration that ends in the step in which it began was empty, and does not count. */
static void go_end(struct walk *w, uint32_t top)
{
    const struct frame *f = &w->frames[top];

    if (top == 0)
        w->may_end = true;
    else if (!is_loop(w, f->node))
        push_node(w, f->node, f->parent);
    else if (top < w->born)
        push_node(w, f->node, top);
}

static bool is_viable(struct walk *w, struct reading r)
{
    const uint32_t depth = w->frames[r.top].depth + w->needs[r.node];

    if (depth > CONSTRAINT_MAX_DEPTH)
        return false;
    if (depth > w->deepest)
        w->deepest = depth;
    return true;
}

/* Visits one node: its successors are pushed; a BYTE that fits makes a new reading after it. */
static void visit_node(struct walk *w, struct reading r, const struct grammar_node *n, int byte,
                       uint32_t to)
{
    switch ((enum grammar_kind)n->kind) {
    case GRAMMAR_BYTE:
        if (byte == NO_BYTE)
            byte_set_merge(&w->first, &w->g->sets[n->arg]);
        else if (has_byte(w, &w->g->sets[n->arg], byte))
            add_to_set(w, to, settle_reading(w, (struct reading){n->next, r.top}));
        break;
    case GRAMMAR_SPLIT:
        push_node(w, n->other, r.top);
        push_node(w, n->next, r.top);
        break;
    case GRAMMAR_CALL:
        go_call(w, n, r.top, byte);
        break;
    case GRAMMAR_REPEAT:
        go_repeat(w, n, r.top, byte);
        break;
    case GRAMMAR_LOOP:
        go_loop(w, r.node, r.top, byte);
        break;
    case GRAMMAR_END:
        go_end(w, r.top);
        break;
    case GRAMMAR_JUMP:
        break;
    }
}

/* Follows all edges from `start`: with a byte, the readings after it join the set that begins at
 * `to`; with NO_BYTE, `first` gathers the bytes that could come. */
static void follow_byte(struct walk *w, struct reading start, int byte, uint32_t to)
{
    w->n_todo = 0;
    push_node(w, start.node, start.top);
    while (w->n_todo > 0) {
        const struct reading r = w->todo[--w->n_todo];
        const struct grammar_node *n = &w->g->nodes[r.node];

        w->work++;
        w->is_over = w->is_over || w->work - w->work_before > WALK_MAX_STEP_WORK;
        if (w->is_over) {
            w->dropped = true;
            return;
        }
        if (is_viable(w, r) && !reading_is_known(w, n, r))
            visit_node(w, r, n, byte, to);
    }
}

void walk_step(struct walk *w, uint32_t from, uint32_t to, uint8_t byte)
{
    const uint32_t at = w->n_readings;

    begin_set(w);
    begin_step(w);
    memset(&w->same, 0xFF, sizeof(w->same));
    w->n_exits = 0;
    for (uint32_t i = from; i < to; i++)
        follow_byte(w, w->readings[i], byte, at);
    if (w->n_readings == at)
        w->n_frames = w->born;
}

void walk_look(struct walk *w, uint32_t from, uint32_t to)
{
    begin_step(w);
    w->first = (struct byte_set){{0}};
    w->may_end = false;
    w->too_many_exits = false;
    w->n_exits = 0;
    for (uint32_t i = from; i < to; i++)
        follow_byte(w, w->readings[i], NO_BYTE, 0);
    for (int i = 0; i < 4; i++)
        w->first.bits[i] &= w->bytes->bits[i];
    w->n_frames = w->born;
}

/* ---- keeping ---- */

/* The top bit of a frame's depth marks the frame as needed: each needed stack is marked from its
 * top to its root. A parent has a lower index than its children, so one loop with rising index
 * closes the gaps. */
#define KEPT 0x80000000u

static uint32_t mark_stack(struct walk *w, uint32_t top, uint32_t room)
{
    uint32_t n = 0;

    for (uint32_t i = top; i != 0 && !(w->frames[i].depth & KEPT); i = w->frames[i].parent)
        n++;
    if (n > room)
        return n;
    for (uint32_t i = top; i != 0 && !(w->frames[i].depth & KEPT); i = w->frames[i].parent)
        w->frames[i].depth |= KEPT;
    return n;
}

/* Moves the marked frames down. None moves to a higher place, so none is overwritten before it has
 * been moved. */
static void move_frames(struct walk *w)
{
    uint32_t n = 1;

    for (uint32_t i = 1; i < w->n_frames; i++) {
        struct frame f = w->frames[i];

        if (!(f.depth & KEPT))
            continue;
        f.depth &= ~KEPT;
        f.parent = f.parent != 0 ? w->moved[f.parent] : 0;
        w->moved[i] = n;
        w->frames[n++] = f;
    }
    w->n_frames = n;
}

void walk_keep(struct walk *w, uint32_t from, uint32_t max_frames)
{
    uint32_t n = 0, used = 1;

    for (uint32_t i = from; i < w->n_readings; i++) {
        const uint32_t more = mark_stack(w, w->readings[i].top, max_frames - used);

        if (used + more > max_frames) {
            w->dropped = true;
            continue;
        }
        used += more;
        w->readings[n++] = w->readings[i];
    }
    w->n_readings = n;
    move_frames(w);
    for (uint32_t i = 0; i < n; i++)
        if (w->readings[i].top != 0)
            w->readings[i].top = w->moved[w->readings[i].top];
}
