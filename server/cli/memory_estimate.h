/* server/cli/memory_estimate.h - the memory that a model takes when it is served with these
 * settings, known without reading a weight. `quire plan` prints it, and memory_limit goes by it.
 *
 * Everything is made as for serving, but that no weight is read: rooms are reserved, which costs
 * nothing until they are filled, and their sizes are what is told.
 *
 * Thread: any.
 * Memory: the caller's.
 * Errors: a sentence.
 */
#ifndef SERVER_CLI_MEMORY_ESTIMATE_H
#define SERVER_CLI_MEMORY_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#define MEMORY_ESTIMATE_SERVER ((uint64_t)4 << 20) /* sockets, queues, stacks: as measured */

struct config;
struct instance;
struct instance_company;

struct memory_estimate {
    uint64_t swap;                                  /* bytes, when sequences are swapped out */
    uint64_t adapters;                              /* bytes at most; 0: there are none */
    uint64_t weights, tables, cache, states, rows, process; /* bytes; states: of recurrent layers */
    uint64_t events, store; /* of KV events and of the block store, where there are some */
    uint64_t history;  /* of earlier answers, for guesses */
    uint64_t draft;    /* of a draft model: all that it takes */
    uint64_t state;    /* bytes of one; 0: the model has none */
    uint64_t token;    /* bytes of a token in the cache, in all layers */
    uint32_t n_tokens; /* that the cache holds */
    uint64_t sequence; /* bytes of the longest one; layers with a window drop what is past */
};

/* Of the model of these settings (config_model()), all but `process`, which is 0. `engine` is what
 * it was made as, to be released on EXIT_OK. Returns an exit_code. */
int memory_estimate_make(struct memory_estimate *out, struct instance *engine, struct config *own,
                         const struct instance_company *company, char *err, size_t err_len);

/* The same of one that is loaded; `draft` is its draft model, which may be empty. */
struct memory_estimate memory_estimate_of(const struct instance *engine,
                                          const struct instance *draft, const struct config *own);

/* When the cache and a step are full; without `swap` and `adapters`. */
uint64_t memory_estimate_sum(const struct memory_estimate *p);

#endif
