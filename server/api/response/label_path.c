/* server/api/response/label_path.c - see label_path.h.
 *
 * The sum begins with the first token and is one of floats, so that it has the same bits on every
 * machine.
 */
#include "server/api/response/label_path.h"

#include "server/api/response/choice.h"

#include <string.h>

static float path_logprob(const struct prompt *prompts, const struct label_path *path)
{
    float sum = 0;

    for (uint32_t k = 0; k < path->n; k++)
        sum += prompts[path->steps[k].prompt].label_logprobs[path->steps[k].label];
    return sum;
}

uint32_t label_path_logprobs(const struct prompt *prompts, uint32_t i, float *out)
{
    const struct prompt *prompt = &prompts[i];

    if (prompt->paths == NULL) {
        memcpy(out, prompt->label_logprobs, prompt->n_labels * sizeof(*out));
        return prompt->n_labels;
    }
    for (uint32_t k = 0; k < prompt->n_paths; k++)
        out[k] = path_logprob(prompts, &prompt->paths[k]);
    return prompt->n_paths;
}
