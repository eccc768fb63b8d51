/* server/top/request_table.c - see request_table.h.
 *
 * Each order is a comparison for qsort(); ties keep the server's order. Each column has a rank: the
 * columns of the lowest ranks are chosen until the width is used up.
 */
#include "server/top/request_table.h"

#include "server/top/reading.h"
#include "server/top/screen.h"
#include "server/top/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static int compare_place(const struct top_request *a, const struct top_request *b)
{
    return (a->place > b->place) - (a->place < b->place);
}

static int compare_values(const void *a, const void *b, double x, double y)
{
    return x != y ? (x < y) - (x > y) : compare_place(a, b);
}

#define COMPARE(name, field)                                                                       \
    static int compare_##name(const void *a, const void *b)                                        \
    {                                                                                              \
        return compare_values(a, b, (double)((const struct top_request *)a)->field,                \
                              (double)((const struct top_request *)b)->field);                     \
    }
COMPARE(age, age_ms)
COMPARE(rate, rate)
COMPARE(prompt, n_prompt)
COMPARE(generated, n_generated)
COMPARE(blocks, n_blocks)
#undef COMPARE

static int compare_state(const void *a, const void *b)
{
    return compare_place(a, b);
}

static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
} sorts[TOP_N_SORTS] = {
    [TOP_SORT_STATE] = {"state", compare_state},
    [TOP_SORT_AGE] = {"age", compare_age},
    [TOP_SORT_RATE] = {"rate", compare_rate},
    [TOP_SORT_PROMPT] = {"prompt", compare_prompt},
    [TOP_SORT_GENERATED] = {"generated", compare_generated},
    [TOP_SORT_BLOCKS] = {"blocks", compare_blocks},
};

const char *top_sort_name(enum top_sort sort)
{
    return sorts[sort].name;
}

enum top_sort top_sort_of(const char *name)
{
    int i = 0;

    while (i < TOP_N_SORTS && strcmp(sorts[i].name, name) != 0)
        i++;
    return (enum top_sort)i;
}

void top_requests_sort(struct top_reading *r, enum top_sort sort)
{
    if (r->n_requests > 1)
        qsort(r->requests, r->n_requests, sizeof(*r->requests), sorts[sort].compare);
}

/* ---- columns ---- */

enum column {
    COLUMN_REQUEST = 0,
    COLUMN_TENANT,
    COLUMN_MODEL,
    COLUMN_STATE,
    COLUMN_PRIORITY,
    COLUMN_PROMPT,
    COLUMN_CACHED,
    COLUMN_GENERATED,
    COLUMN_MOST,
    COLUMN_RATE,
    COLUMN_BLOCKS,
    COLUMN_AGE,
    COLUMN_QUEUE,
    N_COLUMNS,
};

/* A column with a lower rank is kept in a narrower terminal. */
static const struct {
    const char *title;
    uint32_t width;
    enum top_align align;
    uint32_t rank;
} columns[N_COLUMNS] = {
    [COLUMN_REQUEST] = {"REQUEST", 22, TOP_LEFT, 0},
    [COLUMN_TENANT] = {"TENANT", 12, TOP_LEFT, 7},
    [COLUMN_MODEL] = {"MODEL", 16, TOP_LEFT, 6},
    [COLUMN_STATE] = {"STATE", 9, TOP_LEFT, 1},
    [COLUMN_PRIORITY] = {"PRIORITY", 8, TOP_LEFT, 11},
    [COLUMN_PROMPT] = {"PROMPT", 6, TOP_RIGHT, 5},
    [COLUMN_CACHED] = {"CACHED", 6, TOP_RIGHT, 9},
    [COLUMN_GENERATED] = {"GEN", 6, TOP_RIGHT, 2},
    [COLUMN_MOST] = {"OF", 6, TOP_RIGHT, 12},
    [COLUMN_RATE] = {"TOK/S", 6, TOP_RIGHT, 3},
    [COLUMN_BLOCKS] = {"BLOCKS", 6, TOP_RIGHT, 8},
    [COLUMN_AGE] = {"AGE", 7, TOP_RIGHT, 4},
    [COLUMN_QUEUE] = {"QUEUED", 7, TOP_RIGHT, 10},
};

