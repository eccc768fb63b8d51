/* core/model/sampling_defaults.h - a model's sampling parameters for requests that do not set them.
 *
 * Files may say how their model wants to be sampled: a GGUF file in keys general.sampling.*, a
 * folder in generation_config.json, which becomes the same keys. Settings override the file; a
 * request's own field overrides both. A parameter that none of them sets is left to the caller.
 *
 * Thread: filled while the model is loaded, then constant.
 * Memory: none.
 * Errors: none. A key that cannot be used is logged and ignored.
 * Source: the keys' names are those of llama.cpp's gguf-py, constants.py (Keys.General); it has
 *         none for penalty_present, penalty_freq and max_tokens.
 */
#ifndef CORE_MODEL_SAMPLING_DEFAULTS_H
#define CORE_MODEL_SAMPLING_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct gguf;

enum sampling_default {
    SAMPLING_TEMPERATURE = 0,
    SAMPLING_TOP_P,
    SAMPLING_TOP_K, /* 0 or below: off */
    SAMPLING_MIN_P,
    SAMPLING_REPETITION_PENALTY,
    SAMPLING_PRESENCE_PENALTY,
    SAMPLING_FREQUENCY_PENALTY,
    SAMPLING_MAX_TOKENS,
    SAMPLING_XTC_PROBABILITY,
    SAMPLING_XTC_THRESHOLD,
    SAMPLING_MIROSTAT, /* 0 or 2 */
    SAMPLING_MIROSTAT_TAU,
    SAMPLING_MIROSTAT_ETA,
    SAMPLING_PENALTY_LAST_N, /* number of last tokens that penalties count; -1: all, 0: no
                              * penalties */
    SAMPLING_DEFAULT_COUNT
};

struct sampling_defaults { /* all zero: no parameter is set */
    uint32_t has;          /* bit i: value[i] is set */
    double value[SAMPLING_DEFAULT_COUNT];
};

/* Read the file's parameters, within the ranges that a request's fields have. */
void sampling_defaults_read(struct sampling_defaults *d, const struct gguf *g);

void sampling_defaults_set(struct sampling_defaults *d, enum sampling_default what, double value);
const char *sampling_default_name(enum sampling_default what); /* the name as in a file's key, for
                                                                * instance "temp" */
/* Return the value of `what`, or `otherwise` if it is not set or `d` is NULL. */
double sampling_defaults_get(const struct sampling_defaults *d, enum sampling_default what,
                             double otherwise);

#endif
