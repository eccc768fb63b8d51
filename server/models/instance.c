/* server/models/instance.c - see instance.h.
 *
 * instance_init() builds the parts in the order in which they depend on each other: threads, file,
 * tokenizer and model, cache, runner; after a failure instance_release() frees the parts that
 * exist, because all may be NULL. The commands call it before they serve; for models that are
 * loaded on demand a thread of the model pool does. The GGUF is closed once its weights are packed,
 * after a last check that nobody wrote to it.
 */
#include "server/models/instance_impl.h"

#include "config/config.h"
#include "config/demo.h"
#include "config/models.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/version.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/hf/model.h"
#include "core/formats/model_folder.h"
#include "core/model/model.h"
#include "core/model/weight_cache.h"
#include "core/runtime/runner.h"
#include "core/runtime/thread_pool.h"
#include "core/tokenizer/tokenizer.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "kvcache/state_store.h"
#include "kvcache/swap_store.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* A progress bar on a terminal, redrawn only when the whole per cent changes. */
struct progress {
    uint64_t start_ms;
    int shown;
    struct instance_progress *told; /* or NULL */
};

static void show_progress(void *ud, uint64_t done, uint64_t total)
{
    static const char bar[] = "##############################";
    struct progress *p = ud;
    const int percent = total > 0 ? (int)(done * 100 / total) : 100;
    const int n = percent * 30 / 100;

    if (p->told != NULL && total > 0)
        atomic_store_explicit(&p->told->permille, (uint32_t)((double)done * 1000 / (double)total),
                              memory_order_relaxed); /* only displayed, so relaxed order suffices */
    if (percent == p->shown || !isatty(STDERR_FILENO) || clock_ms() - p->start_ms < 200)
        return;
    p->shown = percent;
    fprintf(stderr, "\rpacking weights [%-30.*s] %3d %%%s", n, bar, percent,
            percent == 100 ? "\r\033[K" : "");
}

static int open_folder(struct gguf **out, const char *folder, const char *pre, char *err,
                       size_t err_len)
{
    char path[MODEL_FOLDER_MAX_PATH];
    bool is_hf;
    const int rc = model_folder_find(folder, path, &is_hf, err, err_len);

    *out = NULL;
    if (rc < 0)
        return rc;
    return is_hf ? hf_model_open(out, path, pre, err, err_len)
                 : gguf_open(out, path, err, err_len);
}

static int open_any(struct gguf **out, const char *path, const char *pre, char *err,
                    size_t err_len)
{
    size_t bytes;
    const void *data;

    if (model_folder_is(path))
        return open_folder(out, path, pre, err, err_len);
    if (path[0] != '\0')
        return gguf_open(out, path, err, err_len);
    data = demo_model(&bytes);
    return gguf_open_memory(out, "the built-in demo model", data, bytes, err, err_len);
}

int instance_open_gguf(struct gguf **out, const char *path, const char *pre, char *err,
                       size_t err_len)
{
    const int rc = open_any(out, path, pre, err, err_len);

    if (rc == 0)
        hold_here("QUIRE_DEBUG_HOLD_READ");
    return rc;
}

_Static_assert(CONFIG_ISA_SCALAR - CONFIG_ISA_SCALAR == (int)KERN_ISA_SCALAR &&
                   CONFIG_ISA_AVX2 - CONFIG_ISA_SCALAR == (int)KERN_ISA_AVX2 &&
                   CONFIG_ISA_AVXVNNI - CONFIG_ISA_SCALAR == (int)KERN_ISA_AVXVNNI &&
                   CONFIG_ISA_AVX512 - CONFIG_ISA_SCALAR == (int)KERN_ISA_AVX512 &&
                   CONFIG_ISA_AMX - CONFIG_ISA_SCALAR == (int)KERN_ISA_AMX &&
                   CONFIG_ISA_NEON - CONFIG_ISA_SCALAR == (int)KERN_ISA_NEON &&
                   CONFIG_ISA_DOTPROD - CONFIG_ISA_SCALAR == (int)KERN_ISA_DOTPROD &&
                   CONFIG_ISA_I8MM - CONFIG_ISA_SCALAR == (int)KERN_ISA_I8MM,
               "levels are in the order of their words, behind auto");

static int choose_isa(struct instance *e, enum config_isa setting, char *err, size_t err_len)
{
    const enum kern_isa best = kern_isa_best();

    if (best < kern_isa_of_cpu())
        log_warn("engine", "event=built-for-another-cpu isa=%s cpu=%s hint=\"build it with make\"",
                 kern_isa_name(best), kern_isa_name(kern_isa_of_cpu()));
    e->isa = setting == CONFIG_ISA_AUTO ? best : (enum kern_isa)(setting - CONFIG_ISA_SCALAR);
    if (kern_isa_exists(e->isa))
        return 0;
    snprintf(err, err_len,
             "isa '%s' is not available on this CPU; quire --version lists the available ones",
             kern_isa_name(e->isa));
    return ERR_UNSUPPORTED;
}

