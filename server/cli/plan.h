/* server/cli/plan.h - computes the sums of `quire plan` for other commands.
 *
 * Thread: the main thread.
 * Memory: that of all models without their weights, for as long as the call takes.
 * Errors: an exit_code, with a sentence: a model cannot be opened or served with these settings.
 */
#ifndef SERVER_CLI_PLAN_H
#define SERVER_CLI_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct config;

struct plan_total {
    uint64_t bytes;      /* memory of such a server, when its caches and a step are full */
    uint64_t more_bytes; /* at most, in addition: swap_ram, adapter_memory, request_memory */
    uint32_t n_models;   /* number of planned models; after an error the index of the model that
                          * failed */
};

int plan_total(const struct config *c, struct plan_total *out, char *err, size_t err_len);

#endif
