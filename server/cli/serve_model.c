/* server/cli/serve_model.c - see serve_model.h.
 *
 * served_load() makes the parts of a model in the order of their dependencies: the instance (file,
 * weights, cache, runner) and its draft model, then chat template, adapters, constraints, queue,
 * block store, publisher of KV events, and finally the engine loop with its thread.
 * release_loaded() destroys them in reverse; every part may be missing, so it is also what a failed
 * load calls. The info that the server reads (struct server_model) is filled in two steps: from the
 * settings, and after a load from the parts.
 */
#include "server/cli/serve_model.h"

#include "config/adapters.h"
#include "config/duration.h"
#include "config/endpoints.h"
#include "config/models.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/fixed_text.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/hub/cached.h"
#include "core/hub/reference.h"
#include "core/model/model.h"
#include "core/runtime/runner.h"
#include "core/tokenizer/tokenizer.h"
#include "scheduler/drafts/draft_runner.h"
#include "scheduler/engine_loop.h"
#include "kvcache/block_offers.h"
#include "kvcache/kv_store.h"
#include "scheduler/journal.h"
#include "scheduler/drafts/mtp_drafter.h"
#include "scheduler/prefix_fetch.h"
#include "server/adapters/adapter_set.h"
#include "server/api/chat/chat.h"
#include "server/api/constraint/constraint_cache.h"
#include "server/api/decisions/decision_model.h"
#include "server/cli/low_priority.h"
#include "server/cli/model_files.h"
#include "server/cli/receipt_origin.h"
#include "server/engine_io/block_store.h"
#include "server/engine_io/store_place.h"
#include "server/kv_events/kv_event_publisher.h"

#include <stdatomic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* Limits of the cache of compiled constraints, each of which may need a megabyte with a large
 * vocabulary. */
#define CONSTRAINT_CACHE_ENTRIES 256
#define CONSTRAINT_CACHE_BYTES ((size_t)128 << 20)
#define MAX_ORIGIN ((size_t)1 << 20) /* most bytes of the text for receipts */

/* ---- before it is loaded ---- */

_Static_assert(CONFIG_LOAD_DEMAND - CONFIG_LOAD_START == (int)SERVER_LOAD_DEMAND &&
                   CONFIG_LOAD_NEVER - CONFIG_LOAD_START == (int)SERVER_LOAD_NEVER,
               "times of a load are in the order of their words, behind auto");

/* Parse the setting idle_unload, which has been checked. */
static uint64_t idle_us(const char *setting)
{
    uint64_t us = DURATION_NEVER;

    return setting[0] != '\0' && duration_parse(setting, &us) == 0 ? us : DURATION_NEVER;
}

static struct server_model info_before(const struct served *m)
{
    const struct config *c = &m->config;

    return (struct server_model){
        .id = m->id,
        .aliases = c->alias,
        .share = (uint32_t)c->share,
        .max_sequences = (uint32_t)c->max_sequences,
        .max_batch_tokens = (uint32_t)c->max_batch_tokens,
        .max_outstanding = (uint32_t)(c->max_sequences + c->queue_limit),
        .request_timeout_s = (uint32_t)c->request_timeout,
        .makes_drafts = c->speculation == CONFIG_SPECULATION_AUTO,
        .shifts_context = c->context_shift == CONFIG_ON,
        .max_queue_ms = (uint32_t)c->max_queue_ms,
        .journal_path = c->journal[0] != '\0' ? c->journal : NULL,
        .journal = m->journal,
        .kv_events = m->publisher,
        .load = (enum server_load_when)(c->load - CONFIG_LOAD_START),
        .idle_unload_us = idle_us(c->idle_unload),
        .is_pinned = c->keep_loaded == CONFIG_ON,
        .stays = m->publisher != NULL,
        .adapter_list = c->adapters,
        .created = (int64_t)time(NULL),
        .file_time = m->file_time,
        .arch = "",
        .ftype = "",
        .kv_type = "",
        .isa = "",
        .request_defaults = &m->defaults,
    };
}

/* ---- KV events ---- */

