/* core/jinja/methods.h - the methods of strings, for the table in string_methods.c.
 *
 * Thread: any; the table is constant.
 * Memory: none.
 */
#ifndef CORE_JINJA_METHODS_H
#define CORE_JINJA_METHODS_H

#include "core/jinja/template_impl.h"

/* The methods that search in a string; the arguments as in the table. */
struct value method_startswith(struct render *r, struct value v, const struct value *a);
struct value method_endswith(struct render *r, struct value v, const struct value *a);
struct value method_find(struct render *r, struct value v, const struct value *a);
struct value method_rfind(struct render *r, struct value v, const struct value *a);
struct value method_index(struct render *r, struct value v, const struct value *a);
struct value method_rindex(struct render *r, struct value v, const struct value *a);
struct value method_count(struct render *r, struct value v, const struct value *a);
struct value method_replace(struct render *r, struct value v, const struct value *a);
struct value method_split(struct render *r, struct value v, const struct value *a);
struct value method_rsplit(struct render *r, struct value v, const struct value *a);
struct value method_splitlines(struct render *r, struct value v, const struct value *a);
struct value method_partition(struct render *r, struct value v, const struct value *a);
struct value method_rpartition(struct render *r, struct value v, const struct value *a);

/* Return the table of methods, which ends with a row without a name. */
const struct template_builtin *template_string_methods(void);

#endif
