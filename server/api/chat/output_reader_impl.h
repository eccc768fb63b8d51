/* server/api/chat/output_reader_impl.h - the states of the reader of calls, and the functions that
 * output_reader.c and output_arguments.c call of each other.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_CHAT_OUTPUT_READER_IMPL_H
#define SERVER_API_CHAT_OUTPUT_READER_IMPL_H

#include "server/api/chat/output_parser_impl.h"

enum reader_state {
    READER_CALLS = 0, /* the section's beginning and a call's, up to its arguments */
    READER_BETWEEN,   /* the next call, or the section's end */
    READER_OBJECT,    /* inside the object of a call that is not announced yet */
    READER_JSON,      /* arguments that are a JSON object, copied as they come */
    READER_BEHIND,    /* after the arguments: the rest of the call's object is dropped */
    READER_ARGUMENT,  /* the next single argument, or the call's end */
    READER_TEXT,      /* the argument's value, raw text */
    READER_LITERAL,   /* the argument's value, up to a comma or a bracket */
    READER_TAIL,      /* after the arguments, up to the end of the call */
    READER_BROKEN,    /* the arguments are not JSON: all text up to the mark is theirs */
    READER_SKIP,      /* no more calls: text is dropped up to the mark */
};

/* Bytes of a section's and a call's beginnings. */
#define READER_MAX_HEAD (2 * PATTERN_MAX_HEAD)

static inline const struct family *reader_family(const struct output_parser *s)
{
    return s->style.family;
}

static inline const struct call_pattern *reader_call_pattern(const struct output_parser *s)
{
    return &reader_family(s)->calls[s->reader.call];
}

static inline const struct call_pattern *reader_argument_pattern(const struct output_parser *s)
{
    return &reader_family(s)->arguments[s->reader.argument];
}

static inline struct output_call *reader_latest_call(struct output_parser *s)
{
    return &s->calls[s->n_calls - 1];
}

static inline enum output_verdict reader_enter(struct output_parser *s, enum reader_state state)
{
    s->reader.state = (uint8_t)state;
    s->reader.at = 0;
    return OUTPUT_GOES_ON;
}

/* Drops white space between calls and arguments. True: `held` is empty. */
static inline bool reader_pass_blanks(struct output_parser *s)
{
    size_t n = 0;

    while (n < s->held.len && pattern_is_blank(s->held.data[n]))
        n++;
    output_parser_consume(s, n);
    return s->held.len == 0;
}

static inline size_t reader_n_blanks(const struct output_parser *s)
{
    size_t n = 0;

    while (n < s->held.len && pattern_is_blank(s->held.data[n]))
        n++;
    return n;
}

/* ---- output_reader.c ---- */

/* Match the end of the call at held[at]. */
enum pattern_verdict output_reader_match_tail(const struct output_parser *s, size_t at,
                                              struct pattern_found *found);

/* ---- output_arguments.c ---- */

/* The functions of the states READER_JSON, _BEHIND, _ARGUMENT, _TEXT and _LITERAL: each reads
 * `held`, and returns what the state machine does next. output_arguments_read_behind() drops the
 * rest of an object whose arguments have been copied. */
enum output_verdict output_arguments_read_json(struct output_parser *s);
enum output_verdict output_arguments_read_behind(struct output_parser *s);
enum output_verdict output_arguments_read_next(struct output_parser *s);
enum output_verdict output_arguments_read_text(struct output_parser *s);
enum output_verdict output_arguments_read_literal(struct output_parser *s);
/* End arguments that stand one by one; drops the bytes before held[at]. */
enum output_verdict output_arguments_end(struct output_parser *s, size_t at);
/* End a raw value at the answer's end: it is complete if its closing text stands there. */
void output_arguments_end_text(struct output_parser *s);

#endif
