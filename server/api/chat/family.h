/* server/api/chat/family.h - how the models of one family write thoughts and tool calls.
 *
 * A description is a text of a few lines, one file for each family in the folder families/. It
 * defines the parser of answers (output_parser.h) and the texts that are hidden from content. A
 * line is a keyword and its values; '#' begins a comment.
 *
 *     name NAME          the name by which a setting chooses the family
 *     aliases NAME …     other names, among them vLLM's and SGLang's
 *     sign "text" …      a template that has all of the texts is of the family; of several lines,
 *                        and of several families, the one with the most bytes counts
 *     thought "a" "b"    marks around a thought; of several lines, the first whose second mark the
 *                        template has
 *     off "a" "b" "c"    if thinking is off and the prompt ends with a, then b is appended if calls
 *                        may follow, else c: an empty thought, or, in a family whose thoughts have
 *                        no marks of their own, the beginning of the answer
 *     closing "a" "b"    if the template has a, then b ends a thought whose budget is used up,
 *                        unless the request or a setting gives another text. It is the text that
 *                        the family's own pages tell users to put there, special tokens included
 *     hide "text" …      marks that are not content
 *     wrap "a" "b"       marks around the text of an answer, which a text may also contain: a is
 *                        hidden only where the text begins, and then the first b
 *     begin "text"       as hide, but only at the beginning of an answer
 *     section PATTERN    around all calls (call_pattern.h)
 *     between PATTERN    between two calls; without this line white space
 *     call PATTERN       one call; of several lines the first that fits counts
 *     argument PATTERN   one argument; of several lines the first that fits counts
 *     comma PATTERN      between two arguments; without this line white space
 *     quote "a" "b"      marks around a string of QUOTED
 *     members N A [A2]   names of the members of OBJECT with the name and the arguments
 *     bare               an answer may begin with a call without a mark. If the optional text that
 *                        a call begins with is missing, the function must be an offered one
 *     short_ids          the template wants ids of nine letters (Mistral)
 *     channels "a" "b"   Harmony's messages: the pattern of calls describes a message's content. A
 *                        thought that is written before a call stands between a and b
 *     header PATTERN     header of a message that is a call, from the end of the prompt on; several
 *                        lines are alternatives
 *
 * Thread: any; a family does not change.
 * Memory: some kilobytes; the built-in ones live as long as the process.
 */
#ifndef SERVER_API_CHAT_FAMILY_H
#define SERVER_API_CHAT_FAMILY_H

#include "server/api/chat/call_pattern.h"

#define FAMILY_MAX_LINES 4 /* lines of calls, arguments, headers, thoughts, signs */
#define FAMILY_MAX_HIDDEN 8
#define FAMILY_MAX_TEXT ((size_t)8 << 10)

struct family {
    const char *name, *aliases;                            /* `aliases` with blanks between them */
    const char *signs[FAMILY_MAX_LINES][FAMILY_MAX_LINES]; /* texts of a line, then NULL */
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
    const char *message[2]; /* marks around a thought of `channels`; NULL: none */
    const char *quotes[2];  /* NULL: none */
    const char *members[3]; /* name, arguments, other name of arguments; NULL: none */
    bool is_bare, has_short_ids, has_channels;
    struct family *next; /* next one in the table */
    const char *source;  /* the description */
    char text[];         /* the description, cut into strings */
};

/* Parses the description text[0..n). NULL with a sentence in `err`, which names the line. */
struct family *family_create(const char *text, size_t n, char *err, size_t err_len);
void family_destroy(struct family **f);

/* True: name[0..n) is a name of the family; case does not matter. */
bool family_has_name(const struct family *f, const char *name, size_t n);

/* Returns the bytes of the longest line of signs that the template has; 0: it is not of the
 * family. */
size_t family_signs_in(const struct family *f, const char *chat_template);

/* True: a mark of the family contains `name`. Then a control token of that name must not be hidden
 * from the parser. */
bool family_has_mark(const struct family *f, const char *name, size_t n);

/* Returns the last word before the name in a header: with it the header becomes that of a call. */
const char *family_header_word(const struct call_pattern *header);

/* Reads a text in quotes, for patterns too: *line stands on the quote. Resolves escapes in place,
 * appends a NUL and moves *line past the closing quote. NULL: there is none. */
const char *family_unquote(char **line, size_t *n);

/* ---- the built-in families; family_table.c ---- */

/* Returns the first family of the list, which the first call makes; NULL, with a line in the log:
 * out of memory. Thread: any, after the first call has returned. */
const struct family *family_table(void);
/* Finds a family by its name or an alias; NULL: there is none. */
const struct family *family_find(const char *name);
/* Finds the family whose signs the template has; NULL: there is none. */
const struct family *family_of_template(const char *chat_template);
/* The family of calls that a constraint has forced: a list of calls, or one call whose name is
 * known. */
const struct family *family_forced(bool is_named);

#endif