/* Return the endpoint of model i for the setting, which has been checked; the host is in *e. */
static struct kv_event_endpoint endpoint_of(const char *setting, uint32_t i, struct endpoint *e)
{
    if (setting[0] == '\0' || endpoint_parse(setting, e) < 0)
        return (struct kv_event_endpoint){0};
    return (struct kv_event_endpoint){e->host, (uint16_t)(e->port > 0 ? e->port + i : 0)};
}

/* Copy the setting with {host} and {model} filled in. */
static void fill_topic(char *out, size_t size, const char *setting, const char *model)
{
    struct fixed_text topic;
    char host[256] = "";

    (void)gethostname(host, sizeof(host) - 1);
    fixed_text_init(&topic, out, size);
    while (*setting != '\0') {
        const bool is_host = strncmp(setting, "{host}", 6) == 0;
        const bool is_model = strncmp(setting, "{model}", 7) == 0;

        if (is_host || is_model)
            fixed_text_add(&topic, "%s", is_host ? host : model);
        else
            fixed_text_add(&topic, "%c", *setting);
        setting += is_host ? 6 : is_model ? 7 : 1;
    }
}

/* Each model has its own sockets: readers count the batches of a socket, whatever their topic. */
static int open_publisher(struct served *m, uint32_t i, char *err, size_t err_len)
{
    const struct config *c = &m->config;
    struct endpoint publish, replay;
    char topic[1024];
    struct kv_event_publisher_options options = {
        .publish = endpoint_of(c->kv_events_endpoint, i, &publish),
        .replay = endpoint_of(c->kv_events_replay_endpoint, i, &replay),
        .hwm = (uint32_t)c->kv_events_hwm,
        .buffer_steps = (uint32_t)c->kv_events_buffer_steps,
        .has_tokens = c->kv_events == CONFIG_KV_EVENTS_FULL,
    };

    if (c->kv_events == CONFIG_KV_EVENTS_OFF)
        return 0;
    if (c->prefix_cache == CONFIG_OFF) {
        snprintf(err, err_len,
                 "'kv_events' publishes the prefix cache, so it needs prefix_cache = on");
        return ERR_INVAL;
    }
    fill_topic(topic, sizeof(topic), c->kv_events_topic, m->id);
    options.topic = topic;
    return kv_event_publisher_open(&m->publisher, &options, err, err_len);
}

/* ---- defaults of requests ---- */

static int read_request_defaults(struct request_defaults *out, const struct config *c, char *err,
                                 size_t err_len)
{
    static const enum thinking thinking[] = {[CONFIG_REASONING_AUTO] = THINKING_UNSET,
                                             [CONFIG_REASONING_ON] = THINKING_ON,
                                             [CONFIG_REASONING_OFF] = THINKING_OFF};

    *out = (struct request_defaults){
        .has_seed = !isnan(c->seed),
        .seed = isnan(c->seed) ? 0 : (uint64_t)c->seed,
        .thinking = thinking[c->reasoning],
        .reasoning_budget = (int32_t)c->reasoning_budget,
        .permutations = (uint32_t)c->permutations,
    };
    if (request_defaults_take_message(out, c->reasoning_budget_message) < 0) {
        snprintf(err, err_len, "out of memory");
        return ERR_NOMEM;
    }
    return request_defaults_take_kwargs(out, c->chat_template_kwargs, err, err_len);
}

/* Append an adapter to a list; one of the Hub with its path in the cache. */
static int add_fetched(struct buf *list, const struct model_item *item, hub_find_fn *find,
                       char *err, size_t err_len)
{
    char path[HUB_MAX_FOUND];

    snprintf(path, sizeof(path), "%s", item->path);
    if (hub_reference_is(item->path) && find(item->path, path, err, err_len) < 0)
        return ERR_IO;
    if (strchr(path, ',') != NULL) {
        snprintf(err, err_len,
                 "%.200s: the path of an adapter must not contain a comma: set HF_HUB_CACHE to "
                 "another folder",
                 path);
        return ERR_INVAL;
    }
    buf_printf(list, "%s%s=%s", list->len > 0 ? "," : "", item->name, path);
    return 0;
}

