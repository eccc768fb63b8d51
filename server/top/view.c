/* server/top/view.c - see view.h.
 *
 * The frame is drawn line by line from the top, one function for each line; the screen ignores
 * lines below its height, so nothing here computes a layout. Only the list of models (half of the
 * lines left) and the list of requests (the rest) depend on the height.
 */
#include "server/top/view.h"

#include "server/top/reading.h"
#include "server/top/screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL 9 /* columns of a line's label */
#define BAR 32
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

static void label(struct top_screen *s, const char *text)
{
    top_screen_cell(s, TOP_BOLD, -LABEL, text);
}

/* Draw a number in bold and its label: "812 generated ". */
static void value(struct top_screen *s, struct top_text number, const char *what)
{
    top_screen_text(s, TOP_BOLD, number.text);
    top_screen_printf(s, TOP_PLAIN, " %s   ", what);
}

static void bar(struct top_screen *s, const struct top_model *m, double held, double cached)
{
    const double *n = m->number;

    top_screen_bar(s, BAR, held, cached, n[TOP_KV_HELD] + n[TOP_KV_CACHED] + n[TOP_KV_FREE]);
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

/* ---- lines ---- */

static void draw_title(const struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    top_screen_printf(s, TOP_BOLD, "quire top  %s", v->url);
    if (r->shown.id[0] != '\0')
        top_screen_printf(s, TOP_PLAIN, "  model %s", r->shown.id);
    if (v->is_paused)
        top_screen_text(s, TOP_BUSY, "  paused");
    if (r->has[TOP_METRICS])
        top_screen_printf(s, TOP_PLAIN, "  quire %s, up %s", r->version,
                          top_time(r->uptime_s).text);
    top_screen_end_line(s);
    if (v->trouble[0] == '\0')
        return;
    top_screen_text(s, TOP_BAD, v->trouble);
    top_screen_end_line(s);
}

static void draw_counts(const struct top_model *m, struct top_screen *s)
{
    label(s, "Requests");
    value(s, top_count(m->number[TOP_RUNNING]), "running");
    value(s, top_count(m->number[TOP_WAITING]), "queued");
    value(s, top_count(m->number[TOP_PREEMPTED]), "preempted now");
    value(s, top_count(m->number[TOP_PREEMPTIONS]), "preemptions");
    top_screen_end_line(s);
    label(s, "Tokens/s");
    value(s, top_count(m->rate[TOP_GENERATION_TOKENS]), "generated");
    value(s, top_count(m->rate[TOP_PROMPT_TOKENS]), "of prompts");
    value(s, top_count(m->rate[TOP_CACHED_TOKENS]), "cached");
    top_screen_end_line(s);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Draw the times of the last steps, as many as there are columns left. With several models together
 * only the mean and the rate from the counters are known. */
static void draw_steps(const struct top_reading *r, struct top_screen *s)
{
    const double *rate = r->shown.rate, steps = rate[TOP_STEPS];
    double sorted[TOP_MAX_STEPS];
    uint32_t n = r->n_steps;

    label(s, "Steps");
    memcpy(sorted, r->step_s, sizeof(sorted));
    qsort(sorted, n, sizeof(sorted[0]), compare_doubles);
    if (!r->has[TOP_STEP_TIMES]) {
        value(s, top_time(steps > 0 ? rate[TOP_STEP_SECONDS] / steps : TOP_UNKNOWN), "mean");
        value(s, top_count(steps), "a second");
    } else if (n == 0) {
        top_screen_text(s, TOP_DIM, "none yet");
    } else {
        value(s, top_time(sorted[n / 2]), "median");
        value(s, top_time(sorted[n - 1]), "longest");
        value(s, top_count(r->step_sequences), "sequences");
        n = s->width < s->column + n ? (uint32_t)fmax(0, (double)s->width - s->column) : n;
        top_screen_heights(s, r->step_s + (r->n_steps - n), n, sorted[r->n_steps - 1]);
    }
    top_screen_end_line(s);
}

static void draw_latencies(const struct top_reading *r, struct top_screen *s)
{
    label(s, "Latency");
    top_screen_text(s, TOP_PLAIN, "first token ");
    value(s, top_time(top_quantile(&r->first_token, 0.5)), "median");
    value(s, top_time(top_quantile(&r->first_token, 0.95)), "95 %");
    top_screen_text(s, TOP_PLAIN, "between tokens ");
    value(s, top_time(top_quantile(&r->between_tokens, 0.5)), "median");
    value(s, top_time(top_quantile(&r->between_tokens, 0.95)), "95 %");
    top_screen_end_line(s);
}

/* ---- the KV cache ---- */

static void draw_cache(const struct top_reading *r, struct top_screen *s)
{
    const double *n = r->shown.number, held = n[TOP_KV_HELD], cached = n[TOP_KV_CACHED];
    const double total = held + cached + n[TOP_KV_FREE];

    label(s, "KV cache");
    bar(s, &r->shown, held, cached);
    top_screen_printf(s, TOP_PLAIN, " %.0f %% held, %.0f %% cached of %s blocks",
                      percent(held, total), percent(cached, total), top_count(total).text);
    if (r->has[TOP_KV])
        top_screen_printf(s, TOP_PLAIN, " of %.0f tokens, pressure %s, %.0f swapped",
                          r->block_tokens, r->pressure, r->n_swap_copies);
    top_screen_end_line(s);
}

static void draw_prefixes(const struct top_model *m, struct top_screen *s)
{
    label(s, "Prefixes");
    top_screen_printf(s, TOP_PLAIN, "%.0f %% of the tokens looked up were cached",
                      percent(m->number[TOP_PREFIX_HITS], m->number[TOP_PREFIX_QUERIES]));
    if (m->rate[TOP_PREFIX_QUERIES] > 0)
        top_screen_printf(s, TOP_PLAIN, ", %.0f %% now",
                          percent(m->rate[TOP_PREFIX_HITS], m->rate[TOP_PREFIX_QUERIES]));
    top_screen_end_line(s);
}

struct owner {
    const char *name;
    double n_blocks;
};

static int compare_owners(const void *a, const void *b)
{
    return compare_doubles(&((const struct owner *)b)->n_blocks,
                           &((const struct owner *)a)->n_blocks);
}

/* Count blocks by tenant; a block that several requests hold is counted for each. Tenants beyond
 * MAX_OWNERS are left out. */
static uint32_t find_owners(const struct top_reading *r, struct owner owners[MAX_OWNERS])
{
    uint32_t n = 0, k;

    for (uint32_t i = 0; i < r->n_requests; i++) {
        const struct top_request *q = &r->requests[i];

        for (k = 0; k < n && strcmp(owners[k].name, q->text[TOP_TENANT]) != 0;)
            k++;
        if (k == n && n < MAX_OWNERS && q->number[TOP_BLOCKS] > 0)
            owners[n++] = (struct owner){q->text[TOP_TENANT], 0};
        if (k < n)
            owners[k].n_blocks += q->number[TOP_BLOCKS];
    }
    qsort(owners, n, sizeof(owners[0]), compare_owners);
    return n;
}

static void draw_owners(const struct top_reading *r, struct top_screen *s)
{
    struct owner owners[MAX_OWNERS] = {{0}};
    const uint32_t n = find_owners(r, owners);

    for (uint32_t i = 0; i < n && i < SHOWN_OWNERS; i++) {
        label(s, i == 0 ? " held by" : "");
        bar(s, &r->shown, owners[i].n_blocks, 0);
        top_screen_printf(s, TOP_PLAIN, " %s blocks ", top_count(owners[i].n_blocks).text);
        top_screen_text(s, TOP_BOLD, owners[i].name);
        if (i + 1 == SHOWN_OWNERS && n > SHOWN_OWNERS)
            top_screen_printf(s, TOP_DIM, " and %u more", n - SHOWN_OWNERS);
        top_screen_end_line(s);
    }
}

/* ---- models ---- */

static void draw_model(const struct top_model *m, struct top_screen *s)
{
    top_screen_cell(s, TOP_PLAIN, -22, m->id);
    top_screen_cell(s, TOP_PLAIN, 7, top_count(m->number[TOP_RUNNING]).text);
    top_screen_cell(s, TOP_PLAIN, 6, top_count(m->number[TOP_WAITING]).text);
    top_screen_cell(s, TOP_PLAIN, 6, top_count(m->rate[TOP_GENERATION_TOKENS]).text);
    top_screen_cell(s, TOP_PLAIN, 8, top_count(m->rate[TOP_PROMPT_TOKENS]).text);
    bar(s, m, m->number[TOP_KV_HELD], m->number[TOP_KV_CACHED]);
    top_screen_end_line(s);
}

/* Draw the models on at most half of the lines left; the others are for the requests. */
static void draw_models(const struct top_reading *r, struct top_screen *s)
{
    static const struct {
        const char *title;
        int width;
    } heads[] = {{"MODEL", -22}, {"RUNNING", 7},  {"QUEUED", 6},
                 {"GEN/S", 6},   {"PROMPT/S", 8}, {"KV CACHE", -BAR}};
    const uint32_t n = r->n_models, room = (s->height - s->row) / 2;
    const uint32_t n_shown = n < room ? n : room > 0 ? room - 1 : 0;

    if (n < 2 || r->shown.id[0] != '\0')
        return;
    for (int i = 0; i < 6; i++)
        top_screen_cell(s, TOP_TITLE, heads[i].width, heads[i].title);
    top_screen_end_line(s);
    for (uint32_t i = 0; i < n_shown; i++)
        draw_model(&r->models[i], s);
    if (n_shown < n || r->n_more_models > 0) {
        top_screen_printf(s, TOP_DIM, "and %u more", n + r->n_more_models - n_shown);
        top_screen_end_line(s);
    }
}

/* ---- requests ---- */

static const struct {
    const char *name;
    enum top_column column;
} sorts[TOP_N_SORTS] = {{"state", TOP_PLACE},         {"age", TOP_AGE},
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
    const int order = compare_doubles(&y[*column], &x[*column]);

    return order != 0 ? order : compare_doubles(&y[TOP_PLACE], &x[TOP_PLACE]);
}

void top_requests_sort(struct top_reading *r, int sort)
{
    enum top_column column = sorts[sort].column;

    qsort_r(r->requests, r->n_requests, sizeof(r->requests[0]), compare_requests, &column);
}

static const struct {
    const char *title;
    int width, rank;
} columns[] = {
#define XX(name, key, title, width, rank) {title, width, rank},
    TOP_COLUMNS(XX)
#undef XX
};

/* Choose columns by rank, as long as they fit; with one model its name is left out. */
static void choose_columns(bool chosen[TOP_N_COLUMNS], uint32_t width, bool has_models)
{
    int left = (int)width;

    for (int rank = 0; rank < TOP_N_COLUMNS; rank++)
        for (int i = 0; i < TOP_N_COLUMNS; i++)
            if (columns[i].rank == rank && (i != TOP_MODEL || has_models)) {
                chosen[i] = rank == 0 || abs(columns[i].width) <= left;
                left = chosen[i] ? left - abs(columns[i].width) - 1 : 0;
            }
}

static enum top_style state_style(const char *state)
{
    return strcmp(state, "running") == 0     ? TOP_GOOD
           : strcmp(state, "preempted") == 0 ? TOP_BAD
                                             : TOP_BUSY;
}

/* Draw a request; q NULL: the headings. */
static void draw_request(const struct top_request *q, const bool chosen[TOP_N_COLUMNS],
                         struct top_screen *s)
{
    for (int i = 0; i < TOP_N_COLUMNS; i++) {
        if (!chosen[i])
            continue;
        if (q == NULL)
            top_screen_cell(s, TOP_TITLE, columns[i].width, columns[i].title);
        else if (i < TOP_N_TEXTS)
            top_screen_cell(s, i == TOP_STATE ? state_style(q->text[i]) : TOP_PLAIN,
                            columns[i].width, q->text[i]);
        else
            top_screen_cell(s, TOP_PLAIN, columns[i].width,
                            (i < TOP_AGE ? top_count : top_time)(q->number[i]).text);
    }
    top_screen_end_line(s);
}

/* Draw as many requests as fit above the line of keys. The list may have become shorter since the
 * last frame. */
static void draw_requests(struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    const uint32_t left = s->height - s->row, used = 1 + v->has_keys;
    const uint32_t n = left > used ? left - used : 0;
    bool chosen[TOP_N_COLUMNS] = {false};

    if (n == 0 || !r->has[TOP_REQUESTS])
        return;
    choose_columns(chosen, s->width, r->n_models > 1);
    draw_request(NULL, chosen, s);
    if (v->first + n > r->n_requests)
        v->first = r->n_requests > n ? r->n_requests - n : 0;
    for (uint32_t i = v->first; i < r->n_requests && i - v->first < n; i++)
        draw_request(&r->requests[i], chosen, s);
}

static void draw_keys(const struct top_view *v, const struct top_reading *r, struct top_screen *s)
{
    if (s->row < s->height)
        s->row = s->height - 1;
    top_screen_printf(s, TOP_DIM, "q quit  p %s  s sort: %s  ", v->is_paused ? "go on" : "pause",
                      sorts[v->sort].name);
    if (r->n_models > 1)
        top_screen_printf(s, TOP_DIM, "m model: %s  ",
                          r->shown.id[0] != '\0' ? r->shown.id : "all");
    if (r->n_requests > 0)
        top_screen_printf(s, TOP_DIM, "arrows: from %u of %u", v->first + 1, r->n_requests);
}

void top_view_draw(struct top_view *v, struct top_reading *r, struct top_screen *s)
{
    draw_title(v, r, s);
    if (r->has[TOP_METRICS]) {
        draw_counts(&r->shown, s);
        draw_steps(r, s);
        draw_latencies(r, s);
        draw_cache(r, s);
        draw_owners(r, s);
        draw_prefixes(&r->shown, s);
        draw_models(r, s);
    }
    top_requests_sort(r, v->sort);
    draw_requests(v, r, s);
    if (v->has_keys)
        draw_keys(v, r, s);
}
