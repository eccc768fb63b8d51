/* server/models/instance_draft.c - see instance_draft.h.
 *
 * The draft model is an instance of its own, made from a copy of the model's settings in which all
 * that belongs to requests (adapters, stores, KV events) is off. It is initialised twice: first
 * with INSTANCE_PLAN, to compare the vocabularies and to size its cache before memory is taken,
 * then for real. All errors get the prefix "draft model 'PATH':" in instance_draft_init().
 */
#include "server/models/instance_draft.h"

#include "config/config.h"
#include "config/models.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/hub/cached.h"
#include "core/hub/reference.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "scheduler/drafts/draft_runner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEAST_MEMORY ((uint64_t)1 << 20)

/* ---- settings ---- */

static int replace(char **value, const char *text)
{
    char *copy = mem_strdup(text);

    if (copy == NULL)
        return ERR_NOMEM;
    mem_free(*value);
    *value = copy;
    return 0;
}

int instance_draft_fetch(struct config *c, hub_find_fn *find, char *err, size_t err_len)
{
    char path[HUB_MAX_FOUND];

    if (!hub_reference_is(c->draft))
        return 0;
    if (find(c->draft, path, err, err_len) < 0)
        return ERR_IO;
    if (replace(&c->draft, path) == 0)
        return 0;
    snprintf(err, err_len, "no memory for the path of the draft model");
    return ERR_NOMEM;
}

static int item_of(struct model_item *item, const char *path, char *err, size_t err_len)
{
    *item = (struct model_item){.name = "draft"};
    if ((size_t)snprintf(item->path, sizeof(item->path), "%s", path) < sizeof(item->path))
        return 0;
    snprintf(err, err_len, "draft '%.200s...': the path is too long", path);
    return ERR_RANGE;
}

/* Copy the model's settings, and turn off those that belong to requests. */
static int take_settings(struct config *own, const struct config *c, char *err, size_t err_len)
{
    char text[MODELS_MAX_TEXT];
    struct model_item item;

    if (item_of(&item, c->draft, err, err_len) < 0)
        return ERR_RANGE;
    models_text(&item, text);
    if (config_model(own, c, 0, err, err_len) < 0)
        return ERR_NOMEM;
    own->kv_memory = LEAST_MEMORY;
    own->kv_events = CONFIG_KV_EVENTS_OFF;
    own->speculation = CONFIG_SPECULATION_OFF;
    own->max_batch_tokens = own->prefill_chunk = DRAFT_RUNNER_ROWS;
    if (own->max_sequences > DRAFT_RUNNER_ROWS)
        own->max_sequences = DRAFT_RUNNER_ROWS;
    if (replace(&own->model, text) == 0 && replace(&own->adapters, "") == 0 &&
        replace(&own->adapters_dir, "") == 0 && replace(&own->kv_store, "") == 0 &&
        replace(&own->slot_save_path, "") == 0)
        return 0;
    snprintf(err, err_len, "no memory for the settings of the draft model");
    config_release(own);
    return ERR_NOMEM;
}

/* ---- does the draft model fit the model? ---- */

static bool is_same_token(const struct tokenizer *a, const struct tokenizer *b, int32_t id)
{
    size_t n_a, n_b;
    const char *text_a = tokenizer_piece(a, id, &n_a), *text_b = tokenizer_piece(b, id, &n_b);

    return n_a == n_b && memcmp(text_a, text_b, n_a) == 0 &&
           tokenizer_is_control(a, id) == tokenizer_is_control(b, id);
}

static int32_t n_common(const struct instance *e, const struct instance *draft)
{
    const int32_t n = tokenizer_n_vocab(e->tokenizer), m = tokenizer_n_vocab(draft->tokenizer);

    return n < m ? n : m;
}

/* Compare the tokens of the ids that both vocabularies have: those of one family may be padded to
 * different sizes. */
static int check_vocabulary(const struct instance *e, const struct instance *draft, char *err,
                            size_t err_len)
{
    for (int32_t id = 0; id < n_common(e, draft); id++)
        if (!is_same_token(e->tokenizer, draft->tokenizer, id)) {
            snprintf(err, err_len,
                     "its token %d differs from the model's: the two must have the same vocabulary",
                     id);
            return ERR_INVAL;
        }
    return 0;
}

