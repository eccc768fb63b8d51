/* server/models/instance_sampling.c - the sampling defaults of a model; see instance.h.
 *
 * The defaults of the file (generation_config.json or GGUF keys) are read first, and each setting
 * that is not `auto` (NaN) replaces one of them. Requests may override each of them later.
 */
#include "server/models/instance.h"

#include "config/config.h"

#include <math.h>

static void take_default(struct sampling_defaults *d, enum sampling_default what, double setting)
{
    if (!isnan(setting)) /* NaN is `auto` */
        sampling_defaults_set(d, what, setting);
}

void instance_read_sampling(struct sampling_defaults *d, const struct gguf *g,
                            const struct config *c)
{
    *d = (struct sampling_defaults){0};
    if (c->file_sampling == CONFIG_ON)
        sampling_defaults_read(d, g);
    take_default(d, SAMPLING_TEMPERATURE, c->temperature);
    take_default(d, SAMPLING_TOP_P, c->top_p);
    take_default(d, SAMPLING_TOP_K, c->top_k);
    take_default(d, SAMPLING_MIN_P, c->min_p);
    take_default(d, SAMPLING_REPETITION_PENALTY, c->repetition_penalty);
    take_default(d, SAMPLING_PRESENCE_PENALTY, c->presence_penalty);
    take_default(d, SAMPLING_FREQUENCY_PENALTY, c->frequency_penalty);
    take_default(d, SAMPLING_MAX_TOKENS, c->max_tokens);
}
