/* server/top/view.c - see view.h.
 *
 * The frame is drawn line by line from the top, one function for each line; the screen ignores
 * lines below its height, so nothing here computes a layout. Only the list of models (half of the
 * lines left) and the list of requests (the rest) depend on the height.
 */
#include "server/top/view.h"

#include "server/top/reading.h"
#include "server/top/screen.h"
#include "server/top/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL 9 /* columns of a line's label */
#define BAR 32
#define MAX_OWNERS 64
#define SHOWN_OWNERS 4

struct frame {
    const struct top_reading *now, *before, *first;
    struct top_screen *screen;
};

static void label(struct top_screen *s, const char *text)
{
    top_screen_cell(s, TOP_BOLD, TOP_LEFT, LABEL, text);
}

/* "812 generated ": the number in bold. */
static void value(struct top_screen *s, struct top_text number, const char *what)
{
    top_screen_text(s, TOP_BOLD, number.text);
    top_screen_printf(s, TOP_PLAIN, " %s   ", what);
}

static double view_number(const struct frame *f, enum top_number which)
{
    return top_reading_number(f->now, f->now->shown, which);
}

static double rate(const struct frame *f, enum top_number which)
{
    return top_reading_rate(f->now, f->before, f->now->shown, which);
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

/* ---- lines ---- */

static void draw_title(const struct frame *f, const struct top_view *v)
{
    const struct top_reading *r = f->now;

    top_screen_printf(f->screen, TOP_BOLD, "quire top  %s", v->url);
    if (r->shown < r->n_models)
        top_screen_printf(f->screen, TOP_PLAIN, "  model %s", r->models[r->shown].id);
    if (v->is_paused)
        top_screen_text(f->screen, TOP_BUSY, "  paused");
    if (r->has_metrics)
        top_screen_printf(f->screen, TOP_PLAIN, "  quire %s, up %s", r->version,
                          top_time(r->uptime_s).text);
    top_screen_end_line(f->screen);
    if (v->trouble[0] != '\0') {
        top_screen_text(f->screen, TOP_BAD, v->trouble);
        top_screen_end_line(f->screen);
    }
}

static void draw_requests(const struct frame *f)
{
    label(f->screen, "Requests");
    value(f->screen, top_count(view_number(f, TOP_RUNNING)), "running");
    value(f->screen, top_count(view_number(f, TOP_WAITING)), "queued");
    value(f->screen, top_count(view_number(f, TOP_PREEMPTED)), "preempted now");
    value(f->screen, top_count(view_number(f, TOP_PREEMPTIONS)), "preemptions");
    top_screen_end_line(f->screen);
}

static void draw_tokens(const struct frame *f)
{
    label(f->screen, "Tokens/s");
    value(f->screen, top_count(rate(f, TOP_GENERATION_TOKENS)), "generated");
    value(f->screen, top_count(rate(f, TOP_PROMPT_TOKENS)), "of prompts");
    value(f->screen, top_count(rate(f, TOP_CACHED_TOKENS)), "cached");
    top_screen_end_line(f->screen);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Draw the times of the last steps, as many as there are columns left. */
static void draw_step_times(const struct frame *f)
{
    const struct top_reading *r = f->now;
    double took[TOP_MAX_STEPS], sorted[TOP_MAX_STEPS], sequences = 0;
    const uint32_t n = r->n_steps;
    uint32_t room;

    for (uint32_t i = 0; i < n; i++) {
        took[i] = sorted[i] = r->steps[i].took_ms;
        sequences += r->steps[i].n_sequences;
    }
    if (n == 0) {
        top_screen_text(f->screen, TOP_DIM, "none yet");
        return;
    }
    qsort(sorted, n, sizeof(sorted[0]), compare_doubles);
    value(f->screen, top_time(sorted[n / 2] / 1e3), "median");
    value(f->screen, top_time(sorted[n - 1] / 1e3), "longest");
    value(f->screen, top_count(sequences / n), "sequences");
    room = f->screen->width > f->screen->column ? f->screen->width - f->screen->column : 0;
    room = room < n ? room : n;
    top_screen_heights(f->screen, took + (n - room), room, sorted[n - 1]);
}

/* With several models together only the mean and the rate from the counters are shown. */
static void draw_steps(const struct frame *f)
{
    const double steps = rate(f, TOP_STEPS), seconds = rate(f, TOP_STEP_SECONDS);

    label(f->screen, "Steps");
    if (f->now->has_steps) {
        draw_step_times(f);
    } else {
        value(f->screen, top_time(steps > 0 ? seconds / steps : TOP_UNKNOWN), "mean");
        value(f->screen, top_count(steps), "a second");
    }
    top_screen_end_line(f->screen);
}

/* The latency since the first reading; since the server's start while nothing came after that. */
static void draw_latency(const struct frame *f, const char *name, const struct top_histogram *h,
                         const struct top_histogram *before)
{
    if (top_histogram_quantile(h, before, 0.5) < 0)
        before = NULL;
    top_screen_printf(f->screen, TOP_PLAIN, "%s ", name);
    value(f->screen, top_time(top_histogram_quantile(h, before, 0.5)), "median");
    value(f->screen, top_time(top_histogram_quantile(h, before, 0.95)), "95 %");
}

static void draw_latencies(const struct frame *f)
{
    label(f->screen, "Latency");
    draw_latency(f, "first token", &f->now->first_token, &f->first->first_token);
    draw_latency(f, "between tokens", &f->now->between_tokens, &f->first->between_tokens);
    top_screen_end_line(f->screen);
}

/* ---- the KV cache ---- */

static void draw_cache(const struct frame *f)
{
    const double parts[] = {view_number(f, TOP_KV_HELD), view_number(f, TOP_KV_CACHED)};
    const double total = parts[0] + parts[1] + view_number(f, TOP_KV_FREE);

    label(f->screen, "KV cache");
    top_screen_bar(f->screen, BAR, parts, 2, total);
    top_screen_printf(f->screen, TOP_PLAIN, " %.0f %% held, %.0f %% cached of %s blocks",
                      percent(parts[0], total), percent(parts[1], total), top_count(total).text);
    if (f->now->has_kv)
        top_screen_printf(f->screen, TOP_PLAIN, " of %u tokens, pressure %s, %u swapped",
                          f->now->block_tokens, f->now->pressure, f->now->n_swap_copies);
    top_screen_end_line(f->screen);
}

static void draw_prefixes(const struct frame *f)
{
    const double queries = top_reading_growth(f->now, f->before, f->now->shown, TOP_PREFIX_QUERIES);
    const double hits = top_reading_growth(f->now, f->before, f->now->shown, TOP_PREFIX_HITS);

    label(f->screen, "Prefixes");
    top_screen_printf(f->screen, TOP_PLAIN, "%.0f %% of the tokens looked up were cached",
                      percent(view_number(f, TOP_PREFIX_HITS), view_number(f, TOP_PREFIX_QUERIES)));
    if (queries > 0)
        top_screen_printf(f->screen, TOP_PLAIN, ", %.0f %% now", percent(hits, queries));
    top_screen_end_line(f->screen);
}

struct owner {
    const char *name;
    double n_blocks;
};

static int compare_owners(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;

    return (x->n_blocks < y->n_blocks) - (x->n_blocks > y->n_blocks);
}

/* Count blocks by tenant; a block that several requests hold is counted for each. Tenants beyond
 * MAX_OWNERS are left out. */
static uint32_t find_owners(const struct top_reading *r, struct owner owners[MAX_OWNERS])
{
    uint32_t n = 0, k;

    for (uint32_t i = 0; i < r->n_requests; i++) {
        const struct top_request *q = &r->requests[i];

        for (k = 0; k < n && strcmp(owners[k].name, q->tenant) != 0;)
            k++;
        if (k == n && n < MAX_OWNERS && q->n_blocks > 0)
            owners[n++] = (struct owner){q->tenant, 0};
        if (k < n)
            owners[k].n_blocks += q->n_blocks;
    }
    if (n > 1)
        qsort(owners, n, sizeof(owners[0]), compare_owners);
    return n;
}

static void draw_owners(const struct frame *f)
{
    struct owner owners[MAX_OWNERS];
    const uint32_t n = find_owners(f->now, owners);
    const double total =
        view_number(f, TOP_KV_HELD) + view_number(f, TOP_KV_CACHED) + view_number(f, TOP_KV_FREE);

    for (uint32_t i = 0; i < n && i < SHOWN_OWNERS; i++) {
        label(f->screen, i == 0 ? " held by" : "");
        top_screen_bar(f->screen, BAR, &owners[i].n_blocks, 1, total);
        top_screen_printf(f->screen, TOP_PLAIN, " %s blocks ", top_count(owners[i].n_blocks).text);
        top_screen_text(f->screen, TOP_BOLD, owners[i].name[0] != '\0' ? owners[i].name : "-");
        if (i + 1 == SHOWN_OWNERS && n > SHOWN_OWNERS)
            top_screen_printf(f->screen, TOP_DIM, " and %u more", n - SHOWN_OWNERS);
        top_screen_end_line(f->screen);
    }
}

/* ---- models ---- */

static void draw_model(const struct frame *f, uint32_t i)
{
    const struct top_reading *r = f->now;
    const struct top_model *m = &r->models[i];
    const double parts[] = {m->number[TOP_KV_HELD], m->number[TOP_KV_CACHED]};
    struct top_screen *s = f->screen;

    top_screen_cell(s, TOP_PLAIN, TOP_LEFT, 22, m->id);
    top_screen_cell(s, TOP_PLAIN, TOP_RIGHT, 7, top_count(m->number[TOP_RUNNING]).text);
    top_screen_cell(s, TOP_PLAIN, TOP_RIGHT, 6, top_count(m->number[TOP_WAITING]).text);
    top_screen_cell(s, TOP_PLAIN, TOP_RIGHT, 6,
                    top_count(top_reading_rate(r, f->before, i, TOP_GENERATION_TOKENS)).text);
    top_screen_cell(s, TOP_PLAIN, TOP_RIGHT, 8,
                    top_count(top_reading_rate(r, f->before, i, TOP_PROMPT_TOKENS)).text);
    top_screen_bar(s, BAR, parts, 2, parts[0] + parts[1] + m->number[TOP_KV_FREE]);
    top_screen_end_line(s);
}

/* Use at most half of the lines left; the other half is for the requests. */
static void draw_models(const struct frame *f)
{
    const uint32_t n = f->now->n_models, room = top_screen_n_left(f->screen) / 2;
    const uint32_t n_shown = n < room ? n : room > 0 ? room - 1 : 0;

    if (n < 2 || f->now->shown != TOP_ALL_MODELS)
        return;
    top_screen_cell(f->screen, TOP_TITLE, TOP_LEFT, 22, "MODEL");
    top_screen_cell(f->screen, TOP_TITLE, TOP_RIGHT, 7, "RUNNING");
    top_screen_cell(f->screen, TOP_TITLE, TOP_RIGHT, 6, "QUEUED");
    top_screen_cell(f->screen, TOP_TITLE, TOP_RIGHT, 6, "GEN/S");
    top_screen_cell(f->screen, TOP_TITLE, TOP_RIGHT, 8, "PROMPT/S");
    top_screen_cell(f->screen, TOP_TITLE, TOP_LEFT, BAR, "KV CACHE");
    top_screen_end_line(f->screen);
    for (uint32_t i = 0; i < n_shown; i++)
        draw_model(f, i);
    if (n_shown < n || f->now->n_more_models > 0) {
        top_screen_printf(f->screen, TOP_DIM, "and %u more", n + f->now->n_more_models - n_shown);
        top_screen_end_line(f->screen);
    }
}

/* ---- the frame ---- */

static void draw_numbers(const struct frame *f)
{
    draw_requests(f);
    draw_tokens(f);
    draw_steps(f);
    draw_latencies(f);
    draw_cache(f);
    draw_owners(f);
    draw_prefixes(f);
    draw_models(f);
}

static void draw_keys(const struct frame *f, const struct top_view *v)
{
    while (top_screen_n_left(f->screen) > 1)
        top_screen_end_line(f->screen);
    top_screen_printf(f->screen, TOP_DIM, "q quit  p %s  s sort: %s  ",
                      v->is_paused ? "go on" : "pause", top_sort_name(v->sort));
    if (f->now->n_models > 1)
        top_screen_printf(f->screen, TOP_DIM, "m model: %s  ",
                          f->now->shown < f->now->n_models ? f->now->models[f->now->shown].id
                                                           : "all");
    if (f->now->n_requests > 0)
        top_screen_printf(f->screen, TOP_DIM, "arrows: from %u of %u", v->first + 1,
                          f->now->n_requests);
    top_screen_end_line(f->screen);
}

void top_view_draw(struct top_view *v, struct top_reading *now, const struct top_reading *before,
                   const struct top_reading *first, struct top_screen *s)
{
    const struct frame f = {now, before, first, s};

    top_screen_begin(s);
    draw_title(&f, v);
    if (now->has_metrics)
        draw_numbers(&f);
    top_requests_sort(now, v->sort);
    if (now->has_requests)
        top_requests_draw(now, &v->first, v->has_keys, s);
    if (v->has_keys)
        draw_keys(&f, v);
    top_screen_end(s);
}
