/* server/api/params/request_defaults.h - the settings' values for requests that have none: the
 * seed, thinking and its budget, the message that ends a thought, variables of the chat template,
 * and the orders of a decision's options.
 *
 * Defaults of sampling are in core/model/sampling_defaults.h, since the model's file sets them,
 * too. A request's own field wins; template variables are merged one by one.
 *
 * Thread: filled before the I/O thread runs, then constant.
 * Memory: the message and the tree of variables; request_defaults_release().
 */
#ifndef SERVER_API_PARAMS_REQUEST_DEFAULTS_H
#define SERVER_API_PARAMS_REQUEST_DEFAULTS_H

#include <stddef.h>

#include "server/api/params/params.h"

struct tokenizer;

struct request_defaults { /* zero sets nothing but a budget of 0 for thoughts */
    bool has_seed;
    uint64_t seed;
    enum thinking thinking;
    int32_t reasoning_budget; /* tokens of a thought; 0: none, -1: no limit */
    char *budget_message;     /* text that ends a thought at its budget; NULL: none */
    cJSON *template_kwargs;   /* an object, or NULL */
    uint32_t permutations;    /* of decisions; 0 counts as 1 */
};

/* Read the object of variables from its JSON text; "" is none. ERR_INVAL, ERR_NOMEM: *err says
 * why. */
int request_defaults_take_kwargs(struct request_defaults *d, const char *text, char *err,
                                 size_t err_len);
/* Copy the message; "" is none. ERR_NOMEM. */
int request_defaults_take_message(struct request_defaults *d, const char *text);
/* Is the message short enough? ERR_INVAL, ERR_NOMEM: *err says why. */
int request_defaults_check_message(const struct request_defaults *d, const struct tokenizer *t,
                                   char *err, size_t err_len);
void request_defaults_release(struct request_defaults *d);

/* Set the defaults in a body's params before its fields are read. d may be NULL. */
void request_defaults_apply(const struct request_defaults *d, struct params *p);

#endif
