/* server/api/chat/output_parser_impl.h - shared by the files of the output parser: marks, the
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

/* Lists the marks that may stand in the present part; returns how many. */
size_t output_marks_here(struct output_parser *s, const char *marks[OUTPUT_MAX_MARKS]);
/* Returns the offset of the first of n marks in `held` from `from` on, or SIZE_MAX. If several
 * stand there it takes the longest, and waits while a longer one may still come. */
size_t output_marks_find(const struct buf *held, size_t from, const char *const *marks, size_t n,
                         size_t *which);
/* Returns how many of the last bytes may be the beginning of a mark. */
size_t output_marks_undecided(const struct buf *held, const char *const *marks, size_t n);

/* Appends text to content or reasoning. */
void output_parser_put(struct output_parser *s, const char *text, size_t n);
void output_parser_enter(struct output_parser *s, enum output_part part);
/* Drops the first n bytes of `held`. */
void output_parser_consume(struct output_parser *s, size_t n);

/* ---- output_pieces.c ---- */

/* Begins a piece. NULL with s->err set: out of memory. */
struct output_piece *output_pieces_add(struct output_parser *s, enum output_part part,
                                       uint32_t call);
/* Appends text or thought to the latest piece, or to a new one if that is of another part. */
void output_pieces_put(struct output_parser *s, enum output_part part, const char *text, size_t n);

/* ---- output_reader.c ---- */

/* Begins a CALL part: `held` has white space, a mark of n_mark bytes or none, and the rest. */
void output_reader_begin(struct output_parser *s, size_t n_mark);
/* Reads `held`. True: the part was left, and the bytes in `held` now belong to s->part. */
bool output_reader_read(struct output_parser *s);
/* Returns the text that ends the call, or all calls; NULL: there is none. */
const char *output_reader_closing(const struct output_parser *s);
/* The answer has ended: the calls stay as they are, and the bytes in `held` are no longer
 * needed. */
void output_reader_end(struct output_parser *s);

/* ---- output_object.c: the calls that are JSON objects ---- */

enum output_verdict { OUTPUT_NEEDS_MORE = 0, OUTPUT_GOES_ON, OUTPUT_LEFT };

/* Begins to read the object at held[at]. */
void output_object_begin(struct output_parser *s, size_t at);
/* Reads up to the call's name and the beginning of its arguments, or to the object's end. */
enum output_verdict output_object_read(struct output_parser *s);

/* ---- output_reader.c, for output_object.c ---- */

/* Handles text that is neither a call nor the end of calls. */
enum output_verdict output_reader_fail(struct output_parser *s);
/* The call's arguments begin at held[at]; drops the bytes before. `level` is the depth after the
 * arguments. */
void output_reader_begin_arguments(struct output_parser *s, size_t at, uint32_t level);
/* The call was finished by the byte before held[at]. */
void output_reader_end_object(struct output_parser *s, size_t at);
/* True: it may be a call of this function. If its first mark is missing, the function must have
 * been offered. */
bool output_reader_takes(const struct output_parser *s, const char *name, size_t n);

/* ---- output_calls.c ---- */

/* Adds a call. NULL with s->err set: out of memory; without: there are too many calls. */
struct output_call *output_calls_begin(struct output_parser *s, const char *name, size_t n);
/* Adds a call whose name is a JSON string literal; NULL also if it is not one, or may not be called
 * here. */
struct output_call *output_calls_begin_literal(struct output_parser *s, const char *text, size_t n);
/* Adds a call from its whole object. False, with nothing added: it is not a call, or there are too
 * many. */
bool output_calls_add(struct output_parser *s, const char *object, size_t n);
void output_calls_release(struct output_parser *s);

#endif
