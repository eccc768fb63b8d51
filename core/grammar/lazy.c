/* core/grammar/lazy.c - the text before a trigger, as the complement of an expression.
 *
 * The texts that contain a trigger are an expression, "trigger, then anything"; the text before a
 * trigger is its complement, which grammars cannot express. The rules of the complement's automaton
 * are marked `is_free` by their numbers: all that expr_piece() makes between two counts of rules.
 * constraint_is_waiting() tells by them that no trigger has come yet.
 */
#include "core/grammar/lazy.h"

#include "core/base/err.h"
#include "core/grammar/builder_impl.h"
#include "core/grammar/expr.h"
#include "core/grammar/regex.h"

/* Returns the texts that complete the trigger; a pattern that looks ahead is completed after what
 * it looks for. The caller appends any text. */
static uint32_t completed(struct expr_set *e, struct grammar_builder *b,
                          const struct grammar_trigger *t)
{
    switch (t->kind) {
    case TRIGGER_WORD:
        return expr_then(e, EXPR_ALL, expr_text(e, t->text));
    case TRIGGER_PATTERN:
        return grammar_regex_expr(e, b, t->text, t->n, REGEX_SEARCH);
    case TRIGGER_WHOLE_PATTERN:
        break;
    }
    return grammar_regex_expr(e, b, t->text, t->n, 0);
}

static struct grammar_piece write(struct expr_set *e, struct grammar_builder *b,
                                  const struct grammar_trigger *triggers, size_t n)
{
    const struct grammar_piece none = {0};
    uint32_t any = EXPR_NONE, free_text;

    for (size_t i = 0; i < n && grammar_builder_error(b) == 0; i++)
        any = expr_or(e, any, completed(e, b, &triggers[i]));
    free_text = expr_not(e, expr_then(e, any, EXPR_ALL));
    if (grammar_builder_error(b) == 0 && !expr_has_empty(e, free_text))
        grammar_builder_fail(b, ERR_INVAL, "a trigger matches the empty text");
    return grammar_builder_error(b) == 0 ? expr_piece(e, free_text, false) : none;
}

struct grammar_piece grammar_untriggered(struct grammar_builder *b,
                                         const struct grammar_trigger *triggers, size_t n)
{
    const uint32_t first = b->n_rules;
    struct grammar_piece p = {0};
    struct expr_set *e = NULL;

    if (regex_alphabet(&e, b, 0) == 0)
        p = write(e, b, triggers, n);
    expr_destroy(&e);
    for (uint32_t i = first; i < b->n_rules; i++)
        b->rules[i].is_free = true;
    return p;
}
