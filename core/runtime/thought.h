/* core/runtime/thought.h - follows by its tokens whether a text is inside a thought: a constraint
 * applies to the text behind it, and a thought may have a budget.
 *
 * While a thought is open nothing is constrained, but where a constraint waits the text may not
 * end, unless it also waits for a trigger (core/grammar/lazy.h). When the thought's tokens are used
 * up, or it is told to end, the message, if there is one, and the closing mark are forced. Where a
 * thought may open, a constraint allows the opening mark as the very first token.
 *
 * Thread: the engine's, like the rest of a request.
 * Memory: the message is borrowed from the request.
 */
#ifndef CORE_RUNTIME_THOUGHT_H
#define CORE_RUNTIME_THOUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THOUGHT_NO_LIMIT UINT32_MAX

enum thought_phase {
    THOUGHT_NONE = 0, /* the thought is over, or there was none */
    THOUGHT_MAY_OPEN, /* the first token decides; without a constraint, any token */
    THOUGHT_OPEN,
};

struct thought { /* zero: none */
    enum thought_phase phase;
    int32_t open, close; /* the marks */
    uint32_t n_left;     /* tokens before the message, or THOUGHT_NO_LIMIT */
    uint32_t n_message;  /* tokens of the message that are still to come */
    const int32_t *message; /* [n_message] */
};

/* Whether the next token is forced: the message's next token or the closing mark. */
static inline bool thought_must_close(const struct thought *t)
{
    return t != NULL && t->phase == THOUGHT_OPEN && t->n_left == 0;
}

/* The forced token. */
static inline int32_t thought_closing_token(const struct thought *t)
{
    return t->n_message > 0 ? t->message[0] : t->close;
}

/* Whether the thought is open, so that a constraint waits. */
static inline bool thought_is_open(const struct thought *t)
{
    return t != NULL && t->phase == THOUGHT_OPEN;
}

/* End the thought as if its tokens were used up. */
static inline void thought_end(struct thought *t)
{
    if (t->phase == THOUGHT_OPEN)
        t->n_left = 0;
}

/* Whether the next token may open the thought. */
static inline bool thought_may_open(const struct thought *t)
{
    return t != NULL && t->phase == THOUGHT_MAY_OPEN;
}

static inline void thought_take_message(struct thought *t, int32_t id)
{
    if (t->n_message == 0 || id != t->message[0])
        return;
    t->message++;
    t->n_message--;
}

/* Advance by a token. Returns whether the token belongs to the thought, marks included. */
static inline bool thought_take(struct thought *t, int32_t id, bool is_constrained)
{
    if (t == NULL || t->phase == THOUGHT_NONE)
        return false;
    if (t->phase == THOUGHT_MAY_OPEN) {
        if (id == t->open)
            t->phase = THOUGHT_OPEN;
        else if (is_constrained)
            t->phase = THOUGHT_NONE;
        return id == t->open;
    }
    if (id == t->close)
        t->phase = THOUGHT_NONE;
    else if (t->n_left == 0)
        thought_take_message(t, id);
    else if (t->n_left != THOUGHT_NO_LIMIT)
        t->n_left--;
    return true;
}

#endif
