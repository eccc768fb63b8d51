/* server/api/chat/output_parser_impl.h - what the files of output_parser.c share: the marks, and
 * calls from their text.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_CHAT_OUTPUT_PARSER_IMPL_H
#define SERVER_API_CHAT_OUTPUT_PARSER_IMPL_H

#include "server/api/chat/output_parser.h"

struct output_marks { /* NULL where the style has none */
    const char *think_open, *think_close;
    const char *call_open, *call_close; /* call_close NULL: a call lasts until the end */
    const char *header_open, *header_close, *part_close; /* HARMONY */
};

const struct output_marks *output_marks(enum output_syntax syntax);

/* The calls in the body that stood between the marks. False, with nothing added, when it is not
 * what the syntax wants; the body is taken as it is, blanks around it do not matter. */
bool output_parser_add_calls(struct output_parser *s, const char *body, size_t n);

#endif
