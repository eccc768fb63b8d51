/* server/api/formats/ollama.h - the beginning of every object of Ollama's answers.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_OLLAMA_H
#define SERVER_API_FORMATS_OLLAMA_H

#include "core/json/json.h"

struct buf;

/* Append the model's name as the body has it, as JSON; nothing if it has none. 0 or ERR_NOMEM. */
int ollama_echo(const cJSON *body, struct buf *echo);

/* Append {"model":…,"created_at":"…" with the present time. `echo` has the name from ollama_echo();
 * if it is empty, the name is `model`. */
void ollama_open(const struct buf *echo, const char *model, struct buf *out);

#endif