static int fetch_adapters(struct config *c, hub_find_fn *find, char *err, size_t err_len)
{
    const char *text = c->adapters;
    struct model_item item;
    struct buf list;
    char *fetched;
    int rc;

    buf_init(&list, ADAPTERS_MAX * sizeof(item));
    while ((rc = adapters_next(&text, &item, err, err_len)) > 0)
        if ((rc = add_fetched(&list, &item, find, err, err_len)) < 0)
            break;
    fetched = rc == 0 && list.len > 0 && list.err == 0 ? mem_strdup(list.data) : NULL;
    if (rc == 0 && list.len > 0 && fetched == NULL) {
        snprintf(err, err_len, "no memory for the list of adapters");
        rc = ERR_NOMEM;
    }
    buf_release(&list);
    if (fetched == NULL)
        return rc;
    mem_free(c->adapters);
    c->adapters = fetched;
    return 0;
}

int served_settings_read(struct served_settings *out, const struct config *c, uint32_t i,
                         hub_find_fn *find, char *err, size_t err_len)
{
    struct model_item item;

    *out = (struct served_settings){0};
    if (config_model(&out->config, c, i, err, err_len) < 0)
        return EXIT_FAILED; /* no memory */
    models_get(out->config.model, 0, &item);
    out->file_time = model_files_time(item.path);
    if (fetch_adapters(&out->config, find, err, err_len) == 0 &&
        instance_draft_fetch(&out->config, find, err, err_len) == 0 &&
        read_request_defaults(&out->defaults, &out->config, err, err_len) == 0)
        return EXIT_OK;
    served_settings_release(out);
    return EXIT_FAILED;
}

void served_settings_release(struct served_settings *s)
{
    request_defaults_release(&s->defaults);
    if (s->config.source != NULL)
        config_release(&s->config);
    *s = (struct served_settings){0};
}

struct server_model served_info(const struct served *m)
{
    return info_before(m);
}

void served_refresh(struct served *m)
{
    m->info = info_before(m);
}

static void take_settings(struct served *m, struct served_settings *from)
{
    m->config = from->config;
    m->defaults = from->defaults;
    m->file_time = from->file_time;
    *from = (struct served_settings){0};
    served_refresh(m);
}

void served_take_next(struct served *m)
{
    struct served_settings old = {m->config, m->defaults, m->file_time};

    if (!m->has_next)
        return;
    m->has_next = false;
    take_settings(m, &m->next);
    served_settings_release(&old);
}

int served_init(struct served *m, const struct config *c, uint32_t i, hub_find_fn *find, char *err,
                size_t err_len)
{
    struct served_settings settings;
    int code = served_settings_read(&settings, c, i, find, err, err_len), rc;

    *m = (struct served){0};
    if (code != EXIT_OK)
        return code;
    instance_name_model(settings.config.model, m->id, sizeof(m->id));
    take_settings(m, &settings);
    if (m->config.journal[0] != '\0' && journal_create(&m->journal, JOURNAL_BYTES) < 0) {
        snprintf(err, err_len, "no memory for the journal of '%s'", m->id);
        return EXIT_FAILED;
    }
    rc = open_publisher(m, i, err, err_len);
    if (rc < 0)
        return rc == ERR_INVAL || rc == ERR_UNSUPPORTED ? EXIT_USAGE : EXIT_FAILED;
    served_refresh(m);
    return EXIT_OK;
}

/* ---- loading ---- */

/* A thread of the block store that hangs is abandoned, and the memory that it uses is not freed. */
static void release_loaded(struct served *m)
{
    engine_loop_destroy(&m->loop);
    mtp_drafter_destroy(&m->mtp);
    (void)block_store_close(&m->store);
    queue_destroy(&m->queue);
    constraint_cache_destroy(&m->constraint_cache);
    adapter_set_destroy(&m->adapters); /* no request holds an adapter any more */
    chat_destroy(&m->chat);
    decision_model_destroy(&m->decider);
    buf_release(&m->receipt_origin);
    instance_draft_release(&m->draft);
    instance_release(&m->engine);
}

