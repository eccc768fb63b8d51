/* server/top/reading.c - see reading.h.
 *
 * A table maps the names of samples in /metrics to numbers; a sample is added to the model that its
 * label names. The pages of /debug are parsed as JSON. Rates are the difference of two readings
 * divided by the difference of the server's own times; when the uptime went back, the server was
 * restarted, and there is no rate.
 */
#include "server/top/reading.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "server/top/metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The samples of a model, and the number that each is added to. The label "": any. */
static const struct family {
    const char *name, *label, *value;
    enum top_number number;
} families[] = {
    {"quire_requests_running", "", "", TOP_RUNNING},
    {"quire_requests_waiting", "", "", TOP_WAITING},
    {"quire_requests_preempted", "", "", TOP_PREEMPTED},
    {"quire_kv_blocks", "state", "free", TOP_KV_FREE},
    {"quire_kv_blocks", "state", "cached", TOP_KV_CACHED},
    {"quire_kv_blocks", "state", "held", TOP_KV_HELD},
    {"quire_prompt_tokens_total", "", "", TOP_PROMPT_TOKENS},
    {"quire_generation_tokens_total", "", "", TOP_GENERATION_TOKENS},
    {"quire_cached_tokens_total", "", "", TOP_CACHED_TOKENS},
    {"quire_preemptions_total", "", "", TOP_PREEMPTIONS},
    {"quire_iterations_total", "", "", TOP_STEPS},
    {"quire_compute_seconds_total", "", "", TOP_STEP_SECONDS},
    {"quire_prefix_cache_queries_tokens_total", "", "", TOP_PREFIX_QUERIES},
    {"quire_prefix_cache_hits_tokens_total", "", "", TOP_PREFIX_HITS},
};

void top_reading_clear(struct top_reading *r, const char *wanted)
{
    const uint32_t n_room = r->n_room;
    struct top_request *requests = r->requests;

    *r = (struct top_reading){.shown = TOP_ALL_MODELS, .n_room = n_room, .requests = requests};
    snprintf(r->wanted, sizeof(r->wanted), "%s", wanted);
}

void top_reading_release(struct top_reading *r)
{
    mem_free(r->requests);
    *r = (struct top_reading){0};
}

/* ---- /metrics ---- */

static void add_model_sample(struct top_reading *r, const struct top_sample *s)
{
    struct top_model *m = &r->models[r->n_models];

    if (r->n_models == TOP_MAX_MODELS) {
        r->n_more_models++;
        return;
    }
    if (!top_sample_label(s, "model", m->id, sizeof(m->id)))
        return;
    if (strcmp(m->id, r->wanted) == 0)
        r->shown = r->n_models;
    r->n_models++;
}

/* Which model a sample belongs to. With one model, samples have no label for it. r->n_models:
 * none. */
static uint32_t model_of(const struct top_reading *r, const struct top_sample *s)
{
    char id[TOP_MAX_NAME];
    uint32_t i = 0;

    if (!top_sample_label(s, "model", id, sizeof(id)))
        return r->n_models == 1 ? 0 : r->n_models;
    while (i < r->n_models && strcmp(r->models[i].id, id) != 0)
        i++;
    return i;
}

/* Add a bucket. Buckets of several models have the same bounds, and are added up. */
static void add_bucket(struct top_histogram *h, const struct top_sample *s)
{
    char text[40];
    double bound;
    uint32_t i = 0;

    if (!top_sample_label(s, "le", text, sizeof(text)))
        return;
    bound = strtod(text, NULL); /* "+Inf" is parsed too */
    while (i < h->n && h->bound[i] < bound)
        i++;
    if (i == h->n && h->n < TOP_MAX_BOUNDS) {
        h->bound[h->n] = bound;
        h->count[h->n++] = 0;
    }
    if (i < h->n && h->bound[i] == bound)
        h->count[i] += s->value;
}

static void add_reading_number(struct top_model *m, const struct top_sample *s)
{
    char value[40];

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct family *f = &families[i];

        if (!top_sample_is(s, f->name))
            continue;
        if (f->label[0] != '\0') {
            (void)top_sample_label(s, f->label, value, sizeof(value));
            if (strcmp(value, f->value) != 0)
                continue;
        }
        m->number[f->number] += s->value;
        return;
    }
}

