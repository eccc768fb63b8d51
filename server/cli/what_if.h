/* server/cli/what_if.h - parses the settings of a simulation: `quire replay --what-if`.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_CLI_WHAT_IF_H
#define SERVER_CLI_WHAT_IF_H

#include <stdint.h>

struct simulate_options;

#define WHAT_IF_MAX 32 /* most times that the option may be given */

/* The names that can be set, for --help. */
#define WHAT_IF_NAMES                                                                              \
    "policy, preemption, prefix_cache, aging, max_preemptions, max_sequences,\n"                   \
    "                     max_batch_tokens, prefill_chunk, step_target_ms, blocks"

/* Set the values of `text` (key=value,key=value). Returns an exit_code, with a message. */
int what_if_set(struct simulate_options *o, const char *text);

/* Take `--what-if VALUE` or `--what-if=VALUE` at argv[*i] as the next of texts[WHAT_IF_MAX]; *i is
 * then the last argument taken. 1; 0: argv[*i] is another argument; negative, with a message: the
 * value is missing, or there are too many. */
int what_if_take(int argc, char **argv, int *i, const char **texts, uint32_t *n_texts);

#endif