static int make_queue(struct served *m, const struct served_company *company)
{
    const uint32_t max_outstanding = m->info.max_outstanding + SERVER_DRY_RUNS;
    const struct queue_options options = {
        .max_outstanding = max_outstanding,
        .max_tenants = m->engine.sched.max_tenants,
        .n_blocks = m->engine.cache.n_blocks,
        /* Room for the events of a step, and for the ends of all requests at once when the reader
         * has stopped. */
        .max_events = 2 * m->engine.sched.max_batch_tokens + max_outstanding,
        .wake = company->wake,
        .wake_ud = company->wake_ud,
    };

    return queue_create(&m->queue, &options);
}

static void on_room(void *ud)
{
    queue_wake(ud);
}

/* An encoder has no prefix cache, so it has no events to publish. */
static int start_publisher(struct served *m)
{
    if (m->publisher == NULL || m->engine.events == NULL)
        return 0;
    kv_events_on_room(m->engine.events, on_room, m->queue);
    return kv_event_publisher_start(m->publisher, m->engine.events, m->engine.cache.n_blocks);
}

/* ---- the block store ---- */

/* Must be called before the loop is made: the scheduler needs the store's sizes. */
static int open_store(struct served *m, const struct served_company *company, char *err,
                      size_t err_len)
{
    const struct block_store_options options = {
        .place = company->place,
        .max_bytes = m->config.kv_store_size,
        .write_rate = m->config.kv_store_rate,
        .wait_ms = (uint32_t)m->config.kv_store_wait_ms,
        .max_prompts = m->info.max_outstanding,
        .form = instance_record_form(&m->engine),
        .kv = m->engine.kv,
    };
    char id[280], place[300];
    int rc;

    if (!company->place->is_on)
        return 0;
    log_quote(id, sizeof(id), m->id);
    if (!kv_manager_can_enter(m->engine.manager)) {
        log_warn("store",
                 "event=off model=%s reason=\"kv_store supports only models without sliding "
                 "windows and recurrent states, with prefix_cache = on\"",
                 id);
        return 0;
    }
    rc = block_store_open(&m->store, &options, err, err_len);
    if (rc < 0)
        return rc;
    kv_manager_set_offers(m->engine.manager, block_store_offers(m->store));
    prefix_fetch_attach(block_store_fetch(m->store), m->queue);
    m->engine.sched.store_blocks = options.form.n_blocks;
    m->engine.sched.store_wait_ms = options.wait_ms;
    log_info("store", "event=open model=%s place=%s record_tokens=%u record_bytes=%zu", id,
             store_place_name(company->place, place, sizeof(place)),
             options.form.n_blocks * BLOCK_TOKENS, kv_record_bytes(&options.form));
    return 0;
}

/* Make the drafter that uses the model's own layer for multi-token prediction. */
static int make_mtp(struct served *m, struct engine_loop_options *o)
{
    const struct mtp_drafter_options options = {.runner = m->engine.runner,
                                                .eog = o->eog,
                                                .n_eog = o->n_eog,
                                                .weight = runner_guess_weight(m->engine.model)};
    int rc;

    if (!m->engine.model->has_mtp)
        return 0;
    rc = mtp_drafter_create(&m->mtp, &options);
    if (rc < 0)
        return rc;
    o->draft_model = mtp_drafter_get(m->mtp);
    o->draft_model_costs = mtp_drafter_costs(m->mtp);
    return 0;
}

