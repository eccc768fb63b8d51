/* server/cli/receipt_origin.c - see receipt_origin.h.
 *
 * The members are written directly as JSON text. A loaded model's text does not change, so the
 * server makes it once after loading, and each receipt copies it.
 */
#include "server/cli/receipt_origin.h"

#include "config/config.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/version.h"
#include "core/json/json.h"
#include "core/model/model.h"
#include "core/model/sampling_defaults.h"
#include "server/api/params/request_defaults.h"
#include "server/models/instance.h"

#include <inttypes.h>

static void add_weights(struct buf *out, const struct instance *e)
{
    buf_add_str(out, ",\"weights\":[");
    for (uint32_t i = 0; i < e->n_weights; i++)
        buf_printf(out, "%s\"%s\"", i > 0 ? "," : "", e->weights[i]);
    buf_add_char(out, ']');
}

/* Add the settings that affect tokens. */
static void add_settings(struct buf *out, const struct config *c, uint32_t n_context)
{
    static const char *const names[] = {RECEIPT_SETTINGS};
    char text[32];

    buf_printf(out, ",\"settings\":{\"context\":\"%" PRIu32 "\"", n_context);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        buf_printf(out, ",\"%s\":\"%s\"", names[i], config_show(c, names[i], text, sizeof(text)));
    buf_add_char(out, '}');
}

static void add_sampling(struct buf *out, const struct sampling_defaults *d)
{
    for (uint32_t i = 0; i < SAMPLING_DEFAULT_COUNT; i++)
        if ((d->has >> i & 1) != 0)
            buf_printf(out, "\"%s\":%.17g,", sampling_default_name((enum sampling_default)i),
                       d->value[i]);
}

static void add_thinking(struct buf *out, const struct request_defaults *d)
{
    buf_printf(out, "\"thinking\":%d,\"reasoning_budget\":%" PRId32 ",\"permutations\":%" PRIu32,
               (int)d->thinking, d->reasoning_budget, d->permutations);
    if (d->budget_message != NULL) {
        buf_add_str(out, ",\"reasoning_budget_message\":");
        json_add_cstring(out, d->budget_message);
    }
    if (d->template_kwargs == NULL)
        return;
    buf_add_str(out, ",\"chat_template_kwargs\":");
    json_add_value(out, d->template_kwargs);
}

void receipt_origin_add(struct buf *out, const struct instance *e, const struct config *c,
                        const struct request_defaults *d)
{
    buf_add_str(out, "\"quire\":");
    json_add_cstring(out, quire_version());
    buf_add_char(out, ',');
    receipt_origin_add_model(out, e, c, d);
}

void receipt_origin_add_model(struct buf *out, const struct instance *e, const struct config *c,
                              const struct request_defaults *d)
{
    buf_add_str(out, "\"model\":");
    json_add_cstring(out, e->id);
    add_weights(out, e);
    add_settings(out, c, e->model->shape.n_ctx);
    buf_add_str(out, ",\"defaults\":{");
    add_sampling(out, &e->sampling);
    add_thinking(out, d);
    buf_add_char(out, '}');
}
