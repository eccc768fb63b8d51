/* server/cli/serve_sandbox.h - derives the rights that `quire serve` needs after its start from the
 * settings, and enters the sandbox.
 *
 * Thread: the main thread, while it is the only one.
 * Memory: none afterwards.
 */
#ifndef SERVER_CLI_SERVE_SANDBOX_H
#define SERVER_CLI_SERVE_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#include "server/process/sandbox.h"

struct config;
struct served;
struct store_place;

/* Enter the sandbox as the setting says. ERR_UNSUPPORTED or ERR_NOMEM with a sentence. */
int serve_sandbox_enter(const struct config *c, const struct served *models, uint32_t n_models,
                        const struct store_place *place, struct sandbox_state *state, char *err,
                        size_t err_len);

#endif