static int start_loop(struct served *m, const struct served_company *company)
{
    struct engine_loop_options options = {
        .queue = m->queue,
        .sched = m->engine.sched,
        .runner = m->engine.runner,
        .kv_options = &m->engine.cache,
        .kv = m->engine.kv,
        .swap = m->engine.swap,
        .states = m->engine.states,
        .fetch = m->store != NULL ? block_store_fetch(m->store) : NULL,
        .step_target_ms = (uint32_t)m->config.step_target_ms,
        .makes_drafts = m->info.makes_drafts,
        .draft_history = instance_draft_history(&m->engine, &m->config),
        .arbiter = company->arbiter,
        .engine = company->index,
        .journal = m->journal,
    };
    int rc;

    if (m->draft.runner != NULL) {
        options.draft_model = draft_runner_get(m->draft.runner);
        options.draft_model_costs = draft_runner_costs(m->draft.runner);
    }
    options.eog = tokenizer_eog(m->engine.tokenizer, &options.n_eog);
    rc = make_mtp(m, &options);
    if (rc == 0)
        rc = engine_loop_create(&m->loop, &options);
    if (rc == 0)
        rc = engine_loop_start(m->loop);
    if (rc < 0)
        engine_loop_destroy(&m->loop);
    return rc;
}

static int make_chat(struct served *m, char *err, size_t err_len)
{
    const struct chat_options options = {.template = m->config.chat_template,
                                         .name = m->config.chat_template_name,
                                         .special_in_messages =
                                             m->config.special_in_messages == CONFIG_ON,
                                         .tool_call_parser = m->config.tool_call_parser,
                                         .reasoning_parser = m->config.reasoning_parser};
    int rc = chat_create(&m->chat, &options, m->engine.tokenizer, err, err_len);
    char id[280], origin[300], complaint[300], parser[80];

    if (rc == 0)
        rc = request_defaults_check_message(&m->defaults, m->engine.tokenizer, err, err_len);
    if (rc < 0)
        return rc;
    log_quote(id, sizeof(id), m->id);
    log_quote(origin, sizeof(origin), chat_origin(m->chat));
    if (chat_complaint(m->chat) != NULL)
        log_warn("main", "chat_template=%s unusable=%s model=%s", origin,
                 log_quote(complaint, sizeof(complaint), chat_complaint(m->chat)), id);
    else
        log_info("main", "chat_template=%s tool_call_parser=%s model=%s", origin,
                 log_quote(parser, sizeof(parser), chat_tool_parser(m->chat)), id);
    return 0;
}

static int make_decider(struct served *m)
{
    const int rc = decision_model_create(&m->decider, m->engine.model, m->engine.tokenizer);
    char id[280], type[80], complaint[400];

    if (rc < 0 || m->decider == NULL)
        return rc;
    log_quote(id, sizeof(id), m->id);
    log_quote(type, sizeof(type), decision_model_type(m->decider));
    if (decision_model_complaint(m->decider) != NULL)
        log_warn("main", "decisions=%s unusable=%s model=%s", type,
                 log_quote(complaint, sizeof(complaint), decision_model_complaint(m->decider)), id);
    else
        log_info("main", "decisions=%s model=%s", type, id);
    return 0;
}

static int make_constraint_cache(struct served *m)
{
    const struct constraint_cache_options options = {.tokenizer = m->engine.tokenizer,
                                                     .max_entries = CONSTRAINT_CACHE_ENTRIES,
                                                     .max_bytes = CONSTRAINT_CACHE_BYTES};

    return constraint_cache_create(&m->constraint_cache, &options);
}

static int make_adapters(struct served *m, char *err, size_t err_len)
{
    const struct adapter_set_options options = {.list = m->config.adapters,
                                                .folder = m->config.adapters_dir,
                                                .max_bytes = m->config.adapter_memory,
                                                .model = m->engine.model};

    if (options.list[0] == '\0' && options.folder[0] == '\0')
        return 0;
    return adapter_set_create(&m->adapters, &options, err, err_len);
}

static int make_receipt_origin(struct served *m)
{
    buf_init(&m->receipt_origin, MAX_ORIGIN);
    if (m->engine.weights != NULL)
        receipt_origin_add(&m->receipt_origin, &m->engine, &m->config, &m->defaults);
    return m->receipt_origin.err;
}

/* Identify what answers depend on, by a hash. The chat template is not included: it has no effect
 * after the ids of a prompt are known. */
