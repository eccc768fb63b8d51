/* server/top/session.c - see session.h.
 *
 * One thread with one loop: top_client_wait() waits for answers, keys and signals at once, at most
 * until the next round or frame is due. Readings are kept in three structs that change roles: `now`
 * is shown, `before` gives rates, `spare` is filled by the next round. `first` is the reading that
 * latencies are counted from.
 */
#include "server/top/session.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/top/client.h"
#include "server/top/reading.h"
#include "server/top/round.h"
#include "server/top/screen.h"
#include "server/top/terminal.h"
#include "server/top/view.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The width of a file, unless COLUMNS is set. */
#define FILE_WIDTH 132
#define MIN_WIDTH 20
#define MAX_WIDTH 1000
/* How often a frame is drawn while there is no answer, to show how long that has been so. */
#define TROUBLE_MS 1000u

struct session {
    struct top_options options;
    struct top_client *client;
    struct top_terminal terminal;
    struct top_screen screen;
    struct top_round round;
    struct top_view view;
    struct top_reading *now, *before, *spare, *first;
    char wanted[TOP_MAX_NAME];
    char trouble[TOP_MAX_TROUBLE + 60];
    uint64_t next_ms;     /* when the next round begins */
    uint64_t answered_ms; /* time of the last reading; at first, of the start */
    uint64_t drawn_ms;
    bool is_asking, is_over;
};

/* ---- drawing ---- */