static void take_sample(struct top_reading *r, const struct top_sample *s)
{
    uint32_t model;

    if (top_sample_is(s, "quire_uptime_seconds"))
        r->uptime_s = s->value;
    else if (top_sample_is(s, "quire_build_info"))
        (void)top_sample_label(s, "version", r->version, sizeof(r->version));
    else if (top_sample_is(s, "quire_model_info"))
        add_model_sample(r, s);
    model = model_of(r, s);
    if (model == r->n_models)
        return;
    add_reading_number(&r->models[model], s);
    if (r->shown != TOP_ALL_MODELS && r->shown != model)
        return;
    if (top_sample_is(s, "quire_time_to_first_token_seconds_bucket"))
        add_bucket(&r->first_token, s);
    else if (top_sample_is(s, "quire_inter_token_latency_seconds_bucket"))
        add_bucket(&r->between_tokens, s);
}

/* The server writes the list of its models first, so samples can be assigned while reading. */
void top_reading_take_metrics(struct top_reading *r, const char *text, size_t n)
{
    struct top_sample s;
    size_t at = 0;

    while (top_sample_next(text, n, &at, &s))
        take_sample(r, &s);
    r->has_metrics = true;
}

/* ---- /debug ---- */

static int parse_page(const char *text, size_t n, const char *object, cJSON **out)
{
    const char *why;

    if (json_parse(text, n, out, &why) < 0)
        return ERR_FORMAT;
    why = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*out, "object"));
    if (why != NULL && strcmp(why, object) == 0)
        return 0;
    cJSON_Delete(*out);
    *out = NULL;
    return ERR_FORMAT;
}

static double reading_number(const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);

    return cJSON_IsNumber(v) && isfinite(v->valuedouble) ? v->valuedouble : 0;
}

static uint32_t count_of(const cJSON *from, const char *key)
{
    const double v = reading_number(from, key);

    return v <= 0 ? 0 : v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

/* Copy, cut at the end of a character. */
static void copy_text(char *out, size_t size, const cJSON *from, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, key));
    size_t n = text != NULL ? strlen(text) : 0;

    if (n >= size)
        for (n = size - 1; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80;)
            n--;
    if (n > 0)
        memcpy(out, text, n);
    out[n] = '\0';
}

static int grow_samples(struct top_reading *r)
{
    const uint32_t n = r->n_room > 0 ? 2 * r->n_room : 64;
    struct top_request *p;

    if (r->n_requests < r->n_room)
        return 0;
    p = mem_realloc(r->requests, n * sizeof(*p));
    if (p == NULL)
        return ERR_NOMEM;
    r->requests = p;
    r->n_room = n;
    return 0;
}

static void take_request(struct top_request *q, uint32_t model, const cJSON *from)
{
    const double known =
        reading_number(from, "known_tokens") + reading_number(from, "discarded_tokens");
    const double id = reading_number(from, "id");

    *q = (struct top_request){
        .id = id > 0 && id < 9e15 ? (uint64_t)id : 0,
        .model = model,
        .n_prompt = count_of(from, "prompt_tokens"),
        .n_cached = count_of(from, "cached_tokens"),
        .max_tokens = count_of(from, "max_tokens"),
        .n_blocks = count_of(from, "blocks"),
        .n_preempted = count_of(from, "n_preempted"),
        .age_ms = reading_number(from, "age_ms"),
        .queue_ms = reading_number(from, "queue_ms"),
        .rate = TOP_UNKNOWN,
    };
    q->n_generated = known > q->n_prompt ? (uint32_t)fmin(known - q->n_prompt, UINT32_MAX) : 0;
    copy_text(q->name, sizeof(q->name), from, "request_id");
    copy_text(q->tenant, sizeof(q->tenant), from, "tenant");
    copy_text(q->state, sizeof(q->state), from, "state");
    copy_text(q->priority, sizeof(q->priority), from, "priority");
}

int top_reading_take_requests(struct top_reading *r, uint32_t model, const char *text, size_t n)
{
    const cJSON *item;
    cJSON *page;
    int rc = parse_page(text, n, "debug.requests", &page);

    if (rc < 0)
        return rc;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(page, "requests"))
    {
        rc = grow_samples(r);
        if (rc < 0)
            break;
        take_request(&r->requests[r->n_requests], model, item);
        r->requests[r->n_requests].place = r->n_requests;
        r->n_requests++;
    }
    r->has_requests = true;
    cJSON_Delete(page);
    return rc;
}