static int identify_answers(struct served *m)
{
    struct buf text;
    int rc;

    buf_init(&text, MAX_ORIGIN);
    receipt_origin_add_model(&text, &m->engine, &m->config, &m->defaults);
    buf_add(&text, &m->engine.weights_id, sizeof(m->engine.weights_id));
    rc = text.err;
    if (rc == 0)
        m->info.origin_id = XXH3_64bits(text.data, text.len);
    buf_release(&text);
    return rc;
}

/* ---- reading, packing ---- */

struct reading {
    struct served *m;
    const struct served_company *company;
    char *err;
    size_t err_len;
    int code;
};

static void read_model(void *ud)
{
    struct reading *r = ud;
    struct served *m = r->m;
    const struct instance_company among = {
        .pool = r->company->pool, .numa = r->company->numa, .progress = &m->progress};

    r->code = instance_init_among(&m->engine, &m->config, INSTANCE_SWAP | INSTANCE_ENCODERS, &among,
                                  r->err, r->err_len);
    if (r->code == EXIT_OK)
        r->code =
            instance_draft_init(&m->draft, &m->engine, &m->config, 0, &among, r->err, r->err_len);
}

static int start_engine(struct served *m, const struct served_company *company, char *err,
                        size_t err_len)
{
    int rc;

    if (make_chat(m, err, err_len) < 0 || make_adapters(m, err, err_len) < 0)
        return EXIT_FAILED;
    rc = make_constraint_cache(m);
    if (rc == 0)
        rc = make_decider(m);
    if (rc == 0)
        rc = make_receipt_origin(m);
    if (rc == 0)
        rc = identify_answers(m);
    if (rc == 0)
        rc = make_queue(m, company);
    if (rc == 0 && open_store(m, company, err, err_len) < 0)
        return EXIT_FAILED;
    if (rc == 0)
        rc = start_publisher(m);
    if (rc == 0)
        rc = start_loop(m, company);
    if (rc == 0)
        return EXIT_OK;
    snprintf(err, err_len, "cannot start the engine: %s", err_text(rc));
    return EXIT_FAILED;
}

int served_load(struct served *m, const struct served_company *company, char *err, size_t err_len)
{
    struct reading r = {m, company, err, err_len, EXIT_FAILED};
    int code;

    atomic_store_explicit(&m->progress.permille, 0, memory_order_relaxed);
    if (company->is_beside)
        low_priority_run(read_model, &r);
    else
        read_model(&r);
    code = r.code;
    if (code == EXIT_OK)
        code = start_engine(m, company, err, err_len);
    if (code != EXIT_OK)
        release_loaded(m);
    return code;
}

uint32_t served_permille(const struct served *m)
{
    return atomic_load_explicit(&m->progress.permille, memory_order_relaxed);
}

/* ---- afterwards ---- */

/* Return the pooling of the setting, or by default that of the file. */
static enum pooling pooling_of(enum config_pooling setting, const struct model_shape *s)
{
    const bool is_auto = setting == CONFIG_POOLING_AUTO || setting == CONFIG_POOLING_NONE;

    const bool is_head = is_auto && s->n_labels > 0 && s->n_token_out[TOKEN_HEAD_LABELS] == 0 &&
                         s->head_kind != HEAD_LAST;

    if (setting == CONFIG_POOLING_MEAN || (is_auto && s->pooling_type == 1) ||
        (is_head && s->pooling_type != 2 && s->head_kind == HEAD_MEAN))
        return POOLING_MEAN;
    if (setting == CONFIG_POOLING_FIRST || (is_auto && s->pooling_type == 2) || is_head)
        return POOLING_FIRST;
    return POOLING_LAST;
}

/* True: only tokens have vectors, because the file has a head for these and no pooling, and the
 * setting asks for none. */
static bool is_late(enum config_pooling setting, const struct model_shape *s)
{
    return s->n_token_out[TOKEN_HEAD_VECTOR] > 0 && s->pooling_type == 0 &&
           (setting == CONFIG_POOLING_AUTO || setting == CONFIG_POOLING_NONE);
}

/* Set the labels. If there is one label, it is the score of relevance; of several it is the label
 * "yes", if there is one. */
