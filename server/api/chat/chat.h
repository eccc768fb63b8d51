/* server/api/chat/chat.h - a conversation as the text that the model reads.
 *
 * The model's own template writes it; a file may take its place, and a model without one gets the
 * messages as plain paragraphs. If a model has several templates, a chat with tools gets
 * "tool_use", any other one "default": chat_for() finds it; a setting may choose one for all. A
 * template that cannot be parsed does not keep the server from starting: chats are refused with the
 * reason, everything else is served.
 *
 * Templates get the variables that Hugging Face's tokenizers give them: messages, tools, documents
 * (none), add_generation_prompt, bos_token, eos_token, enable_thinking (true, unless
 * reasoning_effort is "none" or the client switches thinking off) and the members of
 * chat_template_kwargs. Parts of a content are joined by line ends, a content that is null or
 * absent is an empty string, and arguments of tool calls are objects; a template that expects
 * another form gets that (chat_caps.h finds out which). The role developer becomes system if the
 * template does not know it. If the template takes no system message at its place, the message
 * becomes the end of the user's message before it or, if there is none directly, the beginning of
 * the next.
 *
 * A name of a special token becomes that token only if it stands in the template's own text, in the
 * role of a message, or in bos_token or eos_token. A name any byte of which came from a client - in
 * contents, thoughts, names, arguments, tools, chat_template_kwargs - stays plain text, whatever
 * the template does with it (core/jinja/value.h). The text is the same either way: a rendering
 * comes with the spans of its bytes that may name special tokens. With special_in_messages these
 * are all. User-defined tokens, such as <think> in many vocabularies, are found anywhere: they are
 * text to their tokenizers, too.
 *
 * Thread: struct chat is read-only after creation; any number of threads may render.
 * Memory: a rendering is bounded by VALUE_POOL_MAX and CHAT_MAX_PROMPT and frees everything.
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
    const char *name;     /* name of the tokenizer's template; NULL or "": chat_for() chooses */
    bool special_in_messages;
    /* The parsers of answers (family.h): "" or "auto" for what the template shows, "none", a
     * family's name, or a file with a description (tool calls only). NULL: "" */
    const char *tool_call_parser, *reasoning_parser;
};

/* Fails, with a sentence, if a file cannot be read, the tokenizer does not have the name, a parser
 * is not known, or memory is short. */
int chat_create(struct chat **out, const struct chat_options *options, const struct tokenizer *t,
                char *err, size_t err_len);
void chat_destroy(struct chat **c);

/* The chat with the template for these parameters: `c`, or another one that lives as long. All
 * other functions use the template of the chat that they are given. */
const struct chat *chat_for(const struct chat *c, const struct params *p);
/* The template for chats with tools if it is a separate one; else NULL. */
const struct chat *chat_for_tools(const struct chat *c);

/* The family that parses the tool calls of chats with tools, or "none". */
const char *chat_tool_parser(const struct chat *c);

/* chat_origin() names the template's source for the log: "the model's own", "plain", "chatml" or
 * the file. chat_complaint() says why the template cannot be used, or returns NULL. */
const char *chat_origin(const struct chat *c);
const char *chat_complaint(const struct chat *c);

const char *chat_source(const struct chat *c); /* the template's text */
const struct output_style *chat_style(const struct chat *c);
const struct chat_caps *chat_caps(const struct chat *c);

/* Tokens around thoughts: the whole mark, or the special token that it begins with; TOKEN_NONE:
 * there is none. */
struct chat_marks {
    int32_t open, close;
};
struct chat_marks chat_marks(const struct chat *c);

/* Appends the prompt for a checked chat to `out`, and to `own` the spans of `out` that may name
 * special tokens. Spends steps of the budget (NULL: as many as a request has). 0, or a negative
 * ERR_* with *e filled. */
int chat_render(const struct chat *c, const struct params *p, struct budget *budget,
                struct buf *out, struct spans *own, struct api_error *e);

#endif
