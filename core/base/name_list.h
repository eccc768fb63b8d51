/* core/base/name_list.h - a list of names as text: "gpt-4o, claude-*", with commas between.
 *
 * Blanks around a name do not count. A '*' stands for any bytes, also for none, and makes the name
 * a pattern. The empty list holds nothing.
 *
 * Thread: any.
 * Memory: none; items point into the text.
 */
#ifndef CORE_BASE_NAME_LIST_H
#define CORE_BASE_NAME_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define NAME_LIST_MAX_NAME 127
#define NAME_LIST_MAX_TEXT 4096
#define NAME_LIST_MAX_BARE 256 /* bytes for name_list_untag() */
#define NAME_LIST_RULE                                                                             \
    "names of 1 to 127 bytes of printable ASCII with commas between, without blanks, quotes, "     \
    "backslashes and any of = [ ]"

struct name_list_item {
    const char *text;
    size_t len;
};

/* True: the text is a list by NAME_LIST_RULE, of at most NAME_LIST_MAX_TEXT bytes. */
bool name_list_is_valid(const char *text);

/* Read the next item of *text and move *text past it; false: there are no more. *text is the list
 * at first; NULL is an empty list. */
bool name_list_next(const char **text, struct name_list_item *out);

bool name_list_is_pattern(const struct name_list_item *item);

/* True: the list has this name, compared byte by byte. */
bool name_list_has(const char *list, const char *name);
/* True: one of the list's patterns matches `name`. Time: at most the name's length times the
 * pattern's. */
bool name_list_matches(const char *list, const char *name);

/* Copy the name without the tag ":latest", which Ollama's clients use for any version; false: it
 * has no such tag, or is longer than any name. */
bool name_list_untag(const char *name, char out[NAME_LIST_MAX_BARE]);

#endif
