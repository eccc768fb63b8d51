/* core/runtime/thought.h - follows token by token whether a text is inside a thought (reasoning). A
 * constraint applies only to the text after the thought; a thought may have a budget of tokens.
 *
 * While a thought is open no token is constrained, but if the request has a constraint the text may
 * not end, unless the constraint waits for a trigger (core/grammar/lazy.h). When the budget is used
 * up, or thought_end() is called, the message (if any) and the closing mark are forced. While a
 * thought may open, a constraint also allows the opening mark, as the very first token.
 *
 * Thread: the engine thread, like the rest of a request.
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
    THOUGHT_MAY_OPEN, /* with a constraint only the first token may open it; without, any token */
    THOUGHT_OPEN,
};

struct thought { /* zero: none */
    enum thought_phase phase;
    int32_t open, close; /* ids of the opening and closing marks */
    uint32_t n_left;     /* tokens of the thought until the message is forced, or
                          * THOUGHT_NO_LIMIT */
    uint32_t n_message;  /* tokens of the message that are not generated yet */
    const int32_t *message; /* [n_message] tokens that are forced before the closing mark */
};

/* True: the next token is forced: the message's next token or the closing mark. */
static inline bool thought_must_close(const struct thought *t)
{
    return t != NULL && t->phase == THOUGHT_OPEN && t->n_left == 0;
}

/* Return the forced token, if thought_must_close(). */
static inline int32_t thought_closing_token(const struct thought *t)
{
    return t->n_message > 0 ? t->message[0] : t->close;
}

/* True: the thought is open, so that a constraint waits. */
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

/* True: the next token may open the thought. */
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

/* Advance by the generated token `id`. Returns true if it belongs to the thought, marks
 * included. */
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
