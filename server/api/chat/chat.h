/* server/api/chat/chat.h - a conversation as the text that the model reads.
 *
 * The model's own template says how; a file may take its place, and a model without one gets the
 * messages as plain paragraphs. Of several templates a chat with tools gets "tool_use", any other
 * one "default": chat_for() finds it. A setting may name one for all. A template that cannot be
 * parsed does not keep the server from starting: it serves everything else, and chats are refused
 * with the reason.
 *
 * Templates get the variables that Hugging Face's tokenizers give them: messages, tools, documents
 * (none), add_generation_prompt, bos_token, eos_token, enable_thinking (true, unless
 * reasoning_effort is "none" or the client switches thinking off) and the members of
 * chat_template_kwargs. Parts of a content are joined by line ends, a content that is null or
 * absent is an empty string, and arguments of tool calls are objects. Where the template is made
 * for something else it gets that: chat_caps.h says how this is found. The role developer becomes
 * system where the template does not know it, and where it takes no system
 * message at its place that becomes the end of the user's message before it or, if there is none
 * directly, the beginning of the next.
 *
 * Names of special tokens are those tokens only where the template's own text has them, or the role
 * of a message, or bos_token and eos_token. A name any byte of which came from a client - in
 * contents, thoughts, names, arguments, tools, chat_template_kwargs - stays plain text, whatever
 * the template does with it (core/jinja/value.h). The text itself is the same either way: a
 * rendering comes with the spans of its bytes that may name special tokens. With
 * special_in_messages these are all. User-defined tokens, such as <think> in many vocabularies,
 * are found anywhere: they are text to their tokenizers, too.
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
struct spans;
struct tokenizer;

struct chat_options {
    const char *template; /* "" for the tokenizer's, else plain; "plain", "chatml", or a file */
    const char *name;     /* which of the tokenizer's; NULL or "": the one for the occasion */
    bool special_in_messages;
    /* How answers are written (family.h): "" or "auto" for what the template shows, "none", a
     * family's name, or a file with a description; and of whose thoughts. NULL: "" */
    const char *tool_call_parser, *reasoning_parser;
};

/* An error, with a sentence, is for a file that cannot be read, a name that the tokenizer does not
 * have, a parser that is not known, and lack of memory. */
int chat_create(struct chat **out, const struct chat_options *options, const struct tokenizer *t,
                char *err, size_t err_len);
void chat_destroy(struct chat **c);

/* The chat with the template for these parameters: `c`, or another one that lives as long. All
 * other functions are of that template. */
const struct chat *chat_for(const struct chat *c, const struct params *p);
/* The one for chats with tools, if it is another one; else NULL. */
const struct chat *chat_for_tools(const struct chat *c);

/* Who reads the tool calls of chats with tools: a family's name, or "none". */
const char *chat_tool_parser(const struct chat *c);

/* "the model's own", "plain", "chatml" or the file, for the log; why it cannot be used, or NULL */
const char *chat_origin(const struct chat *c);
const char *chat_complaint(const struct chat *c);

const char *chat_source(const struct chat *c); /* the template's text */
const struct output_style *chat_style(const struct chat *c);
const struct chat_caps *chat_caps(const struct chat *c);

/* Tokens around thoughts: a mark as a whole, or the special token that it begins with; TOKEN_NONE
 * where there is none. */
struct chat_marks {
    int32_t open, close;
};
struct chat_marks chat_marks(const struct chat *c);

/* Append the prompt for a checked chat, and to `own` which of its bytes may name special tokens (as
 * places in `out`). Spends steps of the budget (NULL: as many as a request
 * has). 0, or a negative ERR_* with *e filled. */
int chat_render(const struct chat *c, const struct params *p, struct budget *budget,
                struct buf *out, struct spans *own, struct api_error *e);

#endif
