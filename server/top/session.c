/* server/top/session.c - see session.h.
 *
 * One thread: a round asks for one page after the other, and while it waits for an answer, keys are
 * handled and the last reading is drawn. A round fills the reading `next`; at its end that becomes
 * `now`, which is shown.
 */
#include "server/top/session.h"

#include "core/base/err.h"

#include <stdio.h>

#ifdef QUIRE_CURL
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/top/client.h"
#include "server/top/reading.h"
#include "server/top/screen.h"

#include <string.h>

#ifdef QUIRE_NCURSES
#include <curses.h>
#endif

#define MAX_TROUBLE 400
/* Interval of frames while no answer comes, which show the time since the last one. */
#define TROUBLE_MS 1000u

struct session {
    const struct top_options *options;
    struct top_client client;
    struct top_screen screen;
    struct top_view view;
    struct top_reading *now, *next;
    char wanted[TOP_MAX_NAME];
    char failure[MAX_TROUBLE], last_failure[MAX_TROUBLE]; /* failure of this round, and of the last
                                                           * one */
    bool is_asking, is_answered; /* in a round; the last one had /metrics */
    bool is_dropped, is_forced;  /* this round; a round is due although paused: another model */
    bool is_over;
    uint64_t next_ms; /* time at which the next round begins */
    uint64_t answered_ms, drawn_ms;
};

/* ---- drawing and keys ---- */

/* Draw, with a line about missing answers and the time since the last one. */
static void draw_session(struct session *t)
{
    const unsigned s = (unsigned)((clock_ms() - t->answered_ms) / 1000);
    const uint32_t interval_ms = t->options->interval_ms;
    char trouble[MAX_TROUBLE + 60];

    snprintf(trouble, sizeof(trouble), "%s", t->last_failure);
    if (t->last_failure[0] != '\0' && !t->is_answered)
        snprintf(trouble, sizeof(trouble), "%s (nothing for %u s; asked again every %.1f s)",
                 t->last_failure, s, interval_ms / 1e3);
    else if (t->is_asking && s > 2 + 2 * interval_ms / 1000)
        snprintf(trouble, sizeof(trouble), "no answer for %u s", s);
    t->view.trouble = trouble;
    t->drawn_ms = clock_ms();
    top_screen_begin(&t->screen);
    top_view_draw(&t->view, t->now, &t->screen);
    if (!top_screen_end(&t->screen)) /* a file */
        snprintf(t->last_failure, MAX_TROUBLE, "standard output cannot be written");
}

#ifdef QUIRE_NCURSES

static void show_next_model(struct session *t)
{
    const struct top_reading *r = t->now;
    uint32_t i = 0;

    while (r->shown.id[0] != '\0' && i < r->n_models && strcmp(r->models[i++].id, r->shown.id) != 0)
        ;
    snprintf(t->wanted, sizeof(t->wanted), "%s", i < r->n_models ? r->models[i].id : "");
    t->view.first = 0;
    t->is_dropped = t->is_forced = true;
}

/* Pause or continue. A pause keeps the shown reading, even if a round is nearly over. */
static void pause_or_go_on(struct session *t)
{
    t->view.is_paused = !t->view.is_paused;
    t->is_dropped |= t->view.is_paused;
}

static void scroll_requests(struct session *t, int64_t by)
{
    t->view.first = t->view.first + by > 0 ? (uint32_t)(t->view.first + by) : 0;
}

static void take_key(struct session *t, int key)
{
    const int64_t page = t->screen.height / 2;

    if (key == 'q' || key == KEY_EXIT)
        t->is_over = true;
    else if (key == 'p' || key == ' ')
        pause_or_go_on(t);
    else if (key == 's')
        t->view.sort = (t->view.sort + 1) % TOP_N_SORTS;
    else if (key == 'm' && t->now->n_models > 1)
        show_next_model(t);
    else if (key == KEY_UP || key == KEY_DOWN)
        scroll_requests(t, key == KEY_UP ? -1 : 1);
    else if (key == KEY_PPAGE || key == KEY_NPAGE)
        scroll_requests(t, key == KEY_PPAGE ? -page : page);
}
#endif

/* Wait for an answer, at most `ms`. On the terminal keys are handled meanwhile; a frame is drawn
 * after keys, and once a second. */
static struct top_answer *wait_for_answer(struct session *t, uint64_t ms)
{
    struct top_answer *a = top_client_wait(&t->client, t->screen.fds, t->screen.is_terminal ? 2 : 0,
                                           (int)(ms < TROUBLE_MS ? ms : TROUBLE_MS));
#ifdef QUIRE_NCURSES
    if (t->screen.is_terminal) {
        bool is_new = clock_ms() - t->drawn_ms >= TROUBLE_MS;

        for (int key; !t->is_over && (key = top_screen_event(&t->screen)) != ERR; is_new = true)
            take_key(t, key);
        if (is_new && !t->is_over)
            draw_session(t);
    }
#endif
    return a;
}

/* ---- a round ---- */

static const char *status_hint(long status)
{
    return status == 401   ? "the server wants a key: --key KEY or QUIRE_API_KEY"
           : status == 403 ? "this page wants an admin's key, as quire key --admin makes it"
                           : NULL;
}

/* Note the reason for which a page is missing; only the first one of a round is shown. The body of
 * an error is {"error": {"message": ...}}. */
