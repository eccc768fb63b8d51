/* server/api/chat/output_parser_impl.h - what the files of output_parser.c share: marks, the
 * reader of calls, and their list.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_CHAT_OUTPUT_PARSER_IMPL_H
#define SERVER_API_CHAT_OUTPUT_PARSER_IMPL_H

#include "server/api/chat/output_parser.h"

#define OUTPUT_MAX_MARKS 24

/* Harmony's messages: <|channel|>HEADER<|message|>TEXT<|end|> */
#define HARMONY_START "<|start|>"
#define HARMONY_CHANNEL "<|channel|>"
#define HARMONY_MESSAGE "<|message|>"
#define HARMONY_END "<|end|>"
#define HARMONY_CALL "<|call|>"

/* ---- output_parser.c ---- */

bool output_parser_is_harmony(const struct output_parser *s);

/* The marks that may stand in the present part. */
size_t output_marks_here(struct output_parser *s, const char *marks[OUTPUT_MAX_MARKS]);
/* The offset of the first of n marks in what is held from `from` on, or SIZE_MAX; of several that
 * stand there the longest, once no longer one may come. */
size_t output_marks_find(const struct buf *held, size_t from, const char *const *marks, size_t n,
                         size_t *which);
/* How many of the last bytes may be the beginning of a mark. */
size_t output_marks_undecided(const struct buf *held, const char *const *marks, size_t n);

/* To content or reasoning. */
void output_parser_put(struct output_parser *s, const char *text, size_t n);
void output_parser_enter(struct output_parser *s, enum output_part part);
/* The first n bytes of what is held are done with. */
void output_parser_consume(struct output_parser *s, size_t n);

/* ---- output_pieces.c ---- */

/* A piece begins. NULL with s->err set: there is no memory. */
struct output_piece *output_pieces_add(struct output_parser *s, enum output_part part,
                                       uint32_t call);
/* Text or thought, of the latest piece if that is of its part. */
void output_pieces_put(struct output_parser *s, enum output_part part, const char *text, size_t n);

/* ---- output_reader.c ---- */

/* A CALL part begins: what is held is white space, a mark of n_mark bytes or none, and the rest. */
void output_reader_begin(struct output_parser *s, size_t n_mark);
/* Read what is held. True: the part was left, and what is held now belongs to s->part. */
bool output_reader_read(struct output_parser *s);
/* The text that ends the call, or all calls; NULL: nothing does. */
const char *output_reader_closing(const struct output_parser *s);
/* No more comes: the calls end as they are, and what is held is done with. */
void output_reader_end(struct output_parser *s);

/* ---- output_object.c: the calls that are JSON objects ---- */

enum output_verdict { OUTPUT_NEEDS_MORE = 0, OUTPUT_GOES_ON, OUTPUT_LEFT };

/* The object begins at held[at]. */
void output_object_begin(struct output_parser *s, size_t at);
/* Up to the call's name and the beginning of its arguments, or to the object's end. */
enum output_verdict output_object_read(struct output_parser *s);

/* ---- for it, of output_reader.c ---- */

/* What stands here is neither a call nor the end of calls. */
enum output_verdict output_reader_fail(struct output_parser *s);
/* The call's arguments stand from held[at] on; what is before is done with. `level` is the depth
 * behind them. */
void output_reader_begin_arguments(struct output_parser *s, size_t at, uint32_t level);
/* The call has ended whole with the byte before held[at]. */
void output_reader_end_object(struct output_parser *s, size_t at);
/* May it be a call of this function? Where its first mark is missing, only one that was offered. */
bool output_reader_takes(const struct output_parser *s, const char *name, size_t n);

/* ---- output_calls.c ---- */

/* A call begins. NULL with s->err set when there is no memory, without when it is one too many. */
struct output_call *output_calls_begin(struct output_parser *s, const char *name, size_t n);
/* The same with the literal of a string of JSON; NULL also where it is none, or may not be called
 * here. */
struct output_call *output_calls_begin_literal(struct output_parser *s, const char *text, size_t n);
/* The whole object of a call. False with nothing added when it is none, or one too many. */
bool output_calls_add(struct output_parser *s, const char *object, size_t n);
void output_calls_release(struct output_parser *s);

#endif
