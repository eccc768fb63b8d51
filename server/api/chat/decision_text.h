/* server/api/chat/decision_text.h - JSON values as the plain text that Kev's models were trained
 * with.
 *
 * A string is itself, null is empty, a boolean is True or False, a list has an item a line behind
 * "- ", and an object a member a line behind its key; nested lists and objects are indented by two
 * blanks a level. A name of a special token, <|name|>, is written with broken bars instead, so that
 * it is text to the tokenizer.
 * https://github.com/jaredpalmer/kev
 *
 * Thread: any.
 * Memory: none but the output.
 */
#ifndef SERVER_API_CHAT_DECISION_TEXT_H
#define SERVER_API_CHAT_DECISION_TEXT_H

#include "core/base/buf.h"
#include "core/json/json.h"

/* Append the value's text, which is empty for NULL. */
void decision_text_add(struct buf *out, const cJSON *v);

#endif
