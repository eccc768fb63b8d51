/* server/api/chat/family.h - how the models of one family write thoughts and tool calls.
 *
 * A description is a text of a few lines, one file for each family in the folder families/. From it
 * come the parser of answers (output_parser.h), and the texts that are hidden from content. A line
 * is a keyword and what it says; '#' begins a comment.
 *
 *     name NAME          by which a setting chooses it
 *     aliases NAME …     other names, among them vLLM's and SGLang's
 *     sign "text" …      a template that has all of the texts is of the family; of several lines,
 *                        and of several families, the one with the most bytes counts
 *     thought "a" "b"    marks around a thought; of several lines, the first whose second mark the
 *                        template has
 *     off "a" "b" "c"    where thinking is off and the prompt ends with a, b is written behind it
 *                        if calls may follow, else c: an empty thought, or the beginning of the
 *                        answer, of a family whose thoughts have no marks of their own
 *     closing "a" "b"    of a template that has a: b ends a thought whose budget is used up, where
 *                        neither the request nor a setting says what does. It is what the family's
 *                        own pages tell users to put there, special tokens included
 *     hide "text" …      marks that are no content
 *     wrap "a" "b"       marks around the text of an answer, words that a text may as well be
 * about: a is no content where the text begins, and b once behind it begin "text"       the same as
 * hide, of an answer's beginning only section PATTERN    around all calls (call_pattern.h) between
 * PATTERN    behind a call that another one follows; without it white space call PATTERN       one
 * call; several lines: one of them, the first that fits argument PATTERN   one argument, the same
 *     comma PATTERN      behind an argument that another one follows; without it white space
 *     quote "a" "b"      marks around a string of QUOTED
 *     members N A [A2]   of OBJECT: the members with the name and the arguments
 *     bare               an answer may begin with a call that no mark stands before. Where the
 *                        optional text that a call begins with is left out, the function must be
 *                        one that was offered
 *     short_ids          the template wants ids of nine letters (Mistral)
 *     channels "a" "b"   Harmony's messages: the pattern of calls is that of a message's content.
 *                        A thought that is written before a call stands between a and b
 *     header PATTERN     of a message that is a call, from the end of the prompt on; several lines:
 *                        one of them
 *
 * Thread: any; a family does not change.
 * Memory: some kilobytes; the built-in ones live as long as the process.
 */
#ifndef SERVER_API_CHAT_FAMILY_H
#define SERVER_API_CHAT_FAMILY_H

#include "server/api/chat/call_pattern.h"

#define FAMILY_MAX_LINES 4 /* of calls, arguments, headers, thoughts, signs */
#define FAMILY_MAX_HIDDEN 8
#define FAMILY_MAX_TEXT ((size_t)8 << 10)

struct family {
    const char *name, *aliases;                            /* `aliases` with blanks between them */
    const char *signs[FAMILY_MAX_LINES][FAMILY_MAX_LINES]; /* of a line, NULL behind the last */
    struct {
        const char *open, *close;
    } thoughts[FAMILY_MAX_LINES];
    const char *off[3]; /* NULL: none */
    const char *closing[2];
    const char *hidden[FAMILY_MAX_HIDDEN];
    const char *wrap[2];                         /* NULL: none */
    const char *begin;                           /* NULL: none */
    struct call_pattern section, between, comma; /* n 0: none */
    struct call_pattern calls[FAMILY_MAX_LINES], arguments[FAMILY_MAX_LINES];
    struct call_pattern headers[FAMILY_MAX_LINES];
    uint32_t n_signs, n_thoughts, n_hidden, n_calls, n_arguments, n_headers;
    const char *message[2]; /* around a thought of `channels`; NULL: none */
    const char *quotes[2];  /* NULL: none */
    const char *members[3]; /* name, arguments, other name of arguments; NULL: none */
    bool is_bare, has_short_ids, has_channels;
    struct family *next; /* of a list */
    const char *source;  /* the description */
    char text[];         /* the same, cut into pieces */
};

/* The description text[0..n). NULL with a sentence in `err`, which names the line. */
struct family *family_create(const char *text, size_t n, char *err, size_t err_len);
void family_destroy(struct family **f);

/* Is it a name of the family, in any case? */
bool family_has_name(const struct family *f, const char *name, size_t n);

/* How many bytes of the template are signs of the family; 0: it is another's. */
size_t family_signs_in(const struct family *f, const char *chat_template);

/* Its marks that have `name` in them: a control token of that name has to be seen. */
bool family_has_mark(const struct family *f, const char *name, size_t n);

/* The last word before the name in a header, from which on it is that of a call. */
const char *family_header_word(const struct call_pattern *header);

/* For patterns: *line stands on a quote. The text up to the next one, with its escapes resolved in
 * place and a NUL behind it; *line goes behind the quote. NULL: there is none. */
const char *family_unquote(char **line, size_t *n);

/* ---- those that are built in; family_table.c ---- */

/* The first of a list; NULL, with a sentence in the log: there was no memory. Thread: any, after
 * the first call has returned. */
const struct family *family_table(void);
/* By its name or one of its aliases; NULL: there is none. */
const struct family *family_find(const char *name);
/* Whose signs the template has; NULL: nobody's. */
const struct family *family_of_template(const char *chat_template);
/* Of calls that a constraint has forced, a list of them, or one whose name is known. */
const struct family *family_forced(bool is_named);

#endif
