/* server/api/response/best_of.h - of several choices of a prompt, those that the model finds
 * likeliest.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_RESPONSE_BEST_OF_H
#define SERVER_API_RESPONSE_BEST_OF_H

#include <stdint.h>

#include "server/api/response/choice.h"

/* Of each n_each choices in a row, which have ended, the n with the highest mean log-probability
 * of a token: they come to the front of `choices`, best first and numbered as if there had been no
 * others. The others follow, in any order. Equal ones keep their order. */
void best_of_take(struct choice *choices, uint32_t n_prompts, uint32_t n_each, uint32_t n);

#endif
