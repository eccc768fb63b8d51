/* core/model/sampling_defaults.c - see sampling_defaults.h.
 *
 * All keys with the prefix general.sampling. are looked up in one table of names, kinds and ranges,
 * the same ranges that a request's fields have. A key that is unknown or out of range becomes one
 * log line, at most MAX_WARNINGS of them for a file, so that a model still loads.
 */
#include "core/model/sampling_defaults.h"

#include "core/base/log.h"
#include "core/formats/gguf/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "general.sampling."
#define MAX_WARNINGS 16 /* most warnings about one file */

enum kind { ANY, ABOVE, WHOLE }; /* ANY: a number from the lower bound on; ABOVE: above it; WHOLE:
                                  * an integer */

static const struct row {
    const char *key;
    enum kind kind;
    double min, max;
} rows[SAMPLING_DEFAULT_COUNT] = {
    [SAMPLING_TEMPERATURE] = {PREFIX "temp", ANY, 0, 2},
    [SAMPLING_TOP_P] = {PREFIX "top_p", ABOVE, 0, 1},
    [SAMPLING_TOP_K] = {PREFIX "top_k", WHOLE, INT32_MIN, INT32_MAX},
    [SAMPLING_MIN_P] = {PREFIX "min_p", ANY, 0, 1},
    [SAMPLING_REPETITION_PENALTY] = {PREFIX "penalty_repeat", ABOVE, 0, 10},
    [SAMPLING_PRESENCE_PENALTY] = {PREFIX "penalty_present", ANY, -2, 2},
    [SAMPLING_FREQUENCY_PENALTY] = {PREFIX "penalty_freq", ANY, -2, 2},
    [SAMPLING_MAX_TOKENS] = {PREFIX "max_tokens", WHOLE, 1, INT32_MAX},
    [SAMPLING_XTC_PROBABILITY] = {PREFIX "xtc_probability", ANY, 0, 1},
    [SAMPLING_XTC_THRESHOLD] = {PREFIX "xtc_threshold", ANY, 0, 1},
    [SAMPLING_MIROSTAT] = {PREFIX "mirostat", WHOLE, 0, 2},
    [SAMPLING_MIROSTAT_TAU] = {PREFIX "mirostat_tau", ABOVE, 0, 100},
    [SAMPLING_MIROSTAT_ETA] = {PREFIX "mirostat_eta", ANY, 0, 1},
    [SAMPLING_PENALTY_LAST_N] = {PREFIX "penalty_last_n", WHOLE, -1, INT32_MAX},
};

void sampling_defaults_set(struct sampling_defaults *d, enum sampling_default what, double value)
{
    d->value[what] = value;
    d->has |= 1u << what;
}

const char *sampling_default_name(enum sampling_default what)
{
    return rows[what].key + strlen(PREFIX);
}

double sampling_defaults_get(const struct sampling_defaults *d, enum sampling_default what,
                             double otherwise)
{
    return d != NULL && (d->has >> what & 1) != 0 ? d->value[what] : otherwise;
}

/* Load a value. Integers are looked up first, because a float cannot hold all 32-bit integers. */
static bool load_default(const struct gguf *g, const struct row *row, double *value)
{
    char err[200];
    uint32_t whole;
    float number;

    if (row->kind == WHOLE && gguf_get_u32(g, row->key, &whole, err, sizeof(err)) == 0) {
        *value = whole;
        return true;
    }
    if (gguf_get_f32(g, row->key, &number, err, sizeof(err)) < 0)
        return false;
    *value = (double)number;
    return true;
}

static bool is_in_range(const struct row *row, double v)
{
    if (!(v >= row->min && v <= row->max) || (row->kind == ABOVE && v == row->min))
        return false;
    if (row == &rows[SAMPLING_MIROSTAT] && v == 1) /* version 1 is not supported */
        return false;
    return row->kind != WHOLE || v == floor(v);
}

static void warn(const struct gguf_str *key, const char *why)
{
    char name[GGUF_MAX_NAME], quoted[2 * GGUF_MAX_NAME + 16];

    snprintf(name, sizeof(name), "%.*s", (int)key->len, key->data);
    log_warn("model", "event=sampling_key_ignored key=%s reason=\"%s\"",
             log_quote(quoted, sizeof(quoted), name), why);
}

/* Take the key's value; returns NULL, or the reason why the key was not used. */
static const char *take_key_name(struct sampling_defaults *d, const struct gguf *g,
                                 const struct gguf_str *key)
{
    double v;

    for (int i = 0; i < SAMPLING_DEFAULT_COUNT; i++) {
        if (strlen(rows[i].key) != key->len || memcmp(rows[i].key, key->data, key->len) != 0)
            continue;
        if (!load_default(g, &rows[i], &v))
            return "is not a number";
        if (!is_in_range(&rows[i], v))
            return "has a value that is not supported";
        sampling_defaults_set(d, (enum sampling_default)i, v);
        return NULL;
    }
    return "is not supported";
}

void sampling_defaults_read(struct sampling_defaults *d, const struct gguf *g)
{
    int n_warnings = 0;

    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_str *key = &gguf_kv_at(g, i)->key;
        const char *why;

        if (key->len < sizeof(PREFIX) || memcmp(key->data, PREFIX, sizeof(PREFIX) - 1) != 0)
            continue;
        why = take_key_name(d, g, key);
        if (why != NULL && n_warnings++ < MAX_WARNINGS)
            warn(key, why);
    }
}
