/* server/top/reading.c - see reading.h.
 *
 * /metrics is read line by line: a sample is added to the model that its label names. The server
 * writes the list of its models first. The pages of /debug are JSON. If the uptime is smaller than
 * before, the server was restarted, and there are no rates.
 */
#include "server/top/reading.h"

#include "core/json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void top_reading_clear(struct top_reading *r, const char *wanted)
{
    memset(r, 0, offsetof(struct top_reading, requests));
    snprintf(r->wanted, sizeof(r->wanted), "%s", wanted);
}

static uint32_t find_model(const struct top_reading *r, const char *id)
{
    uint32_t i = 0;

    while (i < r->n_models && strcmp(r->models[i].id, id) != 0)
        i++;
    return i;
}

/* ---- /metrics: name{label="value",...} number ---- */

static bool sample_is(const char *line, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(line, name, n) == 0 && (line[n] == '{' || line[n] == ' ');
}

/* Copy the value of a label without its escapes, cut to fit; false, and "": there is none. */
static bool sample_label(const char *line, const char *label, char *out, size_t size)
{
    const size_t n = strlen(label);
    const char *at = strstr(line, label);
    size_t len = 0;

    out[0] = '\0';
    while (at != NULL &&
           (at == line || (at[-1] != '{' && at[-1] != ',') || strncmp(at + n, "=\"", 2) != 0))
        at = strstr(at + 1, label);
    if (at == NULL)
        return false;
    for (at += n + 2; *at != '"' && *at != '\0'; at++) {
        const bool is_escaped = *at == '\\' && at[1] != '\0';

        at += is_escaped;
        if (len + 1 < size)
            out[len++] = is_escaped && *at == 'n' ? '\n' : *at;
    }
    out[len] = '\0';
    return true;
}

/* Labels end at the last brace, because no number has one. */
static bool sample_value(const char *line, double *value)
{
    const char *brace = strrchr(line, '}'), *from = brace != NULL ? brace + 1 : strchr(line, ' ');
    char *end = NULL;

    *value = from != NULL ? strtod(from, &end) : 0;
    return from != NULL && end != from && (*end == '\0' || *end == ' ');
}

static void add_number(struct top_model *m, const char *line, double value)
{
#define XX(name, sample, state) {sample, state},
    static const struct family {
        const char *name, *state;
    } families[] = {TOP_NUMBERS(XX)};
#undef XX
    char state[16];

    (void)sample_label(line, "state", state, sizeof(state));
    for (int i = 0; i < TOP_N_NUMBERS; i++)
        if (sample_is(line, families[i].name) && strcmp(state, families[i].state) == 0)
            m->number[i] += value;
}

/* Add a bucket. Buckets of several models have the same bounds, and are added up. */
static void add_bucket(struct top_histogram *h, const char *line, double value)
{
    char text[40];
    double bound;
    uint32_t i = 0;

    if (!sample_label(line, "le", text, sizeof(text)))
        return;
    bound = strtod(text, NULL); /* "+Inf" too */
    while (i < h->n && h->bound[i] < bound)
        i++;
    if (i == h->n && h->n < TOP_MAX_BOUNDS)
        h->bound[h->n++] = bound;
    if (i < h->n && h->bound[i] == bound)
        h->count[i] += value;
}

static void take_server_sample(struct top_reading *r, const char *line, double value)
{
    if (sample_is(line, "quire_uptime_seconds"))
        r->uptime_s = value;
    else if (sample_is(line, "quire_build_info"))
        (void)sample_label(line, "version", r->version, sizeof(r->version));
    else if (sample_is(line, "quire_model_info") && r->n_models == TOP_MAX_MODELS)
        r->n_more_models++;
    else if (sample_is(line, "quire_model_info"))
        r->n_models +=
            sample_label(line, "model", r->models[r->n_models].id, sizeof(r->models[0].id));
}

