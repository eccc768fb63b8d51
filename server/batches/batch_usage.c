/* server/batches/batch_usage.c - see batch_usage.h.
 *
 * Only the part "response.body.usage" of an answer's text is parsed, so that a long answer costs a
 * scan and a small tree. It is called for answers that were just written, and, when a batch is
 * opened, for those of its files.
 */
#include "server/batches/batch_usage.h"

#include "core/json/json.h"

#include <string.h>

/* Return the member with the name that chats and completions use, or else with that of
 * Responses. */
static const cJSON *either(const cJSON *object, const char *name, const char *other)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    return item != NULL ? item : cJSON_GetObjectItemCaseSensitive(object, other);
}

static uint64_t usage_number(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= UINT32_MAX
               ? (uint64_t)item->valuedouble
               : 0;
}

static void add_object(struct batch_usage *u, const cJSON *usage)
{
    const cJSON *input = either(usage, "prompt_tokens_details", "input_tokens_details");
    const cJSON *output = either(usage, "completion_tokens_details", "output_tokens_details");

    u->n_input += usage_number(either(usage, "prompt_tokens", "input_tokens"));
    u->n_output += usage_number(either(usage, "completion_tokens", "output_tokens"));
    u->n_cached += usage_number(cJSON_GetObjectItemCaseSensitive(input, "cached_tokens"));
    u->n_reasoning += usage_number(cJSON_GetObjectItemCaseSensitive(output, "reasoning_tokens"));
}

static void add_answer(struct batch_usage *u, const char *text, size_t n)
{
    static const char *const path[] = {"response", "body", "usage"};
    const char *why;
    cJSON *usage;

    for (size_t i = 0; i < sizeof(path) / sizeof(*path); i++)
        if (!json_member_text(text, n, path[i], &text, &n))
            return;
    if (json_parse(text, n, &usage, &why) < 0)
        return;
    add_object(u, usage);
    cJSON_Delete(usage);
}

void batch_usage_add(struct batch_usage *usage, const char *answers, size_t n)
{
    while (n > 0) {
        const char *end = memchr(answers, '\n', n);
        const size_t line = end != NULL ? (size_t)(end - answers) : n;

        add_answer(usage, answers, line);
        answers += end != NULL ? line + 1 : line;
        n -= end != NULL ? line + 1 : line;
    }
}
