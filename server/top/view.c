/* server/top/view.c - see view.h.
 *
 * The frame is drawn from the top; the screen ignores lines below its height, so nothing here
 * computes a layout. Only the list of models (half of the lines left) and the list of requests (the
 * rest) depend on the height.
 */
#include "server/top/view.h"

#include "server/top/reading.h"
#include "server/top/screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR 30 /* pieces */
#define MAX_OWNERS 64
#define SHOWN_OWNERS 4

/* Parts of forms: the heading of a column, the label of a line, and a number before its name. */
#define HEAD(field) TOP_TITLE field TOP_PLAIN " "
#define LABEL(text) TOP_BOLD text TOP_PLAIN
#define NUMBER(name) TOP_BOLD "%s" TOP_PLAIN " " name "   "
#define COUNT(n) top_count(n).text
#define TIME(seconds) top_time(seconds).text

static const char blocks[] = "quire_kv_blocks";

/* The bounds allow for rounding, so that no text becomes a column wider by rounding up. */
struct top_text top_count(double n)
{
    static const char *const units[] = {"", "k", "M", "G"};
    const int unit = (n >= 9999.5) + (n >= 999.5e3) + (n >= 999.5e6);
    const double x = n / pow(1e3, unit);
    const int digits = unit == 0 ? n < 99.5 && n != floor(n) : (x < 99.5) + (x < 9.95);
    struct top_text t = {"-"};

    if (n >= 0)
        snprintf(t.text, sizeof(t.text), "%.*f%s", digits, x, units[unit]);
    return t;
}

struct top_text top_time(double seconds)
{
    const double s = floor(seconds), m = floor(s / 60), h = floor(m / 60);
    struct top_text t = {"-"};