/* Replace bytes that are not UTF-8 by '?': a file may have any name, but JSON and metrics need
 * UTF-8. */
static void replace_broken(char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        const size_t len = utf8_len((const uint8_t *)text, n);

        if (len == 0)
            *text = '?';
        text += len > 0 ? len : 1;
        n -= len > 0 ? len : 1;
    }
}

void instance_name_model(const char *list, char *id, size_t size)
{
    struct model_item item;

    models_get(list, 0, &item);
    snprintf(id, size, "%s", item.name);
    replace_broken(id);
}

int instance_one_model(struct model_item *out, const char *list, char *err, size_t err_len)
{
    const int n = models_check(list, err, err_len);
    char names[256]; /* a longer list of names is cut */

    if (n < 0)
        return EXIT_USAGE;
    models_get(list, 0, out);
    if (n == 1)
        return EXIT_OK;
    models_names(list, names, sizeof(names));
    snprintf(err, err_len,
             "'model' lists %d models (%s), but this command uses one at a time: choose it with "
             "--model PATH",
             n, names);
    return EXIT_USAGE;
}

/* Choose the folder of packed weights. *out NULL: no cache; "": beside the model; else a folder
 * that exists. */
static int choose_weight_cache(const struct config *c, const char **out, char *err, size_t err_len)
{
    struct stat st;

    *out = NULL;
    if (strcmp(c->weight_cache, "off") == 0 || c->weight_cache[0] == '\0')
        return 0;
    *out = strcmp(c->weight_cache, "on") == 0 ? "" : c->weight_cache;
    if ((*out)[0] == '\0' || (stat(*out, &st) == 0 && S_ISDIR(st.st_mode)))
        return 0;
    snprintf(err, err_len, "weight_cache must be off, on or an existing folder, got '%s'", *out);
    return ERR_INVAL;
}

/* The model item that is loaded, and the progress to update. */
struct origin {
    struct model_item item;
    const char *weight_cache;
    struct instance_progress *told; /* or NULL */
    bool only_plan;
};

/* Compute kv_id, which names keys and values on disk: the model's files, the settings that change
 * them, and the version, since a later version may compute other bits. */
static void identify(struct instance *e, const struct gguf *g, const struct config *c)
{
    struct {
        uint64_t model_bytes, directory[2], samples[2];
        uint64_t context, kv_type, load_type, has_mtp;
        char version[64];
    } what = {0};
    struct weight_cache_id id;
    XXH128_hash_t hash;

    weight_cache_identify(&id, g, NULL, 0);
    what.model_bytes = id.model_bytes;
    memcpy(what.directory, id.directory, sizeof(what.directory));
    memcpy(what.samples, id.samples, sizeof(what.samples));
    e->weights_id = XXH3_64bits(&what, sizeof(what));
    what.context = e->model->shape.n_ctx;
    what.kv_type = (uint64_t)c->kv_type;
    what.load_type = (uint64_t)c->load_type;
    what.has_mtp = e->model->has_mtp;
    snprintf(what.version, sizeof(what.version), "%s", quire_version());
    hash = XXH3_128bits(&what, sizeof(what));
    e->kv_id[0] = hash.low64;
    e->kv_id[1] = hash.high64;
}

/* Compute store_id, which names blocks in a store that other machines share: these do not see this
 * machine's file, so all bytes of the weights are hashed. */
static void identify_for_store(struct instance *e, const struct gguf *g)
{
    const uint64_t start = clock_ms();
    XXH128_hash_t link[2] = {{e->kv_id[0], e->kv_id[1]}};

    for (uint32_t i = 0; i < gguf_n_files(g); i++) {
        const struct gguf_file f = gguf_file_at(g, i);

        link[1] = XXH3_128bits(f.data, (size_t)f.bytes);
        link[0] = XXH3_128bits(link, sizeof(link));
    }
    e->store_id[0] = link[0].low64;
    e->store_id[1] = link[0].high64;
    log_info("engine", "weights_digest=%016" PRIx64 "%016" PRIx64 " digest_ms=%" PRIu64,
             e->store_id[1], e->store_id[0], clock_ms() - start);
}

