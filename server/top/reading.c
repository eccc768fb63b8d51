/* server/top/reading.c - see reading.h.
 *
 * /metrics is read line by line. The server writes the list of its models first. The pages of
 * /debug are JSON. If the uptime is smaller than before, the server was restarted, and there are no
 * rates.
 */
#include "server/top/reading.h"

#include "core/json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const top_paths[] = {"/metrics", "/debug/requests", "/debug/iterations", "/debug/kv"};

void top_reading_clear(struct top_reading *r, const char *wanted)
{
    memset(r, 0, offsetof(struct top_reading, samples));
    snprintf(r->wanted, sizeof(r->wanted), "%s", wanted);
}

/* ---- /metrics: name{label="value",...} number ---- */

/* Copy the value of a label (`label="`) without its escapes, cut to fit; false, and "": there is
 * none. */
static bool sample_label(const char *line, const char *label, char out[TOP_MAX_TEXT])
{
    const char *at = strstr(line, label);
    size_t n = 0;

    while (at != NULL && (at == line || strchr("{,", at[-1]) == NULL))
        at = strstr(at + 1, label);
    for (at = at != NULL ? at + strlen(label) : ""; *at != '"' && *at != '\0'; at++) {
        const bool is_escaped = *at == '\\' && at[1] != '\0';

        at += is_escaped;
        if (n + 1 < TOP_MAX_TEXT)
            out[n++] = is_escaped && *at == 'n' ? '\n' : *at;
    }
    out[n] = '\0';
    return n > 0;
}

/* Take a line, if it is a sample. Labels end at the last brace, because no number has one. With one
 * model, samples have no label for it. Those that are 0 change no sum. */
static void take_sample(struct top_reading *r, const char *line)
{
    struct top_sample *s = &r->samples[r->n_samples];
    const char *brace = strrchr(line, '}'), *from = brace != NULL ? brace + 1 : strchr(line, ' ');
    char model[TOP_MAX_TEXT], *end = NULL;
    const bool is_named = sample_label(line, "model=\"", model);

    if (from == NULL || r->n_samples == TOP_MAX_SAMPLES)
        return;
    s->value = strtod(from, &end);
    if (end == from || (*end != '\0' && *end != ' '))
        return;
    snprintf(s->name, sizeof(s->name), "%.*s", (int)strcspn(line, "{ "), line);
    if (!sample_label(line, "le=\"", s->label))
        (void)sample_label(line, "state=\"", s->label);
    for (s->model = 0; s->model < r->n_models && is_named; s->model++)
        if (strcmp(r->models[s->model], model) == 0)
            break;
    if (strcmp(s->name, "quire_uptime_seconds") == 0)
        r->uptime_s = s->value;
    else if (strcmp(s->name, "quire_build_info") == 0)
        (void)sample_label(line, "version=\"", r->version);
    else if (strcmp(s->name, "quire_model_info") == 0 && is_named && r->n_models < TOP_MAX_MODELS)
        memcpy(r->models[r->n_models++], model, sizeof(model));
    else if (s->model < r->n_models && (is_named || r->n_models == 1) && s->value != 0)
        r->n_samples++;
}

/* ---- /debug ---- */

/* Read a number, which must be finite and >= 0, as counts and times are. */
static double page_number(const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);

    return cJSON_IsNumber(v) && v->valuedouble > 0 ? fmin(v->valuedouble, 1e15) : 0;
}

static void page_text(const cJSON *from, const char *key, const char *otherwise,
                      char out[TOP_MAX_TEXT])
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, key));

    snprintf(out, TOP_MAX_TEXT, "%s", text != NULL && text[0] != '\0' ? text : otherwise);
}

static void take_request(struct top_request *q, const cJSON *from, const char *model)
{
#define XX(name, key, title, width, from) key,
    static const char *const keys[] = {TOP_COLUMNS(XX)};
#undef XX
    double *n = q->number;
    char id[24];

    for (int i = 0; i < TOP_N_COLUMNS; i++)
        n[i] = page_number(from, keys[i]) / (i < TOP_AGE ? 1 : 1e3);
    n[TOP_REQUEST] = page_number(from, "id");
    n[TOP_GENERATED] += page_number(from, "discarded_tokens") - n[TOP_PROMPT];
    n[TOP_GENERATED] = fmax(0, n[TOP_GENERATED]);
    snprintf(id, sizeof(id), "%.0f", n[TOP_REQUEST]);
    for (int i = 0; i < TOP_N_TEXTS; i++)
        page_text(from, keys[i], i == TOP_REQUEST ? id : i == TOP_MODEL ? model : "-", q->text[i]);
}