    if (!isfinite(seconds))
        snprintf(t.text, sizeof(t.text), "long");
    else if (h >= 24)
        snprintf(t.text, sizeof(t.text), "%.0fd%02.0fh", floor(h / 24), fmod(h, 24));
    else if (h >= 1)
        snprintf(t.text, sizeof(t.text), "%.0fh%02.0f", h, fmod(m, 60));
    else if (m >= 1)
        snprintf(t.text, sizeof(t.text), "%.0fm%02.0f", m, fmod(s, 60));
    else if (seconds >= 1)
        snprintf(t.text, sizeof(t.text), "%.1f s", seconds);
    else if (seconds >= 0)
        snprintf(t.text, sizeof(t.text), seconds < 0.00995 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    return t;
}

/* Draw a bar: held and cached of the total; the rest is free. */
static void draw_bar(struct top_screen *s, double held, double cached, double total)
{
    static const char *const pieces[2][3] = {{"#", "=", "."}, {"█", "▒", "·"}};

    top_screen_print(s, "[");
    for (int i = 0; i < BAR; i++) {
        const double at = (i + 0.5) * fmax(total, 1) / BAR;
        const int kind = !(at <= held) + !(at <= held + cached);

        top_screen_print(s,
                         kind == 0   ? TOP_GOOD "%s"
                         : kind == 1 ? TOP_BUSY "%s"
                                     : TOP_DIM "%s",
                         pieces[s->has_utf8][kind]);
    }
    top_screen_print(s, "]");
}

/* Draw a column for each value, as high as its share of `most`: the last ones, as far as there is
 * room. */
static void draw_heights(struct top_screen *s, const double *values, uint32_t n, double most)
{
    static const char *const pieces[2][8] = {{".", ":", "-", "=", "+", "*", "%", "#"},
                                             {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
    const uint32_t room = s->column < s->width ? s->width - s->column : 0;

    for (uint32_t i = n > room ? n - room : 0; i < n; i++)
        top_screen_print(s, "%s", pieces[s->has_utf8][(int)fmin(7, fmax(0, 8 * values[i] / most))]);
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

/* ---- lines ---- */

static void draw_title(const struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    top_screen_print(s, TOP_BOLD "quire top  %s" TOP_PLAIN "%s%s" TOP_BUSY "%s", v->url,
                     r->wanted[0] != '\0' ? "  model " : "", r->wanted,
                     v->is_paused ? "  paused" : "");
    if (r->has[TOP_METRICS])
        top_screen_print(s, "  quire %s, up %s", r->version, TIME(r->uptime_s));
    top_screen_print(s, v->trouble[0] != '\0' ? "\n" TOP_BAD "%s\n" : "%s\n", v->trouble);
}

static void draw_counts(const struct top_reading *r, struct top_screen *s)
{
    const char *m = r->wanted;

    top_screen_print(s,
                     LABEL("Requests  ") NUMBER("running") NUMBER("queued") NUMBER("preempted now")
                         NUMBER("preemptions") "\n",
                     COUNT(top_number(r, m, "quire_requests_running", NULL)),
                     COUNT(top_number(r, m, "quire_requests_waiting", NULL)),
                     COUNT(top_number(r, m, "quire_requests_preempted", NULL)),
                     COUNT(top_number(r, m, "quire_preemptions_total", NULL)));
    top_screen_print(
        s, LABEL("Tokens/s  ") NUMBER("generated") NUMBER("of prompts") NUMBER("cached") "\n",
        COUNT(top_rate(r, m, "quire_generation_tokens_total")),
        COUNT(top_rate(r, m, "quire_prompt_tokens_total")),
        COUNT(top_rate(r, m, "quire_cached_tokens_total")));
}

static int compare_descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* Draw the times of the last steps, as many as there are columns left. With several models together
 * only the mean and the rate from the counters are known. */
static void draw_steps(const struct top_reading *r, struct top_screen *s)
{
    const double steps = top_rate(r, r->wanted, "quire_iterations_total");
    const double busy = top_rate(r, r->wanted, "quire_compute_seconds_total");
    const uint32_t n = r->n_steps;
    double sorted[TOP_MAX_STEPS];

    memcpy(sorted, r->step_s, sizeof(sorted));
    qsort(sorted, n, sizeof(sorted[0]), compare_descending);
    top_screen_print(s, LABEL("Steps     "));
    if (!r->has[TOP_STEP_TIMES]) {
        top_screen_print(s, NUMBER("mean") NUMBER("a second"),
                         TIME(steps > 0 ? busy / steps : TOP_UNKNOWN), COUNT(steps));
    } else if (n == 0) {
        top_screen_print(s, TOP_DIM "none yet");
    } else {
        top_screen_print(s, NUMBER("median") NUMBER("longest") NUMBER("sequences"),
                         TIME(sorted[(n - 1) / 2]), TIME(sorted[0]), COUNT(r->sequences / n));
        draw_heights(s, r->step_s, n, sorted[0]);
    }
    top_screen_print(s, "\n");
}

static void draw_latencies(const struct top_reading *r, struct top_screen *s)
{
    static const char first[] = "quire_time_to_first_token_seconds_bucket";
    static const char between[] = "quire_inter_token_latency_seconds_bucket";

    top_screen_print(s,
                     LABEL("Latency   ") "first token " NUMBER("median")
                         NUMBER("95 %%") "between tokens " NUMBER("median") NUMBER("95 %%") "\n",
                     TIME(top_quantile(r, first, 0.5)), TIME(top_quantile(r, first, 0.95)),
                     TIME(top_quantile(r, between, 0.5)), TIME(top_quantile(r, between, 0.95)));
}

/* ---- the KV cache ---- */

/* Blocks that are kept for reuse; pinned ones are. */
static double n_cached(const struct top_reading *r, const char *id)
{
    return top_number(r, id, blocks, "cached") + top_number(r, id, blocks, "pinned");
}

static void draw_cache(const struct top_reading *r, struct top_screen *s)
{
    const double held = top_number(r, r->wanted, blocks, "held");
    const double cached = n_cached(r, r->wanted);
    const double total = top_number(r, r->wanted, blocks, NULL);

    top_screen_print(s, LABEL("KV cache  "));
    draw_bar(s, held, cached, total);
    top_screen_print(s, " %.0f %% held, %.0f %% cached of %s blocks", percent(held, total),
                     percent(cached, total), COUNT(total));
    if (r->has[TOP_KV])
        top_screen_print(s, " of %.0f tokens, pressure %s, %.0f swapped", r->block_tokens,
                         r->pressure, r->n_swap_copies);
    top_screen_print(s, "\n");
}

static void draw_prefixes(const struct top_reading *r, struct top_screen *s)
{
    static const char looked_up[] = "quire_prefix_cache_queries_tokens_total";
    static const char hits[] = "quire_prefix_cache_hits_tokens_total";
    const double now = top_rate(r, r->wanted, looked_up);

    top_screen_print(
        s, LABEL("Prefixes  ") "%.0f %% of the tokens looked up were cached",
        percent(top_number(r, r->wanted, hits, NULL), top_number(r, r->wanted, looked_up, NULL)));
    if (now > 0)
        top_screen_print(s, ", %.0f %% now", percent(top_rate(r, r->wanted, hits), now));
    top_screen_print(s, "\n");
}

struct owner {
    double n_blocks; /* first: compare_descending() compares owners as well */
    const char *name;
};

/* Draw the tenants with the most blocks; a block that several requests hold is counted for each.
 * Tenants beyond MAX_OWNERS are left out. */
static void draw_owners(const struct top_reading *r, struct top_screen *s)
{
    struct owner owners[MAX_OWNERS] = {{0}};
    uint32_t n = 0, k;

    for (const struct top_request *q = r->requests; q < &r->requests[r->n_requests]; q++) {
        for (k = 0; k < n && strcmp(owners[k].name, q->text[TOP_TENANT]) != 0;)
            k++;
        if (k == n && n < MAX_OWNERS && q->number[TOP_BLOCKS] > 0)
            owners[n++] = (struct owner){0, q->text[TOP_TENANT]};
        if (k < n)
            owners[k].n_blocks += q->number[TOP_BLOCKS];
    }
    qsort(owners, n, sizeof(owners[0]), compare_descending);
    for (k = 0; k < n && k < SHOWN_OWNERS; k++) {
        const struct owner *o = &owners[k];

        top_screen_print(s, k == 0 ? LABEL(" held by  ") : "          ");
        draw_bar(s, o->n_blocks, 0, top_number(r, r->wanted, blocks, NULL));
        top_screen_print(s, " %s blocks " TOP_BOLD "%s", COUNT(o->n_blocks), o->name);
        if (k + 1 == SHOWN_OWNERS && n > SHOWN_OWNERS)
            top_screen_print(s, TOP_DIM " and %.0f more", (double)n - SHOWN_OWNERS);
        top_screen_print(s, "\n");
    }
}

/* ---- lists ---- */

static void draw_model(const struct top_reading *r, const char *id, struct top_screen *s)
{
    top_screen_print(s, "%-22s %7s %6s %6s %8s ", id,
                     COUNT(top_number(r, id, "quire_requests_running", NULL)),
                     COUNT(top_number(r, id, "quire_requests_waiting", NULL)),
                     COUNT(top_rate(r, id, "quire_generation_tokens_total")),
                     COUNT(top_rate(r, id, "quire_prompt_tokens_total")));
    draw_bar(s, top_number(r, id, blocks, "held"), n_cached(r, id),
             top_number(r, id, blocks, NULL));
    top_screen_print(s, "\n");
}

/* Draw the models on at most half of the lines left; the others are for the requests. */
static void draw_models(const struct top_reading *r, struct top_screen *s)
{
    const uint32_t n = r->n_models, room = (s->height - s->row) / 2;
    const uint32_t n_shown = n < room ? n : room > 0 ? room - 1 : 0;

    if (n < 2 || r->wanted[0] != '\0')
        return;
    top_screen_print(s,
                     HEAD("%-22s") HEAD("%7s") HEAD("%6s") HEAD("%6s") HEAD("%8s") HEAD("%s") "\n",
                     "MODEL", "RUNNING", "QUEUED", "GEN/S", "PROMPT/S", "KV CACHE");
    for (uint32_t i = 0; i < n_shown; i++)
        draw_model(r, r->models[i], s);
    if (n_shown < n)
        top_screen_print(s, TOP_DIM "and %.0f more\n", (double)n - n_shown);
}

static const struct {
    const char *name;
    enum top_column column;
} sorts[TOP_N_SORTS] = {{"state", TOP_STATE},         {"age", TOP_AGE},
                        {"rate", TOP_RATE},           {"prompt", TOP_PROMPT},
                        {"generated", TOP_GENERATED}, {"blocks", TOP_BLOCKS}};

int top_sort_of(const char *name)
{
    int i = 0;

    while (i < TOP_N_SORTS && strcmp(sorts[i].name, name) != 0)
        i++;
    return i;
}

static int compare_requests(const void *a, const void *b, void *ud)
{
    const double *x = ((const struct top_request *)a)->number;
    const double *y = ((const struct top_request *)b)->number;
    const enum top_column *column = ud;
    const int order = compare_descending(&x[*column], &y[*column]);

    return order != 0 ? order : compare_descending(&x[TOP_STATE], &y[TOP_STATE]);
}

void top_requests_sort(struct top_reading *r, int sort)
{
    enum top_column column = sorts[sort].column;

    qsort_r(r->requests, r->n_requests, sizeof(r->requests[0]), compare_requests, &column);
}

/* Draw a request; q NULL: the headings. With one model its name is left out, and there is more room
 * for others. */
static void draw_request(const struct top_request *q, bool has_models, struct top_screen *s)
{
#define XX(name, key, title, width, from) {title, width, from},
    static const struct {
        const char *title;
        int width, from;
    } columns[] = {TOP_COLUMNS(XX)};
#undef XX
    const int model_from = columns[TOP_MODEL].from, saved = 1 - columns[TOP_MODEL].width;

    for (int i = 0; i < TOP_N_COLUMNS; i++) {
        const int width = columns[i].width, from = columns[i].from;

        if ((int)s->width < from - (!has_models && from > model_from ? saved : 0) ||
            (i == TOP_MODEL && !has_models))
            continue;
        if (q == NULL)
            top_screen_print(s, HEAD("%*s"), width, columns[i].title);
        else if (i == TOP_STATE)
            top_screen_print(s,
                             strcmp(q->text[i], "running") == 0     ? TOP_GOOD "%*s "
                             : strcmp(q->text[i], "preempted") == 0 ? TOP_BAD "%*s "
                                                                    : TOP_BUSY "%*s ",
                             width, q->text[i]);
        else
            top_screen_print(s, "%*s ", width,
                             i < TOP_N_TEXTS ? q->text[i]
                             : i < TOP_AGE   ? COUNT(q->number[i])
                                             : TIME(q->number[i]));
    }
    top_screen_print(s, "\n");
}

/* Draw as many requests as fit above the line of keys. The list may have become shorter since the
 * last frame. */
static void draw_requests(struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    const uint32_t left = s->height - s->row, used = 1 + v->has_keys;
    const uint32_t n = left > used ? left - used : 0;

    if (n == 0 || !r->has[TOP_REQUESTS])
        return;
    draw_request(NULL, r->n_models > 1, s);
    if (v->first + n > r->n_requests)
        v->first = r->n_requests > n ? r->n_requests - n : 0;
    for (uint32_t i = v->first; i < r->n_requests && i - v->first < n; i++)
        draw_request(&r->requests[i], r->n_models > 1, s);
}

static void draw_keys(const struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    if (s->row < s->height)
        s->row = s->height - 1;
    top_screen_print(s, TOP_DIM "q quit  p %s  s sort: %s  ", v->is_paused ? "go on" : "pause",
                     sorts[v->sort].name);
    if (r->n_models > 1)
        top_screen_print(s, TOP_DIM "m model: %s  ", r->wanted[0] != '\0' ? r->wanted : "all");
    if (r->n_requests > 0)
        top_screen_print(s, TOP_DIM "arrows: from %.0f of %.0f", v->first + 1.0,
                         (double)r->n_requests);
}

void top_view_draw(struct top_view *v, struct top_reading *r, struct top_screen *s)
{
    draw_title(v, r, s);
    if (r->has[TOP_METRICS]) {
        draw_counts(r, s);
        draw_steps(r, s);
        draw_latencies(r, s);
        draw_cache(r, s);
        draw_owners(r, s);
        draw_prefixes(r, s);
        draw_models(r, s);
    }
    top_requests_sort(r, v->sort);
    draw_requests(v, r, s);
    if (v->has_keys)
        draw_keys(v, r, s);
}