/* Compute the SHA-256 of each file of the weights, as sha256sum prints it, for receipts. */
static int hash_files(struct instance *e, const struct gguf *g)
{
    const uint64_t start = clock_ms();
    int rc = 0;

    e->n_weights = gguf_n_files(g);
    e->weights = mem_calloc(e->n_weights, sizeof(*e->weights));
    if (e->weights == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < e->n_weights && rc == 0; i++) {
        const struct gguf_file f = gguf_file_at(g, i);

        rc = digest_bytes(f.data, (size_t)f.bytes, e->weights[i]);
    }
    log_info("engine", "event=weights_hashed files=%u took_ms=%" PRIu64, e->n_weights,
             clock_ms() - start);
    return rc;
}

/* Create the file's tokenizer and model; both must have the same vocabulary size. */
static int make_model(struct instance *e, const struct gguf *g, const char *pre,
                      const struct model_options *options, char *err, size_t err_len)
{
    int rc = tokenizer_create_as(&e->tokenizer, g, pre, err, err_len);

    if (rc == 0)
        rc = model_load(&e->model, g, options, err, err_len);
    if (rc == 0 && tokenizer_n_vocab(e->tokenizer) != (int32_t)e->model->shape.n_vocab) {
        snprintf(err, err_len, "%s: the tokenizer has %d tokens, but the model has %u",
                 gguf_name(g), tokenizer_n_vocab(e->tokenizer), e->model->shape.n_vocab);
        rc = ERR_FORMAT;
    }
    return rc;
}

int instance_check_model(const struct gguf *g, size_t *state_bytes, char *err, size_t err_len)
{
    const struct model_options options = {.threads = 1, .only_plan = true};
    struct instance e = {0};
    int rc = make_model(&e, g, "", &options, err, err_len);

    *state_bytes = rc == 0 ? runner_state_bytes(e.model) : 0;
    instance_release(&e);
    if (gguf_check_unchanged(g, err, err_len) < 0)
        rc = ERR_IO;
    return rc;
}

static int load_model(struct instance *e, const struct config *c, const struct origin *from,
                      char *err, size_t err_len)
{
    static const enum block_type load_types[] = {[CONFIG_LOAD_AS_IS] = BLOCK_F32,
                                                 [CONFIG_LOAD_Q8_0] = BLOCK_Q8_0,
                                                 [CONFIG_LOAD_Q6_K] = BLOCK_Q6_K,
                                                 [CONFIG_LOAD_Q4_0] = BLOCK_Q4_0};
    struct progress progress = {.start_ms = clock_ms(), .shown = -1, .told = from->told};
    const struct model_options options = {
        .n_ctx = (uint32_t)c->context,
        .threads = e->threads,
        .weight_cache = from->weight_cache,
        .progress = show_progress,
        .progress_ud = &progress,
        .only_plan = from->only_plan,
        .load_type = load_types[c->load_type],
        .wants_mtp = c->speculation == CONFIG_SPECULATION_AUTO && c->draft[0] == '\0',
        .numa = &e->numa,
    };
    struct gguf *g;
    int rc = instance_open_gguf(&g, from->item.path, c->tokenizer_pre, err, err_len);

    if (rc < 0)
        return rc;
    rc = make_model(e, g, c->tokenizer_pre, &options, err, err_len);
    if (rc == 0)
        instance_read_sampling(&e->sampling, g, c);
    if (rc == 0 && (c->slot_save_path[0] != '\0' || c->kv_store[0] != '\0' ||
                    c->requests_db[0] != '\0'))
        identify(e, g, c);
    if (rc == 0 && c->kv_store[0] != '\0' && !from->only_plan) /* because identify_for_store() reads
                                                                * all weights */
        identify_for_store(e, g);
    if (rc == 0 && c->receipts == CONFIG_ON && !from->only_plan &&
        (rc = hash_files(e, g)) < 0)
        snprintf(err, err_len, "the weights cannot be hashed for receipts: %s", err_text(rc));
    if (gguf_check_unchanged(g, err, err_len) < 0)
        rc = ERR_IO;
    gguf_close(&g);
    return rc;
}

static int make_runner(struct instance *e, const struct config *c, unsigned flags,
                       struct thread_pool *pool, char *err, size_t err_len)
{
    struct runner_options options = {
        .model = e->model,
        .kv = e->kv,
        .states = e->states,
        .kv_type = e->kv_type,
        .isa = e->isa,
        .pool = pool,
        .max_rows = e->sched.max_batch_tokens,
        .n_slots = e->model->has_mtp ? e->sched.max_sequences : 0,
        .undoes = c->speculation == CONFIG_SPECULATION_AUTO && runner_state_bytes(e->model) > 0,
        .no_cascade = (flags & INSTANCE_NO_CASCADE) != 0,
        .takes_adapters = c->adapters[0] != '\0' || c->adapters_dir[0] != '\0',
    };