static bool is_utf8(void)
{
    return setlocale(LC_CTYPE, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static uint32_t file_width(void)
{
    const char *text = getenv("COLUMNS");
    const unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 0;

    return n == 0          ? FILE_WIDTH
           : n < MIN_WIDTH ? MIN_WIDTH
           : n > MAX_WIDTH ? MAX_WIDTH
                           : (uint32_t)n;
}

static void prepare_screen(struct session *t)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool is_dumb = term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0;

    top_screen_init(&t->screen);
    t->screen.has_utf8 = is_utf8();
    t->screen.has_styles = !t->options.is_once;
    t->screen.has_colours = !is_dumb && (no_color == NULL || no_color[0] == '\0');
    t->screen.width = file_width();
    t->screen.height = UINT32_MAX;
}

/* Fill the line about missing answers, with the time since the last one. */
static void tell_trouble(struct session *t)
{
    const uint64_t s = (clock_ms() - t->answered_ms) / 1000;

    snprintf(t->trouble, sizeof(t->trouble), "%s", t->round.trouble);
    if (t->round.trouble[0] != '\0' && !t->round.has_answer && !t->options.is_once)
        snprintf(t->trouble, sizeof(t->trouble), "%s (nothing for %u s; asked again every %.1f s)",
                 t->round.trouble, (unsigned)s, t->options.interval_ms / 1e3);
    else if (t->is_asking && s > 2 + 2 * t->options.interval_ms / 1000)
        snprintf(t->trouble, sizeof(t->trouble), "no answer for %u s", (unsigned)s);
}

static void draw_session(struct session *t)
{
    if (t->terminal.is_open)
        top_terminal_size(&t->screen.width, &t->screen.height);
    t->drawn_ms = clock_ms();
    tell_trouble(t);
    top_view_draw(&t->view, t->now, t->before, t->first, &t->screen);
    if (!top_terminal_write(t->screen.frame.data, t->screen.frame.len))
        t->is_over = true;
}

/* ---- readings ---- */

static void begin_round(struct session *t)
{
    t->is_asking = true;
    t->next_ms = clock_ms() + t->options.interval_ms;
    top_round_begin(&t->round, t->client, t->now, t->wanted);
}

/* Keep a reading that latencies are counted from. */
static void remember_first(struct session *t)
{
    *t->first = *t->now;
    t->first->requests = NULL;
    t->first->n_requests = t->first->n_room = 0;
}

/* Take the answers. The first round of a server asks for its models only, and the next one follows
 * at once. */
static void take_round(struct session *t)
{
    struct top_reading *r = t->spare;
    const bool is_other = !t->now->has_metrics || strcmp(t->now->wanted, t->wanted) != 0;

    t->is_asking = false;
    if (!top_round_take(&t->round, t->client, r, t->wanted))
        return;
    t->answered_ms = clock_ms();
    top_reading_compare(r, t->now);
    t->spare = t->before;
    t->before = t->now;
    t->now = r;
    if (!t->round.has_asked_models && r->n_models > 0) {
        top_reading_clear(t->before, t->wanted);
        t->next_ms = t->answered_ms;
    }
    if (is_other || r->uptime_s < t->before->uptime_s)
        remember_first(t);
}

/* ---- keys ---- */

static void show_next_model(struct session *t)
{
    const struct top_reading *r = t->now;
    const uint32_t next = r->shown == TOP_ALL_MODELS ? 0 : r->shown + 1;

    snprintf(t->wanted, sizeof(t->wanted), "%s", next < r->n_models ? r->models[next].id : "");
    t->view.first = 0;
    begin_round(t);
}

static void scroll(struct session *t, int by)
{
    const int64_t first = (int64_t)t->view.first + by;

    t->view.first = first > 0 ? (uint32_t)first : 0;
}

static void take_session_key(struct session *t, int key)
{
    switch (key) {
    case 'q':
        t->is_over = true;
        break;
    case 'p':
    case ' ':
        t->view.is_paused = !t->view.is_paused;
        break;
    case 's':
        t->view.sort = (t->view.sort + 1) % TOP_N_SORTS;
        break;
    case 'm':
        if (t->now->n_models > 1)
            show_next_model(t);
        break;
    default:
        break;
    }
}

static void take_event(struct session *t, int event)
{
    const int page = (int)(t->screen.height / 2);

    if (event == TOP_END)
        t->is_over = true;
    else if (event == TOP_UP || event == TOP_DOWN)
        scroll(t, event == TOP_UP ? -1 : 1);
    else if (event == TOP_PAGE_UP || event == TOP_PAGE_DOWN)
        scroll(t, event == TOP_PAGE_UP ? -page : page);
    else if (event >= TOP_KEY)
        take_session_key(t, event - TOP_KEY);
}

/* ---- the loop ---- */

static int time_left(const struct session *t)
{
    const uint64_t now = clock_ms();
    uint64_t ms = TROUBLE_MS;

    if (!t->is_asking && !t->view.is_paused)
        ms = t->next_ms > now ? t->next_ms - now : 0;
    return (int)(ms < TROUBLE_MS ? ms : TROUBLE_MS);
}

/* Handle all keys and signals; false: there were none. */
static bool take_events(struct session *t)
{
    bool is_any = false;
    int event;

    while (!t->is_over && (event = top_terminal_next(&t->terminal)) != TOP_NOTHING) {
        take_event(t, event);
        is_any = true;
    }
    return is_any;
}

/* Draw a frame when something is new, and once a second. */
static void loop(struct session *t)
{
    while (!t->is_over) {
        bool is_new = false;

        if (!t->is_asking && !t->view.is_paused && clock_ms() >= t->next_ms)
            begin_round(t);
        if (top_client_wait(t->client, t->terminal.fds, 2, time_left(t)) && t->is_asking) {
            take_round(t);
            is_new = true;
        }
        is_new |= take_events(t);
        if (!t->is_over && (is_new || clock_ms() - t->drawn_ms >= TROUBLE_MS))
            draw_session(t);
    }
}

/* Three rounds: the list of models, a first reading, and after the interval the one that is shown,
 * with rates since the first. */
static int once(struct session *t, char *err, size_t err_len)
{
    for (int i = 0; i < 3; i++) {
        const uint64_t now = clock_ms();

        if (i > 0 && t->next_ms > now)
            (void)poll(NULL, 0, (int)(t->next_ms - now));
        begin_round(t);
        while (!top_client_wait(t->client, NULL, 0, 1000))
            ;
        take_round(t);
        if (!t->round.has_answer) {
            snprintf(err, err_len, "%s", t->round.trouble);
            return ERR_IO;
        }
    }
    draw_session(t);
    snprintf(err, err_len, "%s", t->round.trouble);
    return t->round.trouble[0] != '\0' || t->is_over ? ERR_IO : 0;
}

static int make_session(struct session *t, char *err, size_t err_len)
{
    t->now = mem_calloc(1, sizeof(*t->now));
    t->before = mem_calloc(1, sizeof(*t->before));
    t->spare = mem_calloc(1, sizeof(*t->spare));
    t->first = mem_calloc(1, sizeof(*t->first));
    if (t->now == NULL || t->before == NULL || t->spare == NULL || t->first == NULL) {
        snprintf(err, err_len, "no memory");
        return ERR_NOMEM;
    }
    prepare_screen(t);
    t->view = (struct top_view){.url = top_client_url(t->client),
                                .trouble = t->trouble,
                                .has_keys = !t->options.is_once,
                                .sort = t->options.sort};
    t->answered_ms = clock_ms();
    return t->options.is_once ? 0 : top_terminal_open(&t->terminal, err, err_len);
}

static void release(struct session *t)
{
    struct top_reading *readings[] = {t->now, t->before, t->spare, t->first};

    top_terminal_close(&t->terminal);
    top_screen_release(&t->screen);
    top_client_close(&t->client);
    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
        if (readings[i] != NULL)
            top_reading_release(readings[i]);
        mem_free(readings[i]);
    }
}

int top_session_run(const struct top_options *options, char *err, size_t err_len)
{
    struct session t = {.options = *options};
    int rc;

    snprintf(t.wanted, sizeof(t.wanted), "%s", options->model);
    rc = top_client_open(&t.client, options->url, options->key, err, err_len);
    if (rc == 0)
        rc = make_session(&t, err, err_len);
    if (rc == 0 && options->is_once)
        rc = once(&t, err, err_len);
    else if (rc == 0)
        loop(&t);
    release(&t);
    return rc;
}
