/* core/jinja/template.h - chat templates: Jinja, as Hugging Face's tokenizers render it.
 *
 * A model's chat template is a program in the Jinja language. It is parsed once, when the model is
 * loaded, and rendered for each chat. The text that comes out is, byte for byte, what Python's
 * jinja2 prints with Hugging Face's settings: sandboxed and immutable, trim_blocks, lstrip_blocks,
 * break and continue, {% generation %} (which only groups), raise_exception(), strftime_now() and
 * the tojson filter that is json.dumps() without escaping HTML.
 *
 * Two things that jinja2 refuses are there because published templates rely on them: append()
 * and pop() of lists, and a generator under tojson, which is a list.
 *
 * Not supported, and refused by name: include, import, from, extends, block, autoescape, the
 * filters random and urlize, lipsum(), the methods encode, translate and maketrans. Integers have
 * 64 bits: a larger result is an error. Filters that give a generator in Python give one here, too:
 * it can be walked once, has no length and is true; only its address is not printed. jinja2
 * computes constant expressions while it compiles, so an error in one counts even where it is never
 * reached; here it counts when it is reached.
 *
 * Origin of the bytes: those of the template's source, and of strings that the caller gave as
 * value_own(), are the template's own; value.h tells how that is kept. A caller that accepts names
 * of special tokens only in these bytes gets their spans by `own`.
 *
 * Thread: a template is read-only after creation: any number of threads may render it at once,
 *         each with a pool of its own. Neither call uses more than 2 MiB of stack.
 * Memory: the template copies its source. Rendering takes its values from the caller's pool and
 *         nothing else that outlives the call.
 * Errors: sentences that begin with "line N: ", numbers as below.
 */
#ifndef CORE_JINJA_TEMPLATE_H
#define CORE_JINJA_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "core/jinja/value.h"

struct budget;
struct buf;
struct spans;
struct template;

#define TEMPLATE_MAX_SOURCE (1u << 20) /* the largest known template has 20 KB */
#define TEMPLATE_MAX_NESTING 150 /* brackets and blocks in the source; Python stops near 100 */
#define TEMPLATE_MAX_HEIGHT 600  /* height of one expression, a + b + c + ... being 3 high */
#define TEMPLATE_MAX_MEMORY (64u << 20) /* bytes of a parsed template */

#define TEMPLATE_STEP 5 /* steps of the request's budget for one step of a template: some 100 ns */
#define TEMPLATE_MAX_DEPTH 1500 /* nested calls, loops and expressions while rendering */
#define TEMPLATE_MAX_RANGE 100000 /* numbers in a range(), jinja's own limit */

struct template_options { /* a limit of 0 means the default above */
    struct budget *budget; /* borrowed; NULL: BUDGET_REQUEST_STEPS of its own, some hundred times
                            * what a long chat takes */
    uint32_t max_depth;
    int64_t now; /* time for strftime_now(), in seconds since 1970; it prints local time */
    struct spans *own; /* appended: the bytes of the output that are the template's own; NULL: not
                        * wanted */
};

/* Parse source[0..n). ERR_FORMAT: it is not Jinja, or uses a part that is left out; ERR_LIMIT: too
 * long, too deep; ERR_NOMEM. */
int template_create(struct template **out, const char *source, size_t n, char *err, size_t err_len);
void template_destroy(struct template **t);

/* Append the text that the template prints for these variables to `out`. The variables are a dict,
 * which is only read, except for lists in it that the template itself changes. Values come from
 * `pool`, and stay there. `options` may be NULL. ERR_INVAL: the template refuses or fails, and the
 * sentence says why; ERR_LIMIT: too many steps, too deep, more text than `out` may hold, more
 * memory than `pool` may hold; ERR_CANCELED; ERR_NOMEM. `out` and `own` are then as long as they
 * were. */
int template_render(const struct template *t, struct value_pool *pool, const struct value *globals,
                    const struct template_options *options, struct buf *out, char *err,
                    size_t err_len);

#endif
