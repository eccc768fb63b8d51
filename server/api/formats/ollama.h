/* server/api/formats/ollama.h - how every object of Ollama's answers begins.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_FORMATS_OLLAMA_H
#define SERVER_API_FORMATS_OLLAMA_H

#include "core/base/json.h"

struct buf;

/* Append the model's name as the body has it, as JSON; nothing where it has none. 0 or
 * ERR_NOMEM. */
int ollama_echo(const cJSON *body, struct buf *echo);

/* {"model":…,"created_at":"…": the time is now's. `echo` is what ollama_echo() left; without it the
 * name is `model`. */
void ollama_open(const struct buf *echo, const char *model, struct buf *out);

#endif