static void complete_labels(struct server_model *f, const struct model *m)
{
    f->n_token_labels = m->shape.n_token_out[TOKEN_HEAD_LABELS];
    f->n_labels = f->n_token_labels > 0 || m->decision.type[0] != '\0' ? 0 : m->shape.n_labels;
    f->n_token_vector = m->shape.n_token_out[TOKEN_HEAD_VECTOR];
    f->skips_bos = m->shape.skips_bos;
    f->has_weights = m->shape.n_token_out[TOKEN_HEAD_WEIGHT] > 0;
    f->labels = m->labels;
    f->is_cross = f->n_labels == 1;
    for (uint32_t i = 0; f->labels != NULL && i < f->n_labels && !f->is_cross; i++) {
        f->is_cross = strcmp(f->labels[i], "yes") == 0;
        f->yes_label = i;
    }
}

static void complete_model(struct server_model *f, const struct model *m)
{
    f->arch = m->arch;
    f->ftype = m->ftype;
    f->n_vocab = m->shape.n_vocab;
    f->n_ctx_train = m->shape.n_ctx_train;
    f->n_embd = m->shape.n_embd;
    f->n_params = m->n_params;
    f->size = m->file_bytes;
    f->is_encoder = m->shape.is_encoder;
    f->only_decides = m->shape.n_head_layers > 0;
    complete_labels(f, m);
}

static void complete_engine(struct server_model *f, const struct instance *e)
{
    f->max_sequences = e->sched.max_sequences;
    f->max_context = e->sched.max_context;
    f->max_kv_tokens = kv_groups_most_tokens(&e->cache.groups,
                                             e->cache.n_blocks - e->cache.pins.most_blocks);
    f->n_blocks = e->cache.n_blocks;
    f->block_tokens = BLOCK_TOKENS;
    f->kv_type = kern_kv_name(e->kv_type);
    f->threads = e->threads;
    f->kv_id[0] = e->kv_id[0];
    f->kv_id[1] = e->kv_id[1];
    f->prefill_chunk = e->sched.prefill_chunk;
    f->shares_prefixes = e->cache.prefix_cache;
    f->pins_prefixes = e->cache.pins.most_blocks > 0;
    f->tokenizer = e->tokenizer;
    f->swap = e->swap;
    f->isa = kern_isa_name(e->isa);
}

void served_complete(struct served *m)
{
    complete_model(&m->info, m->engine.model);
    complete_engine(&m->info, &m->engine);
    m->info.pooling = pooling_of(m->config.pooling, &m->engine.model->shape);
    m->info.keeps_tokens = m->config.pooling == CONFIG_POOLING_NONE;
    m->info.is_late = is_late(m->config.pooling, &m->engine.model->shape);
    m->info.load_us = m->load_us;
    m->info.bytes = m->bytes;
    m->info.sampling = &m->engine.sampling;
    m->info.chat = m->chat;
    m->info.decider = m->decider;
    m->info.constraint_cache = m->constraint_cache;
    m->info.adapters = m->adapters;
    m->info.receipt_origin = m->receipt_origin.len > 0 ? m->receipt_origin.data : NULL;
    m->info.fetch = m->store != NULL ? block_store_fetch(m->store) : NULL;
}

void served_stop(struct served *m)
{
    if (m->loop != NULL)
        queue_close(m->queue, true);
}

void served_join(struct served *m)
{
    if (m->loop != NULL)
        engine_loop_join(m->loop);
    kv_event_publisher_stop(m->publisher); /* it may wake the engine, so the queue must still
                                            * exist */
}

void served_flush(struct served *m)
{
    if (m->store != NULL)
        block_store_flush(m->store, (uint32_t)m->config.kv_store_flush_ms);
}

void served_unload(struct served *m)
{
    served_stop(m);
    served_join(m);
    served_flush(m);
    release_loaded(m);
    mem_trim();
}

void served_release(struct served *m)
{
    kv_event_publisher_close(&m->publisher);
    release_loaded(m);
    journal_destroy(&m->journal);
    request_defaults_release(&m->defaults);
    if (m->config.source != NULL)
        config_release(&m->config);
    served_settings_release(&m->next);
}
