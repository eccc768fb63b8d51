/* server/api/chat/output_parser_impl.h - what the files of output_parser.c share: marks, the
 * reader of calls, and their list.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_CHAT_OUTPUT_PARSER_IMPL_H
#define SERVER_API_CHAT_OUTPUT_PARSER_IMPL_H

#include "server/api/chat/output_parser.h"

#define OUTPUT_MAX_MARKS 3

struct output_marks { /* NULL where the style has none */
    const char *think_open, *think_close;
    const char *call_open, *call_close; /* call_close NULL: a call lasts until the end */
    const char *header_open, *header_close, *part_close; /* HARMONY */
};

const struct output_marks *output_marks(enum output_syntax syntax);

/* ---- output_parser.c ---- */

/* The marks that end the present part. */
size_t output_marks_here(struct output_parser *s, const char *marks[OUTPUT_MAX_MARKS]);
/* The offset of the first of n marks in what is held from `from` on, or SIZE_MAX. */
size_t output_marks_find(const struct buf *held, size_t from, const char *const *marks, size_t n,
                         size_t *which);
/* How many of the last bytes may be the beginning of a mark. */
size_t output_marks_undecided(const struct buf *held, const char *const *marks, size_t n);

/* To content or reasoning. */
void output_parser_put(struct output_parser *s, const char *text, size_t n);
void output_parser_enter(struct output_parser *s, enum output_part part);
/* The first n bytes of what is held are done with. */
void output_parser_consume(struct output_parser *s, size_t n);

/* ---- output_reader.c ---- */

/* A CALL part begins, behind a mark or not; what is held is its body. */
void output_reader_begin(struct output_parser *s, bool is_marked);
/* Read what is held. True: the part was left, and what is held now belongs to s->part. */
bool output_reader_read(struct output_parser *s);
/* No more comes: the calls end as they are, and what is held is done with. */
void output_reader_end(struct output_parser *s);

/* ---- output_calls.c ---- */

/* A call begins. NULL with s->err set when there is no memory, without when it is one too many. */
struct output_call *output_calls_begin(struct output_parser *s, const char *name, size_t n);
/* The same with the literal of a string of JSON. */
struct output_call *output_calls_begin_literal(struct output_parser *s, const char *text, size_t n);
/* The whole object of a call. False with nothing added when it is none, or one too many. */
bool output_calls_add(struct output_parser *s, const char *object, size_t n);
void output_calls_release(struct output_parser *s);

#endif