static void blame_page(struct session *t, const char *path, const struct top_answer *a)
{
    const char *hint = status_hint(a->status), *text, *why;
    cJSON *body = NULL;

    if (t->failure[0] != '\0')
        return;
    (void)json_parse(a->body.data, a->body.len, &body, &why);
    text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(body, "error"), "message"));
    text = text != NULL ? text : "no answer of a Quire server";
    if (a->status == 0 || a->status == 200)
        snprintf(t->failure, MAX_TROUBLE, "%s: %s", path,
                 a->status == 0 ? a->why : "this is no answer of a Quire server");
    else if (hint != NULL)
        snprintf(t->failure, MAX_TROUBLE, "%s: %ld, %s (%.200s)", path, a->status, hint, text);
    else
        snprintf(t->failure, MAX_TROUBLE, "%s: %ld, %.200s", path, a->status, text);
    cJSON_Delete(body);
}

/* Fetch a page, and take it into the reading. */
static void fetch_page(struct session *t, enum top_page page, const char *model)
{
    static const char *const paths[] = {"/metrics", "/debug/requests", "/debug/iterations",
                                        "/debug/kv"};
    struct top_answer *a = NULL;

    top_client_ask(&t->client, paths[page], model);
    while (a == NULL && !t->is_dropped && !t->is_over)
        a = wait_for_answer(t, TROUBLE_MS);
    if (a != NULL &&
        (a->status != 200 || !top_reading_take(t->next, page, model, a->body.data, a->body.len)))
        blame_page(t, paths[page], a);
}

/* Fetch /metrics and the requests of each shown model; if only one is shown, also its steps and KV
 * cache. */
static void fetch_pages(struct session *t)
{
    const struct top_reading *r = t->next;
    const char *last = "";
    uint32_t n = 0;

    fetch_page(t, TOP_METRICS, "");
    if (!r->has[TOP_METRICS])
        return;
    for (uint32_t i = 0; i < r->n_models; i++)
        if (r->wanted[0] == '\0' || strcmp(r->models[i].id, r->wanted) == 0) {
            fetch_page(t, TOP_REQUESTS, last = r->models[i].id);
            n++;
        }
    if (n == 1) {
        fetch_page(t, TOP_STEP_TIMES, last);
        fetch_page(t, TOP_KV, last);
    }
    if (n == 0 && r->wanted[0] != '\0')
        snprintf(t->failure, MAX_TROUBLE, "the server has no model '%.100s'", r->wanted);
}

static void run_round(struct session *t)
{
    struct top_reading *r = t->next;

    t->is_dropped = t->is_forced = false;
    t->is_asking = true;
    t->next_ms = clock_ms() + t->options->interval_ms;
    t->failure[0] = '\0';
    top_reading_clear(r, t->wanted);
    fetch_pages(t);
    t->is_asking = false;
    if (t->is_dropped || t->is_over)
        return;
    memcpy(t->last_failure, t->failure, MAX_TROUBLE);
    t->is_answered = r->has[TOP_METRICS];
    if (!t->is_answered)
        return;
    t->answered_ms = clock_ms();
    top_requests_sort(t->now, top_sort_of("state"));
    top_reading_compare(r, t->now);
    t->next = t->now;
    t->now = r;
}

/* ---- running ---- */

/* Make a first reading, and after the interval the one that is printed, with rates since the
 * first. */
static int print_once(struct session *t, char *err, size_t err_len)
{
    run_round(t);
    for (uint64_t now = clock_ms(); t->is_answered && now < t->next_ms; now = clock_ms())
        (void)wait_for_answer(t, t->next_ms - now);
    if (t->is_answered)
        run_round(t);
    if (t->is_answered)
        draw_session(t);
    snprintf(err, err_len, "%s", t->last_failure);
    return err[0] == '\0' ? 0 : ERR_IO;
}

static int run_in_terminal(struct session *t, char *err, size_t err_len)
{
#ifdef QUIRE_NCURSES
    const int rc = top_screen_open(&t->screen, err, err_len);

    while (rc == 0 && !t->is_over) {
        const uint64_t now = clock_ms();

        if (t->is_forced || (!t->view.is_paused && now >= t->next_ms)) {
            run_round(t);
            draw_session(t);
        } else {
            (void)wait_for_answer(t, t->view.is_paused ? TROUBLE_MS : t->next_ms - now);
        }
    }
    top_screen_close(&t->screen);
    return rc;
#else
    (void)t;
    snprintf(err, err_len,
             "this binary was built without ncurses (Debian: libncurses-dev) and has no screen: "
             "quire top --once prints the numbers once");
    return ERR_UNSUPPORTED;
#endif
}

int top_session_run(const struct top_options *options, char *err, size_t err_len)
{
    struct session t = {.options = options, .answered_ms = clock_ms()};
    struct top_reading *readings = mem_calloc(2, sizeof(*readings));
    int rc = readings == NULL ? ERR_NOMEM : 0;

    snprintf(err, err_len, "no memory");
    if (rc == 0)
        rc = top_client_open(&t.client, options->url, options->key, err, err_len);
    if (rc == 0) {
        t.now = &readings[0];
        t.next = &readings[1];
        t.view = (struct top_view){
            .url = t.client.url, .has_keys = !options->is_once, .sort = options->sort};
        snprintf(t.wanted, sizeof(t.wanted), "%s", options->model);
        top_screen_init(&t.screen);
        rc = (options->is_once ? print_once : run_in_terminal)(&t, err, err_len);
    }
    top_client_close(&t.client);
    mem_free(readings);
    return rc;
}
#else
int top_session_run(const struct top_options *options, char *err, size_t err_len)
{
    (void)options;
    snprintf(err, err_len,
             "this binary was built without libcurl (Debian: libcurl4-gnutls-dev) and cannot ask a "
             "server; the same numbers are on its page, at /");
    return ERR_UNSUPPORTED;
}
#endif