/* With one model, samples have no label for it. */
static void take_model_sample(struct top_reading *r, const char *line, double value)
{
    char id[TOP_MAX_NAME];
    const bool is_named = sample_label(line, "model", id, sizeof(id));
    const uint32_t i = is_named ? find_model(r, id) : r->n_models == 1 ? 0 : r->n_models;

    if (i == r->n_models)
        return;
    add_number(&r->models[i], line, value);
    if (r->wanted[0] != '\0' && strcmp(r->wanted, r->models[i].id) != 0)
        return;
    if (sample_is(line, "quire_time_to_first_token_seconds_bucket"))
        add_bucket(&r->first_token, line, value);
    else if (sample_is(line, "quire_inter_token_latency_seconds_bucket"))
        add_bucket(&r->between_tokens, line, value);
}

static bool take_metrics(struct top_reading *r, char *text)
{
    char *line;
    double value;

    while ((line = strsep(&text, "\n")) != NULL)
        if (sample_value(line, &value)) {
            take_server_sample(r, line, value);
            take_model_sample(r, line, value);
        }
    return r->version[0] != '\0';
}

/* ---- /debug ---- */

/* Read a number, which must be finite and >= 0, as counts and times are. */
static double page_number(const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);

    return cJSON_IsNumber(v) && v->valuedouble > 0 ? fmin(v->valuedouble, 1e15) : 0;
}

static void copy_text(char *out, size_t size, const cJSON *from, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, key));

    snprintf(out, size, "%s", text != NULL ? text : "");
}

static void take_request(struct top_request *q, const cJSON *from, const char *model)
{
#define XX(name, key, title, width, rank) key,
    static const char *const keys[] = {TOP_COLUMNS(XX)};
#undef XX
    double *n = q->number;

    for (int i = 0; i < TOP_N_TEXTS; i++)
        copy_text(q->text[i], sizeof(q->text[i]), from, keys[i]);
    for (int i = TOP_N_TEXTS; i < TOP_N_COLUMNS; i++)
        n[i] = page_number(from, keys[i]);
    n[TOP_AGE] /= 1e3;
    n[TOP_QUEUED] /= 1e3;
    n[TOP_GENERATED] += page_number(from, "discarded_tokens") - n[TOP_PROMPT];
    n[TOP_GENERATED] = fmax(0, n[TOP_GENERATED]);
    q->id = page_number(from, "id");
    snprintf(q->text[TOP_MODEL], sizeof(q->text[0]), "%s", model);
    if (q->text[TOP_REQUEST][0] == '\0')
        snprintf(q->text[TOP_REQUEST], sizeof(q->text[0]), "%.0f", q->id);
    if (q->text[TOP_TENANT][0] == '\0')
        snprintf(q->text[TOP_TENANT], sizeof(q->text[0]), "-");
}

static void take_requests(struct top_reading *r, const cJSON *list, const char *model)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
    {
        if (r->n_requests == TOP_MAX_REQUESTS)
            return;
        take_request(&r->requests[r->n_requests], item, model);
        r->requests[r->n_requests].number[TOP_PLACE] = -(double)r->n_requests;
        r->n_requests++;
    }
}

static void take_steps(struct top_reading *r, const cJSON *list)
{
    int skip = cJSON_GetArraySize(list) - TOP_MAX_STEPS;
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
    {
        if (skip-- > 0 || r->n_steps == TOP_MAX_STEPS)
            continue;
        r->step_s[r->n_steps++] = page_number(item, "took_ms") / 1e3;
        r->step_sequences += page_number(item, "sequences");
    }
    r->step_sequences /= r->n_steps > 0 ? r->n_steps : 1;
}

static void take_kv(struct top_reading *r, const cJSON *page)
{
    r->block_tokens = page_number(page, "block_tokens");
    copy_text(r->pressure, sizeof(r->pressure), page, "pressure");
    r->n_swap_copies = page_number(cJSON_GetObjectItemCaseSensitive(page, "swap"), "copies");
}