    options.eog = tokenizer_eog(e->tokenizer, &options.n_eog);
    return runner_create(&e->runner, &options, err, err_len);
}

static void log_sizes(const struct instance *e, const struct config *c, uint64_t load_ms)
{
    const struct model *m = e->model;
    char id[160], name[160];

    log_info("engine",
             "model=%s name=%s arch=%s type=%s params=%" PRIu64 " weights_bytes=%" PRIu64
             " weights=%s load_ms=%" PRIu64,
             log_quote(id, sizeof(id), e->id), log_quote(name, sizeof(name), m->name), m->arch,
             m->ftype, m->n_params, m->weight_bytes, m->is_cached ? "cached" : "packed", load_ms);
    log_info("engine",
             "isa=%s threads=%u kv_type=%s kv_blocks=%u kv_lanes=%u kv_window_lanes=%u "
             "kv_bytes=%zu context=%u scratch_bytes=%zu",
             kern_isa_name(e->isa), e->threads, kern_kv_name(e->kv_type), e->kv->n_blocks,
             m->groups.n, m->groups.n_window, e->kv->bytes, e->sched.max_context,
             runner_scratch_bytes(e->runner));
    if (e->numa.mode != NUMA_OFF)
        log_info("engine", "numa=%s nodes=%u weights_in_place=%.3f", numa_mode_name(e->numa.mode),
                 e->numa.n, model_placed_share(m, &e->numa));
    if (m->has_mtp)
        log_info("engine", "mtp=on mtp_layer=%u", m->shape.n_layer);
    instance_log_cache(e, c);
}

/* Use the thread pool that the process's engines share, or make one for this instance. */
static int choose_threads(struct instance *e, const struct config *c,
                          const struct instance_company *company, bool only_plan, char *err,
                          size_t err_len)
{
    struct thread_pool *pool = company->pool;
    int rc = 0;

    if (company->numa != NULL)
        e->numa = *company->numa;
    else if (!only_plan)
        instance_plan_numa(&e->numa, c);
    if (pool == NULL) {
        rc = instance_make_thread_pool(&e->own_pool, c, &e->numa, err, err_len);
        pool = e->own_pool;
    }
    e->threads = rc == 0 ? thread_pool_n_threads(pool) : 0;
    return rc;
}

int instance_init(struct instance *e, const struct config *c, unsigned flags, char *err,
                  size_t err_len)
{
    return instance_init_among(e, c, flags, &(struct instance_company){0}, err, err_len);
}

int instance_init_among(struct instance *e, const struct config *c, unsigned flags,
                        const struct instance_company *company, char *err, size_t err_len)
{
    struct origin from = {.told = company->progress, .only_plan = (flags & INSTANCE_PLAN) != 0};
    const uint64_t start = clock_ms();
    int code = EXIT_FAILED;

    memset(e, 0, sizeof(*e));
    if (instance_one_model(&from.item, c->model, err, err_len) != EXIT_OK)
        return EXIT_USAGE;
    instance_name_model(c->model, e->id, sizeof(e->id));
    if (choose_isa(e, c->isa, err, err_len) < 0)
        return EXIT_USAGE;
    if (choose_weight_cache(c, &from.weight_cache, err, err_len) < 0)
        return EXIT_USAGE;
    if (choose_threads(e, c, company, from.only_plan, err, err_len) < 0)
        goto fail;
    if (load_model(e, c, &from, err, err_len) < 0)
        goto fail;
    if (e->model->shape.is_encoder && (flags & INSTANCE_ENCODERS) == 0) {
        snprintf(err, err_len,
                 "the model '%s' is an encoder, which makes only embeddings: serve it with 'quire "
                 "serve'",
                 e->id);
        goto fail;
    }
    if (instance_make_cache(e, c, flags, err, err_len) < 0) {
        code = EXIT_USAGE;
        goto fail;
    }
    if (make_runner(e, c, flags, e->own_pool != NULL ? e->own_pool : company->pool, err,
                    err_len) < 0)
        goto fail;
    if (!from.only_plan)
        log_sizes(e, c, clock_ms() - start);
    return EXIT_OK;

fail:
    instance_release(e);
    return code;
}

void instance_release(struct instance *e)
{
    runner_destroy(&e->runner);
    thread_pool_destroy(&e->own_pool);
    kv_manager_destroy(&e->manager);
    kv_events_destroy(&e->events);
    swap_store_close(&e->swap);
    state_store_destroy(&e->states);
    kv_store_destroy(&e->kv);
    model_destroy(&e->model);
    tokenizer_destroy(&e->tokenizer);
    mem_free(e->weights);
    e->weights = NULL;
}