/* Take a page of /debug. Items of lists for which there is no room are left out. */
static void take_json(struct top_reading *r, const cJSON *page, const char *model)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(page, "requests")) {
        if (r->n_requests == TOP_MAX_REQUESTS)
            break;
        take_request(&r->requests[r->n_requests], item, model);
        r->requests[r->n_requests].number[TOP_STATE] = -(double)r->n_requests;
        r->n_requests++;
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(page, "iterations")) {
        if (r->n_steps == TOP_MAX_STEPS)
            break;
        r->step_s[r->n_steps++] = page_number(item, "took_ms") / 1e3;
        r->sequences += page_number(item, "sequences");
    }
    r->block_tokens = page_number(page, "block_tokens");
    r->n_swap_copies = page_number(cJSON_GetObjectItemCaseSensitive(page, "swap"), "copies");
    page_text(page, "pressure", "", r->pressure);
}

bool top_reading_take(struct top_reading *r, enum top_page page, const char *model, char *text,
                      size_t n)
{
    static const char *const objects[] = {"", "debug.requests", "debug.iterations", "debug.kv"};
    char object[TOP_MAX_TEXT];
    cJSON *json = NULL;
    const char *why;

    if (page == TOP_METRICS) {
        for (const char *line; (line = strsep(&text, "\n")) != NULL;)
            take_sample(r, line);
        return r->has[page] = r->version[0] != '\0';
    }
    (void)json_parse(text, n, &json, &why);
    page_text(json, "object", "", object);
    if (strcmp(object, objects[page]) == 0) {
        take_json(r, json, model);
        r->has[page] = true;
    }
    cJSON_Delete(json);
    return strcmp(object, objects[page]) == 0;
}

/* ---- numbers of one reading or two ---- */

double top_number(const struct top_reading *r, const char *model, const char *name,
                  const char *label)
{
    double sum = 0;

    for (const struct top_sample *s = r->samples; s < &r->samples[r->n_samples]; s++)
        if (strcmp(s->name, name) == 0 && (label == NULL || strcmp(s->label, label) == 0) &&
            (model[0] == '\0' || strcmp(r->models[s->model], model) == 0))
            sum += s->value;
    return sum;
}

double top_rate(const struct top_reading *r, const char *model, const char *name)
{
    const struct top_reading *was = r->before;
    double more;

    if (was == NULL)
        return TOP_UNKNOWN;
    more = top_number(r, model, name, NULL) - top_number(was, model, name, NULL);
    return fmax(0, more) / (r->uptime_s - was->uptime_s);
}

double top_quantile(const struct top_reading *r, const char *name, double q)
{
    const double all = top_number(r, r->wanted, name, "+Inf");
    const double old = top_number(r->first, r->wanted, name, "+Inf");
    const double part = all > old ? 1 : 0; /* share of the first counts that is subtracted */
    double least = INFINITY;

    for (const struct top_sample *s = r->samples; s < &r->samples[r->n_samples]; s++)
        if (strcmp(s->name, name) == 0 && strtod(s->label, NULL) < least &&
            top_number(r, r->wanted, name, s->label) -
                    part * top_number(r->first, r->wanted, name, s->label) >=
                q * (all - part * old))
            least = strtod(s->label, NULL);
    return all > 0 ? least : TOP_UNKNOWN;
}

/* The rate of a request that is new since the reading before is over its whole time of running.
 * Lists of requests change little from one reading to the next: the search for each begins after
 * the last one found. */
void top_reading_compare(struct top_reading *r, const struct top_reading *before)
{
    const bool is_same = before->has[TOP_METRICS] && r->uptime_s > before->uptime_s;
    const uint32_t n_old = is_same ? before->n_requests : 0;
    uint32_t at = 0, i;

    r->before = is_same ? before : NULL;
    r->first = is_same && strcmp(r->wanted, before->wanted) == 0 ? before->first : r;
    for (struct top_request *q = r->requests; q < &r->requests[r->n_requests]; q++) {
        const struct top_request *was = before->requests;
        double n = q->number[TOP_GENERATED], s = q->number[TOP_AGE];

        for (i = 0; i < n_old; i++) {
            was = &before->requests[(at + i) % n_old];
            if (was->number[TOP_REQUEST] == q->number[TOP_REQUEST] &&
                strcmp(was->text[TOP_MODEL], q->text[TOP_MODEL]) == 0)
                break;
        }
        n -= i < n_old ? was->number[TOP_GENERATED] : 0;
        s -= i < n_old ? was->number[TOP_AGE] : q->number[TOP_QUEUED];
        at += i < n_old ? i + 1 : 0;
        q->number[TOP_RATE] = s > 0 && n >= 0 ? n / s : TOP_UNKNOWN;
    }
}
