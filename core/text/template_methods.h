/* core/text/template_methods.h - the methods of strings, for the table of all methods.
 *
 * Thread: any; the table is constant.
 * Memory: none.
 */
#ifndef CORE_TEXT_TEMPLATE_METHODS_H
#define CORE_TEXT_TEMPLATE_METHODS_H

#include "core/text/template_private.h"

/* Ends with a row without a name. */
const struct template_builtin *template_string_methods(void);

#endif
