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

/* ---- numbers ---- */

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
    else if (m >= 1)
        snprintf(t.text, sizeof(t.text), h >= 1 ? "%.0fh%02.0f" : "%.0fm%02.0f", h >= 1 ? h : m,
                 fmod(h >= 1 ? m : s, 60));
    else if (seconds >= 1)
        snprintf(t.text, sizeof(t.text), "%.1f s", seconds);
    else if (seconds >= 0)
        snprintf(t.text, sizeof(t.text), seconds < 0.00995 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    return t;
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

/* ---- parts of a line ---- */

static void draw_label(struct top_screen *s, const char *label)
{
    top_screen_add(s, TOP_BOLD, -10, "%s", label);
}

static void draw_number(struct top_screen *s, struct top_text number, const char *name)
{
    top_screen_add(s, TOP_BOLD, 0, "%s", number.text);
    top_screen_add(s, TOP_PLAIN, 0, " %s   ", name);
}

static void draw_cell(struct top_screen *s, enum top_style style, int width, const char *text)
{
    top_screen_add(s, style, width, "%s", text);
    top_screen_add(s, TOP_PLAIN, 0, " ");
}

/* Draw a bar: held and cached of the total; the rest is free. */
static void draw_bar(struct top_screen *s, double held, double cached, double total)
{
    static const char *const pieces[2][3] = {{"#", "=", "."}, {"█", "▒", "·"}};
    static const enum top_style styles[] = {TOP_GOOD, TOP_BUSY, TOP_DIM};

    top_screen_add(s, TOP_PLAIN, 0, "[");
    for (int i = 0; i < BAR; i++) {
        const double at = (i + 0.5) * fmax(total, 1) / BAR;
        const int kind = !(at <= held) + !(at <= held + cached);

        top_screen_add(s, styles[kind], 0, "%s", pieces[s->has_utf8][kind]);
    }
    top_screen_add(s, TOP_PLAIN, 0, "] ");
}

/* Draw a column for each value, as high as its share of `most`: the last ones, as far as there is
 * room. */
static void draw_heights(struct top_screen *s, const double *values, uint32_t n, double most)
{
    static const char *const pieces[2][8] = {{".", ":", "-", "=", "+", "*", "%", "#"},
                                             {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
    const uint32_t room = s->width - s->column;

    for (uint32_t i = n > room ? n - room : 0; i < n; i++)
        top_screen_add(s, TOP_PLAIN, 0, "%s",
                       pieces[s->has_utf8][(int)fmin(7, fmax(0, 8 * values[i] / most))]);
}

/* ---- lines ---- */

static void draw_title(const struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    top_screen_add(s, TOP_BOLD, 0, "quire top  %s", v->url);
    top_screen_add(s, TOP_PLAIN, 0, "%s%s", r->wanted[0] != '\0' ? "  model " : "", r->wanted);
    top_screen_add(s, TOP_BUSY, 0, "%s", v->is_paused ? "  paused" : "");
    if (r->has[TOP_METRICS])
        top_screen_add(s, TOP_PLAIN, 0, "  quire %s, up %s", r->version,
                       top_time(r->uptime_s).text);
    top_screen_next_line(s);
    if (v->trouble[0] == '\0')
        return;
    top_screen_add(s, TOP_BAD, 0, "%s", v->trouble);
    top_screen_next_line(s);
}

static void draw_counts(const struct top_reading *r, struct top_screen *s)
{
    const char *m = r->wanted;

    draw_label(s, "Requests");
    draw_number(s, top_count(top_number(r, m, "quire_requests_running", NULL)), "running");
    draw_number(s, top_count(top_number(r, m, "quire_requests_waiting", NULL)), "queued");
    draw_number(s, top_count(top_number(r, m, "quire_requests_preempted", NULL)), "preempted now");
    draw_number(s, top_count(top_number(r, m, "quire_preemptions_total", NULL)), "preemptions");
    top_screen_next_line(s);
    draw_label(s, "Tokens/s");
    draw_number(s, top_count(top_rate(r, m, "quire_generation_tokens_total")), "generated");
    draw_number(s, top_count(top_rate(r, m, "quire_prompt_tokens_total")), "of prompts");
    draw_number(s, top_count(top_rate(r, m, "quire_cached_tokens_total")), "cached");
    top_screen_next_line(s);
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
    draw_label(s, "Steps");
    if (!r->has[TOP_STEP_TIMES]) {
        draw_number(s, top_time(steps > 0 ? busy / steps : TOP_UNKNOWN), "mean");
        draw_number(s, top_count(steps), "a second");
    } else if (n == 0) {
        top_screen_add(s, TOP_DIM, 0, "none yet");
    } else {
        draw_number(s, top_time(sorted[(n - 1) / 2]), "median");
        draw_number(s, top_time(sorted[0]), "longest");
        draw_number(s, top_count(r->sequences / n), "sequences");
        draw_heights(s, r->step_s, n, sorted[0]);
    }
    top_screen_next_line(s);
}

static void draw_latencies(const struct top_reading *r, struct top_screen *s)
{
    static const char first[] = "quire_time_to_first_token_seconds_bucket";
    static const char between[] = "quire_inter_token_latency_seconds_bucket";

    draw_label(s, "Latency");
    top_screen_add(s, TOP_PLAIN, 0, "first token ");
    draw_number(s, top_time(top_quantile(r, first, 0.5)), "median");
    draw_number(s, top_time(top_quantile(r, first, 0.95)), "95 %");
    top_screen_add(s, TOP_PLAIN, 0, "between tokens ");
    draw_number(s, top_time(top_quantile(r, between, 0.5)), "median");
    draw_number(s, top_time(top_quantile(r, between, 0.95)), "95 %");
    top_screen_next_line(s);
}

/* ---- the KV cache ---- */

static double n_blocks(const struct top_reading *r, const char *id, const char *state)
{
    return top_number(r, id, "quire_kv_blocks", state);
}

/* Blocks that are kept for reuse; pinned ones are. */
static double n_cached(const struct top_reading *r, const char *id)
{
    return n_blocks(r, id, "cached") + n_blocks(r, id, "pinned");
}

static void draw_cache(const struct top_reading *r, struct top_screen *s)
{
    const double held = n_blocks(r, r->wanted, "held"), cached = n_cached(r, r->wanted);
    const double total = n_blocks(r, r->wanted, NULL);

    draw_label(s, "KV cache");
    draw_bar(s, held, cached, total);
    top_screen_add(s, TOP_PLAIN, 0, "%.0f %% held, %.0f %% cached of %s blocks",
                   percent(held, total), percent(cached, total), top_count(total).text);
    if (r->has[TOP_KV])
        top_screen_add(s, TOP_PLAIN, 0, " of %.0f tokens, pressure %s, %.0f swapped",
                       r->block_tokens, r->pressure, r->n_swap_copies);
    top_screen_next_line(s);
}

static void draw_prefixes(const struct top_reading *r, struct top_screen *s)
{
    static const char looked_up[] = "quire_prefix_cache_queries_tokens_total";
    static const char hits[] = "quire_prefix_cache_hits_tokens_total";
    const double now = top_rate(r, r->wanted, looked_up);

    draw_label(s, "Prefixes");
    top_screen_add(
        s, TOP_PLAIN, 0, "%.0f %% of the tokens looked up were cached",
        percent(top_number(r, r->wanted, hits, NULL), top_number(r, r->wanted, looked_up, NULL)));
    if (now > 0)
        top_screen_add(s, TOP_PLAIN, 0, ", %.0f %% now",
                       percent(top_rate(r, r->wanted, hits), now));
    top_screen_next_line(s);
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
        draw_label(s, k == 0 ? " held by" : "");
        draw_bar(s, owners[k].n_blocks, 0, n_blocks(r, r->wanted, NULL));
        top_screen_add(s, TOP_PLAIN, 0, "%s blocks ", top_count(owners[k].n_blocks).text);
        top_screen_add(s, TOP_BOLD, 0, "%s", owners[k].name);
        if (k + 1 == SHOWN_OWNERS && n > SHOWN_OWNERS)
            top_screen_add(s, TOP_DIM, 0, " and %u more", n - SHOWN_OWNERS);
        top_screen_next_line(s);
    }
}

/* ---- lists ---- */

static void draw_model(const struct top_reading *r, const char *id, struct top_screen *s)
{
    draw_cell(s, TOP_PLAIN, -22, id);
    top_screen_add(s, TOP_PLAIN, 0, "%7.7s %6.6s %6.6s %8.8s ",
                   top_count(top_number(r, id, "quire_requests_running", NULL)).text,
                   top_count(top_number(r, id, "quire_requests_waiting", NULL)).text,
                   top_count(top_rate(r, id, "quire_generation_tokens_total")).text,
                   top_count(top_rate(r, id, "quire_prompt_tokens_total")).text);
    draw_bar(s, n_blocks(r, id, "held"), n_cached(r, id), n_blocks(r, id, NULL));
    top_screen_next_line(s);
}

/* Draw the models on at most half of the lines left; the others are for the requests. */
static void draw_models(const struct top_reading *r, struct top_screen *s)
{
    static const char *const titles[] = {"MODEL", "RUNNING",  "QUEUED",
                                         "GEN/S", "PROMPT/S", "KV CACHE"};
    static const int widths[] = {-22, 7, 6, 6, 8, 0};
    const uint32_t n = r->n_models, room = (s->height - s->row) / 2;
    const uint32_t n_shown = n < room ? n : room > 0 ? room - 1 : 0;

    if (n < 2 || r->wanted[0] != '\0')
        return;
    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
        draw_cell(s, TOP_TITLE, widths[i], titles[i]);
    top_screen_next_line(s);
    for (uint32_t i = 0; i < n_shown; i++)
        draw_model(r, r->models[i], s);
    if (n_shown == n)
        return;
    top_screen_add(s, TOP_DIM, 0, "and %u more", n - n_shown);
    top_screen_next_line(s);
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

static enum top_style state_style(const char *state)
{
    return strcmp(state, "running") == 0     ? TOP_GOOD
           : strcmp(state, "preempted") == 0 ? TOP_BAD
                                             : TOP_BUSY;
}

/* Draw a request; q NULL: the headings. With one model its name is left out, and there is more room
 * for others. */
static void draw_request(const struct top_request *q, bool has_models, struct top_screen *s)
{
#define XX(name, key, title, width, from) {title, width, from},
    static const struct {
        const char *title;
        int width, from;
    } columns[] = {TOP_COLUMNS(XX)}, *c = columns;
#undef XX
    const int model_from = columns[TOP_MODEL].from, saved = 1 - columns[TOP_MODEL].width;

    for (int i = 0; i < TOP_N_COLUMNS; i++) {
        const int saves = !has_models && c[i].from > model_from ? saved : 0;

        if ((int)s->width < c[i].from - saves || (i == TOP_MODEL && !has_models))
            continue;
        if (q == NULL)
            draw_cell(s, TOP_TITLE, c[i].width, c[i].title);
        else if (i < TOP_N_TEXTS)
            draw_cell(s, i == TOP_STATE ? state_style(q->text[i]) : TOP_PLAIN, c[i].width,
                      q->text[i]);
        else
            draw_cell(s, TOP_PLAIN, c[i].width,
                      (i < TOP_AGE ? top_count(q->number[i]) : top_time(q->number[i])).text);
    }
    top_screen_next_line(s);
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
    top_screen_add(s, TOP_DIM, 0, "q quit  p %s  s sort: %s  ", v->is_paused ? "go on" : "pause",
                   sorts[v->sort].name);
    if (r->n_models > 1)
        top_screen_add(s, TOP_DIM, 0, "m model: %s  ", r->wanted[0] != '\0' ? r->wanted : "all");
    if (r->n_requests > 0)
        top_screen_add(s, TOP_DIM, 0, "arrows: from %u of %u", v->first + 1, r->n_requests);
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
