/* core/grammar/constraint_walk.h - follows a grammar byte by byte, on all of its possible readings
 * at once.
 *
 * Stacks form a tree: a frame points at the one below, so readings share frames and a push copies
 * nothing. Frame 0 is the empty stack. Frames are only ever added; a caller returns to an earlier
 * state by setting n_frames to its value.
 *
 * A step from a set of readings visits each pair of node and stack once, however many paths lead to
 * it: the stacks that a step makes are looked up by their contents. So a step takes at most nodes
 * times stacks visits, and never more than WALK_MAX_STEP_WORK.
 *
 * Thread: one owner.
 * Memory: fixed, taken at creation; a reading or frame that does not fit is dropped, and `dropped`
 * is set.
 */
#ifndef CORE_GRAMMAR_CONSTRAINT_WALK_H
#define CORE_GRAMMAR_CONSTRAINT_WALK_H

#include "core/grammar/grammar.h"

#define WALK_MAX_NODES (2 * GRAMMAR_MAX_NODES) /* nodes and probes, of which there are fewer */
#define WALK_MAX_FRAMES 16384
#define WALK_MAX_READINGS 16384
#define WALK_MAX_TODO 1024
#define WALK_MAX_VISITS 32768     /* pairs of branching node and stack in a step */
#define WALK_MAX_STEP_WORK 1000000 /* nodes looked at in a step: some 10 ms */
#define WALK_MAX_EXITS 4

struct frame {
    uint32_t node;  /* the node to return to: a LOOP, with a count, or the one after a CALL */
    uint32_t count; /* LOOP: how often its body was begun */
    uint32_t parent;
    uint32_t depth; /* number of frames, from this one down */
};

struct reading {
    uint32_t node, top;
};

struct visit { /* a pair that step number `step` has visited */
    uint32_t step, node, top;
};

struct fresh_frame { /* a frame that step number `step` has made */
    uint32_t step, frame;
};

struct walk {
    const struct grammar *g;
    const uint16_t *needs;
    const struct byte_set *bytes; /* bytes that the vocabulary has */
    struct frame *frames;         /* [WALK_MAX_FRAMES] */
    uint32_t n_frames;
    struct reading *readings; /* [WALK_MAX_READINGS] */
    uint32_t n_readings;
    uint32_t work;     /* nodes looked at */
    uint32_t deepest;  /* largest depth of a reading, with what it still needs */
    bool dropped;      /* a reading or frame did not fit */
    struct byte_set same; /* bytes by which the latest step would have gone the same way */
    /* results of walk_look(): */
    struct byte_set first;
    bool may_end; /* an END with nothing below */
    uint32_t n_exits, exits[WALK_MAX_EXITS]; /* counts at which a probe was left, the first ones */
    bool too_many_exits;
    /* private */
    uint32_t *in_set; /* [WALK_MAX_NODES] the latest set that has a reading at the node */
    uint32_t set;     /* the number of the set that is being made */
    uint32_t *moved; /* [WALK_MAX_FRAMES] where walk_keep() has put a frame */
    uint32_t born; /* frames from here on are new in this step */
    uint32_t step; /* the number of this step */
    struct visit *visits;      /* [2 * WALK_MAX_VISITS] open addressing */
    struct fresh_frame *fresh; /* [2 * WALK_MAX_FRAMES] open addressing by contents */
    uint32_t n_visits;
    uint32_t work_before; /* `work` when the step began */
    bool is_over;         /* the step may take no more work */
    uint32_t n_todo;
    struct reading todo[WALK_MAX_TODO];
};

int walk_create(struct walk **out);
void walk_destroy(struct walk **w);
/* Forgets everything and begins to walk this grammar. */
void walk_begin(struct walk *w, const struct grammar *g, const uint16_t *needs,
                const struct byte_set *bytes);

/* Moves a reading past ENDs, and from a REPEAT to its LOOP, so that all REPEATs of one body are one
 * place. May add a frame. */
struct reading walk_settle(struct walk *w, struct reading r);
/* Appends a set of this reading alone. */
void walk_add(struct walk *w, struct reading r);
/* Appends the readings to which a byte leads from readings[from .. to - 1]. */
void walk_step(struct walk *w, uint32_t from, uint32_t to, uint8_t byte);
/* Finds the bytes that can follow these readings, and whether the text may end: first, may_end,
 * exits. */
void walk_look(struct walk *w, uint32_t from, uint32_t to);
/* Keeps readings[from .. n_readings - 1] and the frames that they need, and nothing else. Readings
 * that need more than `max_frames` are dropped. */
void walk_keep(struct walk *w, uint32_t from, uint32_t max_frames);

#endif