static int check_draft(const struct instance *e, const struct instance *draft, char *err,
                       size_t err_len)
{
    if (e->model->shape.is_encoder) {
        snprintf(err, err_len,
                 "the model '%s' is an encoder, for which there is no speculative decoding", e->id);
        return ERR_UNSUPPORTED;
    }
    if (kv_manager_has_states(draft->manager)) {
        snprintf(err, err_len, "its recurrent states cannot be restored after a rejected draft");
        return ERR_UNSUPPORTED;
    }
    return check_vocabulary(e, draft, err, err_len);
}

/* ---- loading ---- */

/* Return the memory for as many tokens as the model's cache holds. */
static uint64_t kv_memory_for(const struct instance *e, const struct instance *draft)
{
    const uint64_t n_tokens = kv_groups_most_tokens(&e->cache.groups, e->cache.n_blocks);
    const uint64_t n_blocks = block_table_needed((uint32_t)n_tokens) * draft->cache.groups.n;
    const uint64_t bytes = n_blocks * draft->kv->block_stride;

    return bytes > LEAST_MEMORY ? bytes : LEAST_MEMORY;
}

/* Plan the draft model: check that it fits, and choose the memory of its cache. */
static int look_at_draft(struct config *own, const struct instance *e, const struct config *c,
                         char *err, size_t err_len)
{
    struct instance draft;
    int code;

    own->prefix_pin_memory = 0; /* clients pin prefixes of the model that they ask for */
    code = instance_init(&draft, own, INSTANCE_PLAN, err, err_len);
    if (code != EXIT_OK)
        return code;
    if (check_draft(e, &draft, err, err_len) < 0)
        code = EXIT_USAGE;
    else
        own->kv_memory = c->draft_kv_memory > 0 ? c->draft_kv_memory : kv_memory_for(e, &draft);
    instance_release(&draft);
    return code;
}

static int make_runner(struct instance_draft *d, const struct instance *e, char *err,
                       size_t err_len)
{
    struct draft_runner_options options = {
        .runner = d->engine.runner,
        .kv = d->engine.kv,
        .manager = d->engine.manager,
        .max_sequences = e->sched.max_sequences,
        .max_context = d->engine.sched.max_context,
        .n_vocab = (uint32_t)n_common(e, &d->engine),
        .weight = (double)d->engine.model->weight_bytes / (double)e->model->weight_bytes,
    };
    int rc;

    options.eog = tokenizer_eog(e->tokenizer, &options.n_eog);
    rc = draft_runner_create(&d->runner, &options);
    if (rc < 0)
        snprintf(err, err_len, "no memory for its %u sequences", options.max_sequences);
    return rc;
}

static int load_draft(struct instance_draft *d, const struct instance *e, struct config *own,
                      unsigned flags, const struct instance_company *company, char *err,
                      size_t err_len)
{
    const int code = instance_init_among(&d->engine, own, flags, company, err, err_len);

    if (code != EXIT_OK || (flags & INSTANCE_PLAN) != 0)
        return code;
    return make_runner(d, e, err, err_len) < 0 ? EXIT_FAILED : EXIT_OK;
}

int instance_draft_init(struct instance_draft *d, const struct instance *e, const struct config *c,
                        unsigned flags, const struct instance_company *company, char *err,
                        size_t err_len)
{
    char why[512];
    struct config own;
    int code;

    *d = (struct instance_draft){0};
    if (c->draft[0] == '\0' || c->speculation == CONFIG_SPECULATION_OFF)
        return EXIT_OK;
    if (take_settings(&own, c, err, err_len) < 0)
        return EXIT_FAILED;
    code = look_at_draft(&own, e, c, why, sizeof(why));
    if (code == EXIT_OK)
        code = load_draft(d, e, &own, flags, company, why, sizeof(why));
    if (code != EXIT_OK) {
        snprintf(err, err_len, "draft model '%.200s': %s", c->draft, why);
        instance_draft_release(d);
    }
    config_release(&own);
    return code;
}

void instance_draft_release(struct instance_draft *d)
{
    draft_runner_destroy(&d->runner);
    instance_release(&d->engine);
}
