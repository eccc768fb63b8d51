/* server/api/chat/chat_caps.h - finds by trial which forms of values a model's template accepts.
 *
 * Templates expect different forms where OpenAI's format leaves a choice: the arguments of a call
 * as an object or as JSON text, contents as strings or as lists of parts, null or "" beside calls;
 * some fail for a system message or for a tool without a description. Before the first request the
 * template is rendered for a few small conversations that show this, each in the form that most
 * templates take and then in the others: requests get the first form that is printed whole.
 *
 * Thread: any; once, when the model is loaded.
 * Memory: a probe is bounded by CHAT_PROBE_MEMORY and CHAT_PROBE_STEPS.
 * Errors: a template that prints nothing useful gets the form that most take. ERR_NOMEM.
 */
#ifndef SERVER_API_CHAT_CHAT_CAPS_H
#define SERVER_API_CHAT_CHAT_CAPS_H

#include "server/api/chat/chat_values.h"

#define CHAT_PROBE_MEMORY ((size_t)4 << 20) /* values; and as much text */
#define CHAT_PROBE_STEPS 500000 /* steps of a probe: the largest known template takes 20,000 */

struct family;
struct template;

/* Probes a template that has this source. */
int chat_caps_probe(struct chat_caps *out, const struct template *t, const char *source,
                    const struct chat_tokens *tokens);

/* Finds the template's family (family.h): the one whose signs its source has, if that family parses
 * the call that the template itself writes; else the first one that does. *out NULL: none. A
 * template that prints no calls is judged by its signs. */
int chat_caps_find_family(const struct family **out, const struct chat_caps *caps,
                          const struct template *t, const char *source,
                          const struct chat_tokens *tokens);

#endif
