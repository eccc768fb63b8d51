/* server/api/chat/chat.h - a conversation as the text that the model reads.
 *
 * The model's own template says how; a file may take its place, and a model without one gets the
 * messages as plain paragraphs. A template that cannot be parsed does not keep the server from
 * starting: it serves everything else, and chats are refused with the reason.
 *
 * Templates get the variables that Hugging Face's tokenizers give them: messages, tools, documents
 * (none), add_generation_prompt, bos_token, eos_token, and the members of chat_template_kwargs.
 * Parts of a content are joined by line ends; arguments of tool calls are objects; the role
 * developer becomes system where the template does not know it; reasoning_effort "none" is also
 * enable_thinking false.
 *
 * Thread: struct chat is read-only after creation; any number of threads may render.
 * Memory: a rendering is bounded by VALUE_POOL_MAX and CHAT_MAX_PROMPT and gives everything back.
 */
#ifndef SERVER_API_CHAT_CHAT_H
#define SERVER_API_CHAT_CHAT_H

#include <stddef.h>

#include "core/base/buf.h"
#include "server/api/chat/chat_values.h"
#include "server/api/chat/output_parser.h"
#include "server/api/params/params.h"
#include "server/http/error.h"

struct budget;
struct chat;
struct tokenizer;

/* `setting`: "" for the tokenizer's template, else plain; "plain", "chatml", or a file. An error,
 * with a sentence, is for a file that cannot be read, and lack of memory. */
int chat_create(struct chat **out, const char *setting, const struct tokenizer *t, char *err,
                size_t err_len);
void chat_destroy(struct chat **c);

/* "the model's own", "plain", "chatml" or the file, for the log; why it cannot be used, or NULL */
const char *chat_origin(const struct chat *c);
const char *chat_complaint(const struct chat *c);

const char *chat_source(const struct chat *c); /* the template's text */
const struct output_style *chat_style(const struct chat *c);

/* Append the prompt for a checked chat. Spends steps of the budget (NULL: as many as a request
 * has). 0, or a negative ERR_* with *e filled. */
int chat_render(const struct chat *c, const struct params *p, struct budget *budget,
                struct buf *out, struct api_error *e);

#endif
