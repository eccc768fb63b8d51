/* core/grammar/lazy.h - grammars that hold from a trigger on ("lazy" in llama.cpp).
 *
 * A lazy grammar allows the texts in which no trigger has been completed, each of them alone or
 * followed by a text of another grammar, G. G reads the trigger, too: where a text completes a
 * trigger, G must have begun inside it or before. So a trigger that G cannot read is never
 * completed, and a token that ends a trigger and has more bytes after it is allowed only where G
 * allows those bytes as well.
 *
 * A pattern has been completed when it matches anything before the end of the text so far; a whole
 * pattern when all of the text so far matches. Text that a pattern looks ahead for must be there,
 * too. llama.cpp begins G at the pattern's first group; here G begins wherever the rest fits. As in
 * every grammar the text is well-formed UTF-8.
 *
 * Source: llama.cpp, tools/server/README.md ("grammar_lazy"), common.h (common_grammar_trigger).
 *
 * Thread: one owner. Memory, errors: the builder's (ERR_LIMIT: too large an automaton, ...).
 */
#ifndef CORE_GRAMMAR_LAZY_H
#define CORE_GRAMMAR_LAZY_H

#include <stddef.h>

#include "core/grammar/builder.h"

enum grammar_trigger_kind {
    TRIGGER_WORD = 0,      /* the text itself */
    TRIGGER_PATTERN,       /* a regular expression (regex.h), anywhere */
    TRIGGER_WHOLE_PATTERN, /* a regular expression that must match all of the text so far */
};

struct grammar_trigger {
    enum grammar_trigger_kind kind;
    const char *text; /* borrowed: [n] bytes of UTF-8, followed by a NUL */
    size_t n;
};

/* Returns the texts that complete none of the n >= 1 triggers. The piece's rules become the free
 * rules of the grammar (struct grammar_rule). ERR_INVAL if a trigger matches the empty text: then
 * no text is without one. */
struct grammar_piece grammar_untriggered(struct grammar_builder *b,
                                         const struct grammar_trigger *triggers, size_t n);

#endif