bool top_reading_take(struct top_reading *r, enum top_page page, const char *model, char *text,
                      size_t n)
{
    static const char *const objects[] = {"", "debug.requests", "debug.iterations", "debug.kv"};
    cJSON *json = NULL;
    const char *object, *why;
    bool is_known;

    if (page == TOP_METRICS)
        return r->has[page] = take_metrics(r, text);
    (void)json_parse(text, n, &json, &why);
    object = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "object"));
    is_known = object != NULL && strcmp(object, objects[page]) == 0;
    if (is_known && page == TOP_REQUESTS)
        take_requests(r, cJSON_GetObjectItemCaseSensitive(json, "requests"), model);
    else if (is_known && page == TOP_STEP_TIMES)
        take_steps(r, cJSON_GetObjectItemCaseSensitive(json, "iterations"));
    else if (is_known)
        take_kv(r, json);
    r->has[page] |= is_known;
    cJSON_Delete(json);
    return is_known;
}

/* ---- two readings ---- */

/* Compute the rates of all models, and the sums of those that are shown. */
static void compare_models(struct top_reading *r, const struct top_reading *before, bool is_same)
{
    for (uint32_t i = 0; i < r->n_models; i++) {
        struct top_model *m = &r->models[i];
        const bool is_shown = r->wanted[0] == '\0' || strcmp(r->wanted, m->id) == 0;
        const uint32_t was = find_model(before, m->id);

        if (is_shown && r->wanted[0] != '\0')
            snprintf(r->shown.id, sizeof(r->shown.id), "%s", m->id);
        for (int k = 0; k < TOP_N_NUMBERS; k++) {
            const double n = was < before->n_models ? before->models[was].number[k] : 0;

            m->rate[k] = fmax(0, m->number[k] - n) / (r->uptime_s - before->uptime_s);
            m->rate[k] = is_same ? m->rate[k] : TOP_UNKNOWN;
            r->shown.number[k] += is_shown ? m->number[k] : 0;
            r->shown.rate[k] += is_shown ? m->rate[k] : 0;
        }
    }
}

/* Lists of requests change little from one reading to the next: the search begins after the last
 * one found. */
static const double *find_request(const struct top_reading *r, const struct top_request *q,
                                  uint32_t *at)
{
    for (uint32_t i = 0; i < r->n_requests; i++) {
        const struct top_request *was = &r->requests[(*at + i) % r->n_requests];

        if (was->id == q->id && strcmp(was->text[TOP_MODEL], q->text[TOP_MODEL]) == 0) {
            *at += i + 1;
            return was->number;
        }
    }
    return NULL;
}

static void keep_base(struct top_histogram *h, const struct top_histogram *before, bool is_same)
{
    memcpy(h->base, is_same && before->n == h->n ? before->base : h->count, sizeof(h->base));
}

/* For a request that is new since the reading before, the rate is over its whole time of running.
 */
void top_reading_compare(struct top_reading *r, const struct top_reading *before)
{
    const bool is_same = before->has[TOP_METRICS] && r->uptime_s > before->uptime_s;
    const bool is_same_view = is_same && strcmp(r->wanted, before->wanted) == 0;
    uint32_t at = 0;

    compare_models(r, before, is_same);
    keep_base(&r->first_token, &before->first_token, is_same_view);
    keep_base(&r->between_tokens, &before->between_tokens, is_same_view);
    for (uint32_t i = 0; i < r->n_requests; i++) {
        double *now = r->requests[i].number;
        const double *was = is_same ? find_request(before, &r->requests[i], &at) : NULL;
        const double n = now[TOP_GENERATED] - (was != NULL ? was[TOP_GENERATED] : 0);
        const double s = now[TOP_AGE] - (was != NULL ? was[TOP_AGE] : now[TOP_QUEUED]);

        now[TOP_RATE] = s > 0 && n >= 0 ? n / s : TOP_UNKNOWN;
    }
}

double top_quantile(const struct top_histogram *h, double q)
{
    const uint32_t last = h->n > 0 ? h->n - 1 : 0;
    const double part = h->count[last] > h->base[last] ? 1 : 0; /* share of the base counts that is
                                                                 * subtracted */
    const double total = h->count[last] - part * h->base[last];

    for (uint32_t i = 0; i < h->n && total > 0; i++)
        if (h->count[i] - part * h->base[i] >= q * total)
            return h->bound[i];
    return TOP_UNKNOWN;
}
