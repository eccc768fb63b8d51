/* server/cli/memory_estimate.h - estimates the memory of a model under given settings, without
 * reading its weights. `quire plan` prints it, and memory_limit uses it.
 *
 * Everything is made as for serving, except that weights are not read: memory is reserved, which
 * takes no RAM until it is written, and the sizes of the reserved memory are the result.
 *
 * Thread: any.
 * Memory: the caller's.
 * Errors: a sentence.
 */
#ifndef SERVER_CLI_MEMORY_ESTIMATE_H
#define SERVER_CLI_MEMORY_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#define MEMORY_ESTIMATE_SERVER ((uint64_t)4 << 20) /* measured bytes of sockets, queues, stacks */

struct config;
struct instance;
struct instance_company;

struct memory_estimate {
    uint64_t swap;                                  /* bytes, when sequences are swapped out */
    uint64_t adapters;                              /* most bytes of adapters; 0: the model has
                                                     * none */
    uint64_t weights, tables, cache, states, rows, process; /* bytes; states: of recurrent layers */
    uint64_t events, store; /* bytes of KV events and of the block store, if they are on */
    uint64_t pinned, tenant_pinned; /* most bytes of the cache that are pinned, and of a tenant's
                                     * pins */
    uint64_t history;  /* bytes of earlier answers, for drafts */
    uint64_t draft;    /* all memory of a draft model */
    uint64_t state;    /* bytes of one recurrent state; 0: the model has none */
    uint64_t token;    /* bytes of a token in the cache, in all layers */
    uint32_t n_tokens; /* capacity of the cache */
    uint64_t sequence; /* bytes of the longest sequence; layers with a window drop old tokens */
};

/* Estimate the model of these settings (config_model()); `process` is 0. `engine` is the instance
 * made for it, to be released on EXIT_OK. Returns an exit_code. */
int memory_estimate_make(struct memory_estimate *out, struct instance *engine, struct config *own,
                         const struct instance_company *company, char *err, size_t err_len);

/* Estimate the memory of a loaded model; `draft` is its draft model, which may be empty. */
struct memory_estimate memory_estimate_of(const struct instance *engine,
                                          const struct instance *draft, const struct config *own);

/* Return the sum when the cache and a step are full, without `swap` and `adapters`. */
uint64_t memory_estimate_sum(const struct memory_estimate *p);

#endif
