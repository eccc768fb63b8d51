/* core/model/decision.c - what a file says that was trained for decisions; see load.h.
 *
 * The keys are those of llama.cpp's files: ARCH.decision.type names the family, of which the server
 * knows the prompts; ARCH.decision.temperature.NAME is a number for one kind of question, or for a
 * kind and a range of options; converters have written it as a number and as a text.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/model/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPERATURE "decision.temperature."

/* Read the number of one temperature: a float, or a text of at most 31 bytes. */
static int read_value(struct load *l, const char *key, const struct gguf_kv *kv, float *value)
{
    struct gguf_str said = {0};
    char text[32], *end;
    int rc;

    if (kv->type == GGUF_STRING) {
        rc = gguf_get_str(l->g, key, &said, l->err, l->err_len);
        load_printable(text, sizeof(text), said);
        *value = strtof(text, &end);
        if (rc == 0 && (end == text || *end != '\0'))
            rc = ERR_FORMAT;
    } else {
        rc = gguf_get_f32(l->g, key, value, l->err, l->err_len);
    }
    if (rc == 0 && *value > 0 && *value < 1e6f)
        return 0;
    return load_fail(l, ERR_FORMAT, "key '%s': must be a number above 0", key);
}

static int read_temperatures(struct load *l)
{
    struct model_decision *d = &l->m->decision;
    char prefix[GGUF_MAX_NAME], key[GGUF_MAX_NAME];

    key_name(l, TEMPERATURE, prefix);
    for (uint64_t i = 0; i < gguf_n_kv(l->g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(l->g, i);
        const size_t n = strlen(prefix);
        struct model_temperature *t = &d->temperatures[d->n_temperatures];

        if (kv->key.len <= n || kv->key.len >= sizeof(key) || memcmp(kv->key.data, prefix, n) != 0)
            continue;
        load_printable(key, sizeof(key), kv->key);
        if (d->n_temperatures == MODEL_MAX_TEMPERATURES || kv->key.len - n >= sizeof(t->name))
            return load_fail(l, ERR_FORMAT,
                             "key '%s': no more than %d such keys are supported, "
                             "with names of up to %zu bytes",
                             key, MODEL_MAX_TEMPERATURES, sizeof(t->name) - 1);
        memcpy(t->name, key + n, kv->key.len - n);
        if (read_value(l, key, kv, &t->value) < 0)
            return ERR_FORMAT;
        d->n_temperatures++;
    }
    return 0;
}

int load_decision(struct load *l)
{
    struct model_decision *d = &l->m->decision;
    struct gguf_str type = {0};
    int rc = key_str(l, "decision.type", &type);

    if (rc < 0 || type.len == 0)
        return rc;
    load_printable(d->type, sizeof(d->type), type);
    rc = key_u32(l, "decision.max_head_tokens", KEY_OPTIONAL, 1, 1u << 20, &d->max_head_tokens);
    return rc == 0 ? read_temperatures(l) : rc;
}
