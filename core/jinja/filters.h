/* core/jinja/filters.h - the filters, grouped by the values they work on; filters.c has their
 * table.
 *
 * Thread: as template_impl.h.
 * Memory: as template_impl.h.
 */
#ifndef CORE_JINJA_FILTERS_H
#define CORE_JINJA_FILTERS_H

#include "core/jinja/template_impl.h"

/* name, function, parameters (see struct template_builtin), how many of them are required */
#define TEXT_FILTERS(XX)                                                                           \
    XX(capitalize, "", 0)                                                                          \
    XX(center, "width", 0)                                                                         \
    XX(escape, "", 0)                                                                              \
    XX(filesizeformat, "binary", 0)                                                                \
    XX(forceescape, "", 0)                                                                         \
    XX(indent, "width first blank", 0)                                                             \
    XX(lower, "", 0)                                                                               \
    XX(replace, "old new count", 2)                                                                \
    XX(safe, "", 0)                                                                                \
    XX(string, "", 0)                                                                              \
    XX(striptags, "", 0)                                                                           \
    XX(title, "", 0)                                                                               \
    XX(tojson, "ensure_ascii indent separators sort_keys", 0)                                      \
    XX(trim, "chars", 0)                                                                           \
    XX(truncate, "length killwords end leeway", 0)                                                 \
    XX(upper, "", 0)                                                                               \
    XX(urlencode, "", 0)                                                                           \
    XX(wordcount, "", 0)                                                                           \
    XX(wordwrap, "width break_long_words wrapstring break_on_hyphens", 0)                          \
    XX(xmlattr, "autospace", 0)

#define LIST_FILTERS(XX)                                                                           \
    XX(abs, "", 0)                                                                                 \
    XX(attr, "name", 1)                                                                            \
    XX(batch, "linecount fill_with", 1)                                                            \
    XX(default, "default_value boolean", 0)                                                        \
    XX(dictsort, "case_sensitive by reverse", 0)                                                   \
    XX(first, "", 0)                                                                               \
    XX(float, "default", 0)                                                                        \
    XX(groupby, "attribute default case_sensitive", 1)                                             \
    XX(int, "default base", 0)                                                                     \
    XX(items, "", 0)                                                                               \
    XX(join, "d attribute", 0)                                                                     \
    XX(last, "", 0)                                                                                \
    XX(length, "", 0)                                                                              \
    XX(list, "", 0)                                                                                \
    XX(max, "case_sensitive attribute", 0)                                                         \
    XX(min, "case_sensitive attribute", 0)                                                         \
    XX(pprint, "", 0)                                                                              \
    XX(reverse, "", 0)                                                                             \
    XX(round, "precision method", 0)                                                               \
    XX(slice, "slices fill_with", 1)                                                               \
    XX(sort, "reverse case_sensitive attribute", 0)                                                \
    XX(sum, "attribute start", 0)                                                                  \
    XX(unique, "case_sensitive attribute", 0)

#define RAW_FILTERS(XX)                                                                            \
    XX(format)                                                                                     \
    XX(map)                                                                                        \
    XX(random)                                                                                     \
    XX(reject)                                                                                     \
    XX(rejectattr)                                                                                 \
    XX(select)                                                                                     \
    XX(selectattr)                                                                                 \
    XX(urlize)

#define XX(name, params, n_required)                                                               \
    struct value filter_##name(struct render *r, struct value v, const struct value *a);
TEXT_FILTERS(XX)
LIST_FILTERS(XX)
#undef XX
#define XX(name)                                                                                   \
    struct value filter_##name(struct render *r, struct value v, const struct args *args);
RAW_FILTERS(XX)
#undef XX

/* Follow "a.b.0", members of members, as filters take it; `otherwise` (VALUE_MISSING: none)
 * replaces an undefined value on the way. */
struct value filter_member(struct render *r, struct value v, struct value path,
                           struct value otherwise);
/* Return a generator of the items of `compute`, which is called when the first item is asked for:
 * an error in the input does not count if no item is. */
struct value filter_later(struct render *r, struct value v, const struct value *a,
                          struct value (*compute)(struct render *r, struct value v,
                                                  const struct value *a));
/* Return a string in lower case; any other value unchanged. */
struct value filter_fold(struct render *r, struct value v);
/* Return the text in another case, with its flags. */
struct value filter_case(struct render *r, struct value v, int to);
/* Return the text without the characters at its ends that are in `chars` (missing or null:
 * blanks). */
struct value filter_strip(struct render *r, struct value v, struct value chars, bool left,
                          bool right);
struct value filter_replace_text(struct render *r, struct value s, struct value old,
                                 struct value by, int64_t count);
struct value filter_pad(struct render *r, struct value s, int64_t width, struct value fill,
                        int left_share);
struct value filter_split_lines(struct render *r, struct value s, bool keep_ends);
/* textwrap.wrap() of one line, joined by `newline` */
void filter_wrap_line(struct render *r, struct value line, int64_t width, bool break_long,
                      bool hyphens, struct value newline, struct buf *out);

#endif