/* Choose columns by rank, as long as they fit; with one model its name is left out. */
static void choose_columns(bool chosen[N_COLUMNS], uint32_t width, bool has_models)
{
    uint32_t taken = 0;

    for (uint32_t rank = 0; rank < N_COLUMNS; rank++)
        for (int i = 0; i < N_COLUMNS; i++)
            if (columns[i].rank == rank && (i != COLUMN_MODEL || has_models)) {
                const bool fits = taken + columns[i].width <= width || rank == 0;

                chosen[i] = fits;
                taken += fits ? columns[i].width + 1 : width;
            }
}

static const char *cell_text(const struct top_reading *r, const struct top_request *q, int column,
                             struct top_text *t)
{
    switch ((enum column)column) {
    case COLUMN_REQUEST:
        snprintf(t->text, sizeof(t->text), "%" PRIu64, q->id);
        return q->name[0] != '\0' ? q->name : t->text;
    case COLUMN_TENANT:
        return q->tenant[0] != '\0' ? q->tenant : "-";
    case COLUMN_MODEL:
        return r->models[q->model].id;
    case COLUMN_STATE:
        return q->state;
    case COLUMN_PRIORITY:
        return q->priority;
    case COLUMN_PROMPT:
        return *t = top_count(q->n_prompt), t->text;
    case COLUMN_CACHED:
        return *t = top_count(q->n_cached), t->text;
    case COLUMN_GENERATED:
        return *t = top_count(q->n_generated), t->text;
    case COLUMN_MOST:
        return *t = top_count(q->max_tokens), t->text;
    case COLUMN_RATE:
        return *t = top_count(q->rate), t->text;
    case COLUMN_BLOCKS:
        return *t = top_count(q->n_blocks), t->text;
    case COLUMN_AGE:
        return *t = top_time(q->age_ms / 1e3), t->text;
    case COLUMN_QUEUE:
        return *t = top_time(q->queue_ms / 1e3), t->text;
    case N_COLUMNS:
        break;
    }
    return "";
}

static enum top_style style_of(const struct top_request *q, int column)
{
    if (column != COLUMN_STATE)
        return TOP_PLAIN;
    if (strcmp(q->state, "running") == 0)
        return TOP_GOOD;
    return strcmp(q->state, "preempted") == 0 ? TOP_BAD : TOP_BUSY;
}

/* ---- drawing ---- */

static void draw_head(const bool chosen[N_COLUMNS], struct top_screen *s)
{
    for (int i = 0; i < N_COLUMNS; i++)
        if (chosen[i])
            top_screen_cell(s, TOP_TITLE, columns[i].align, columns[i].width, columns[i].title);
    top_screen_end_line(s);
}

static void draw_request(const struct top_reading *r, const struct top_request *q,
                         const bool chosen[N_COLUMNS], struct top_screen *s)
{
    struct top_text t;

    for (int i = 0; i < N_COLUMNS; i++)
        if (chosen[i])
            top_screen_cell(s, style_of(q, i), columns[i].align, columns[i].width,
                            cell_text(r, q, i, &t));
    top_screen_end_line(s);
}

void top_requests_draw(const struct top_reading *r, uint32_t *first, uint32_t n_below,
                       struct top_screen *s)
{
    bool chosen[N_COLUMNS] = {false};
    uint32_t n = top_screen_n_left(s);

    if (n <= n_below + 1)
        return;
    choose_columns(chosen, s->width, r->n_models > 1);
    draw_head(chosen, s);
    n -= n_below + 1;
    if (n >= r->n_requests)
        *first = 0;
    else if (*first > r->n_requests - n)
        *first = r->n_requests - n;
    for (uint32_t i = *first; i < r->n_requests && i - *first < n; i++)
        draw_request(r, &r->requests[i], chosen, s);
}
