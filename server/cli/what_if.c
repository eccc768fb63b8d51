/* server/cli/what_if.c - see what_if.h.
 *
 * Each "key=value" is looked up in a small table of numbers or handled as a word of the settings,
 * with the same names and words as in the configuration.
 */
#include "server/cli/what_if.h"

#include "config/words.h"
#include "scheduler/replay/simulate.h"
#include "server/cli/command.h"
#include "server/models/instance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_one_of(const char *value, const char *words, unsigned *out)
{
    const int i = config_word_find(words, value);

    if (i >= 0)
        *out = (unsigned)i;
    return i >= 0;
}

static bool set_number(const char *value, uint32_t *out)
{
    unsigned long v;
    char *end;

    errno = 0;
    v = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '\0' || errno != 0 || v > 1u << 30)
        return false;
    *out = (uint32_t)v;
    return true;
}

/* Set one of the settings by its name in the configuration. False: unknown, or no valid value. */
static bool set(struct simulate_options *o, const char *key, const char *value)
{
    const struct {
        const char *key;
        uint32_t *number;
    } numbers[] = {
        {"aging", &o->sched.aging_milli},
        {"max_preemptions", &o->sched.max_preemptions},
        {"max_sequences", &o->sched.max_sequences},
        {"max_batch_tokens", &o->sched.max_batch_tokens},
        {"prefill_chunk", &o->sched.prefill_chunk},
        {"blocks", &o->kv.n_blocks},
    };
    uint32_t v = 0;
    bool ok = false;

    if (strcmp(key, "policy") == 0) {
        ok = set_one_of(value, CONFIG_WORDS(policy), &v);
        o->sched.policy = (enum sched_policy)v;
    } else if (strcmp(key, "preemption") == 0) {
        ok = set_one_of(value, CONFIG_WORDS(preemption), &v);
        o->sched.preemption = (enum sched_preemption)v;
    } else if (strcmp(key, "prefix_cache") == 0) {
        ok = set_one_of(value, CONFIG_WORDS(switch), &v);
        o->kv.prefix_cache = v == CONFIG_ON;
    } else if (strcmp(key, "step_target_ms") == 0) {
        ok = set_number(value, &v);
        o->target_us = (uint64_t)v * 1000;
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(numbers[i].key, key) == 0)
            ok = set_number(value, numbers[i].number);
    o->kv.max_chunk = o->sched.prefill_chunk; /* as the server does */
    if (!o->kv.prefix_cache || o->kv.pins.most_blocks >= o->kv.n_blocks)
        o->kv.pins = (struct kv_pin_options){0}; /* there is nothing to pin, or no room for it */
    return ok;
}

int what_if_set(struct simulate_options *o, const char *text)
{
    char copy[256], *at = copy, *setting, *value;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return command_fail(EXIT_USAGE, "--what-if %s is too long", text);
    while ((setting = strsep(&at, ",")) != NULL) {
        value = strchr(setting, '=');
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || !set(o, setting, value))
            return command_fail(EXIT_USAGE, "--what-if %s: cannot set '%s' to '%s'", text, setting,
                                value != NULL ? value : "");
    }
    return EXIT_OK;
}

int what_if_take(int argc, char **argv, int *i, const char **texts, uint32_t *n_texts)
{
    const bool joined = strncmp(argv[*i], "--what-if=", 10) == 0;

    if (!joined && strcmp(argv[*i], "--what-if") != 0)
        return 0;
    if (*n_texts == WHAT_IF_MAX || (!joined && *i + 1 == argc)) {
        command_fail(EXIT_USAGE, "--what-if needs a value, and may be given at most %d times",
                     WHAT_IF_MAX);
        return -1;
    }
    texts[(*n_texts)++] = joined ? argv[*i] + 10 : argv[++*i];
    return 1;
}