int top_reading_take_steps(struct top_reading *r, const char *text, size_t n)
{
    const cJSON *item, *list;
    int rc, skip;
    cJSON *page;

    rc = parse_page(text, n, "debug.iterations", &page);
    if (rc < 0)
        return rc;
    list = cJSON_GetObjectItemCaseSensitive(page, "iterations");
    skip = cJSON_GetArraySize(list) - TOP_MAX_STEPS;
    cJSON_ArrayForEach(item, list)
    {
        if (skip-- <= 0)
            r->steps[r->n_steps++] =
                (struct top_step){reading_number(item, "took_ms"), count_of(item, "sequences")};
    }
    r->has_steps = true;
    cJSON_Delete(page);
    return 0;
}

int top_reading_take_kv(struct top_reading *r, const char *text, size_t n)
{
    cJSON *page;
    const int rc = parse_page(text, n, "debug.kv", &page);

    if (rc < 0)
        return rc;
    r->block_tokens = count_of(page, "block_tokens");
    copy_text(r->pressure, sizeof(r->pressure), page, "pressure");
    r->n_swap_copies = count_of(cJSON_GetObjectItemCaseSensitive(page, "swap"), "copies");
    r->has_kv = true;
    cJSON_Delete(page);
    return 0;
}

/* ---- two readings ---- */

static bool is_same_process(const struct top_reading *r, const struct top_reading *before)
{
    return before != NULL && before->has_metrics && r->has_metrics &&
           r->uptime_s > before->uptime_s;
}

static const struct top_model *find_model(const struct top_reading *r, const char *id)
{
    for (uint32_t i = 0; i < r->n_models; i++)
        if (strcmp(r->models[i].id, id) == 0)
            return &r->models[i];
    return NULL;
}

/* Lists of running requests change little from one reading to the next: the search begins after the
 * last one found. */
static const struct top_request *find_request(const struct top_reading *r, const char *model,
                                              uint64_t id, uint32_t *at)
{
    for (uint32_t i = 0; i < r->n_requests; i++) {
        const uint32_t k = (*at + i) % r->n_requests;
        const struct top_request *q = &r->requests[k];

        if (q->id == id && strcmp(r->models[q->model].id, model) == 0) {
            *at = k + 1;
            return q;
        }
    }
    return NULL;
}

/* For a request that is new since the last reading, the rate is over its whole time of running. */
void top_reading_compare(struct top_reading *r, const struct top_reading *before)
{
    const bool is_same = is_same_process(r, before);
    uint32_t at = 0;

    for (uint32_t i = 0; i < r->n_requests; i++) {
        struct top_request *q = &r->requests[i];
        const struct top_request *was =
            is_same ? find_request(before, r->models[q->model].id, q->id, &at) : NULL;
        const double ms = q->age_ms - (was != NULL ? was->age_ms : q->queue_ms);
        const uint32_t n = was != NULL ? was->n_generated : 0;

        if (ms > 0 && q->n_generated >= n)
            q->rate = (q->n_generated - n) * 1e3 / ms;
    }
}

double top_reading_number(const struct top_reading *r, uint32_t model, enum top_number number)
{
    double sum = 0;

    if (model < r->n_models)
        return r->models[model].number[number];
    for (uint32_t i = 0; i < r->n_models && model == TOP_ALL_MODELS; i++)
        sum += r->models[i].number[number];
    return sum;
}

static double growth_of(const struct top_model *m, const struct top_reading *before,
                        enum top_number number)
{
    const struct top_model *was = find_model(before, m->id);

    return fmax(0, m->number[number] - (was != NULL ? was->number[number] : 0));
}

double top_reading_growth(const struct top_reading *r, const struct top_reading *before,
                          uint32_t model, enum top_number number)
{
    double sum = 0;

    if (!is_same_process(r, before))
        return TOP_UNKNOWN;
    for (uint32_t i = 0; i < r->n_models; i++)
        if (model == TOP_ALL_MODELS || model == i)
            sum += growth_of(&r->models[i], before, number);
    return sum;
}

double top_reading_rate(const struct top_reading *r, const struct top_reading *before,
                        uint32_t model, enum top_number number)
{
    const double growth = top_reading_growth(r, before, model, number);

    return growth < 0 ? TOP_UNKNOWN : growth / (r->uptime_s - before->uptime_s);
}

double top_histogram_quantile(const struct top_histogram *h, const struct top_histogram *before,
                              double q)
{
    const bool is_comparable = before != NULL && before->n == h->n;
    double total;

    if (h->n == 0)
        return TOP_UNKNOWN;
    total = h->count[h->n - 1] - (is_comparable ? before->count[h->n - 1] : 0);
    for (uint32_t i = 0; i < h->n && total > 0; i++)
        if (h->count[i] - (is_comparable ? before->count[i] : 0) >= q * total)
            return h->bound[i];
    return TOP_UNKNOWN;
}
