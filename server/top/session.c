/* server/top/session.c - see session.h.
 *
 * One thread and one loop, which waits for bytes of a page, keys and signals together: so libcurl's
 * multi interface drives the one transfer. A round asks for one page after the other and fills the
 * reading `next`; at its end that becomes `now`, which is shown.
 */
#include "server/top/session.h"

#include "core/base/err.h"

#include <stdio.h>

#ifdef QUIRE_CURL
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/top/reading.h"
#include "server/top/screen.h"
#include "server/top/view.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef QUIRE_NCURSES
#include <curses.h>
#endif

#define MAX_PAGE ((size_t)64 << 20) /* a list of ten thousand requests has five million bytes */
#define FRAME_MS 1000u /* most time between frames: they show since when no answer comes */
#define N_READINGS 4   /* now, the two that it refers to, and next */

struct session {
    const struct top_options *options;
    char url[1000]; /* http://..., https://... or unix:/PATH */
    CURLM *multi;
    CURL *curl;
    struct buf body;
    char why[CURL_ERROR_SIZE]; /* reason for which there is no answer */
    struct top_screen screen;
    struct top_view view;
    struct top_reading *readings, *now, *next;
    char wanted[TOP_MAX_TEXT];
    bool is_asking; /* in a round: for this page, of this model of `next` */
    enum top_page page;
    uint32_t model, n_answered;           /* n_answered: rounds that had /metrics */
    char failure[400], last_failure[400]; /* of this round, and of the last one */
    bool is_answered, is_over;            /* is_answered: the last round had /metrics */
    uint64_t next_ms;                     /* when the next round is due; 0: now, even if paused */
    uint64_t answered_ms, drawn_ms;
};

/* Draw, with a line about missing answers and the time since the last one. */
static void draw_session(struct session *t)
{
    const unsigned s = (unsigned)((clock_ms() - t->answered_ms) / 1000);
    const uint32_t interval_ms = t->options->interval_ms;
    char trouble[sizeof(t->failure) + 60];

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
        snprintf(t->last_failure, sizeof(t->last_failure), "standard output cannot be written");
}

/* ---- a round ---- */

static void ask_page(struct session *t, enum top_page page, const char *model)
{
    char url[sizeof(t->url) + 600], *escaped = curl_easy_escape(t->curl, model, 0);

    snprintf(url, sizeof(url), "%s%s%s%s",
             strncmp(t->url, "unix:", 5) == 0 ? "http://localhost" : t->url, top_paths[page],
             model[0] != '\0' ? "?model=" : "", escaped != NULL ? escaped : "");
    curl_free(escaped);
    buf_clear(&t->body);
    buf_add_str(&t->body, "");
    t->why[0] = '\0';
    t->page = page;
    curl_easy_setopt(t->curl, CURLOPT_URL, url);
    curl_multi_add_handle(t->multi, t->curl);
}

static void begin_round(struct session *t)
{
    t->is_asking = true;
    t->next_ms = clock_ms() + t->options->interval_ms;
    t->failure[0] = '\0';
    t->next = t->readings;
    while (t->next == t->now || t->next == t->now->before || t->next == t->now->first)
        t->next++;
    top_reading_clear(t->next, t->wanted);
    ask_page(t, TOP_METRICS, "");
}

static void finish_round(struct session *t)
{
    const bool is_once = t->options->is_once;

    t->is_asking = false;
    memcpy(t->last_failure, t->failure, sizeof(t->failure));
    t->is_answered = t->next->has[TOP_METRICS];
    if (t->is_answered) {
        t->answered_ms = clock_ms();
        top_requests_sort(t->now, top_sort_of("state"));
        top_reading_compare(t->next, t->now);
        t->now = t->next;
        t->n_answered++;
    }
    t->is_over = is_once && (!t->is_answered || t->n_answered == 2);
    if (!is_once || t->n_answered == 2)
        draw_session(t);
}

/* After /metrics come the requests of each shown model; if only one is shown, also its steps and KV
 * cache. A model that the server does not have is a failure, and all are shown. */
static void ask_next_page(struct session *t)
{
    struct top_reading *r = t->next;
    const bool is_one = r->n_models == 1 || r->wanted[0] != '\0';

    if (is_one && (t->page == TOP_REQUESTS || t->page == TOP_STEP_TIMES)) {
        ask_page(t, t->page + 1, r->models[t->model]);
        return;
    }
    t->model = t->page == TOP_METRICS ? 0 : t->model + 1;
    while (t->model < r->n_models && r->wanted[0] != '\0' &&
           strcmp(r->models[t->model], r->wanted) != 0)
        t->model++;
    if (t->model < r->n_models && r->has[TOP_METRICS]) {
        ask_page(t, TOP_REQUESTS, r->models[t->model]);
        return;
    }
    if (t->page == TOP_METRICS && r->has[TOP_METRICS] && r->wanted[0] != '\0')
        snprintf(t->failure, sizeof(t->failure), "the server has no model '%.100s'", r->wanted);
    if (t->page == TOP_METRICS)
        r->wanted[0] = '\0';
    finish_round(t);
}

/* Note the reason for which a page is missing; only the first one of a round is shown. The body of
 * an error is {"error": {"message": ...}}. */
static void blame_page(struct session *t, long status)
{
    const char *hint = status == 401   ? "the server wants a key: --key KEY or QUIRE_API_KEY"
                       : status == 403 ? "this page wants an admin's key, as quire key --admin "
                                         "makes it"
                                       : "";
    const char *text, *why;
    cJSON *body = NULL;

    if (t->failure[0] != '\0')
        return;
    (void)json_parse(t->body.data, t->body.len, &body, &why);
    text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(body, "error"), "message"));
    text = text != NULL ? text : "no answer of a Quire server";
    if (status == 0 || status == 200)
        snprintf(t->failure, sizeof(t->failure), "%s: %s", top_paths[t->page],
                 status == 0 ? t->why : "this is no answer of a Quire server");
    else
        snprintf(t->failure, sizeof(t->failure),
                 hint[0] != '\0' ? "%s: %ld, %s (%.200s)" : "%s: %ld, %s%.200s", top_paths[t->page],
                 status, hint, text);
    cJSON_Delete(body);
}

/* Take the page into the reading if it has come. */
static void take_page(struct session *t)
{
    const char *model = t->page == TOP_METRICS ? "" : t->next->models[t->model];
    const CURLMsg *m;
    long status = 0;
    int left;

    curl_multi_perform(t->multi, &left);
    m = curl_multi_info_read(t->multi, &left);
    if (m == NULL)
        return;
    if (m->data.result == CURLE_OK)
        curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    else if (t->why[0] == '\0')
        snprintf(t->why, sizeof(t->why), "%s", curl_easy_strerror(m->data.result));
    curl_multi_remove_handle(t->multi, t->curl);
    if (status != 200 || !top_reading_take(t->next, t->page, model, t->body.data, t->body.len))
        blame_page(t, status);
    ask_next_page(t);
}

/* ---- keys ---- */

#ifdef QUIRE_NCURSES

/* End the round; its reading is not shown. */
static void drop_round(struct session *t)
{
    curl_multi_remove_handle(t->multi, t->curl);
    t->is_asking = false;
}

static void show_next_model(struct session *t)
{
    const struct top_reading *r = t->now;
    uint32_t i = 0;

    while (r->wanted[0] != '\0' && i < r->n_models && strcmp(r->models[i++], r->wanted) != 0)
        ;
    snprintf(t->wanted, sizeof(t->wanted), "%s", i < r->n_models ? r->models[i] : "");
    t->view.first = 0;
    t->next_ms = 0;
    drop_round(t);
}

/* A pause keeps the shown reading, even if a round is nearly over. */
static void take_key(struct session *t, int key)
{
    const double page = t->screen.height / 2;
    const double by = key == KEY_UP      ? -1
                      : key == KEY_DOWN  ? 1
                      : key == KEY_PPAGE ? -page
                      : key == KEY_NPAGE ? page
                                         : 0;

    t->view.first = (uint32_t)fmax(0, t->view.first + by);
    if (key == 'q' || key == KEY_EXIT)
        t->is_over = true;
    else if (key == 's')
        t->view.sort = (t->view.sort + 1) % TOP_N_SORTS;
    else if (key == 'm' && t->now->n_models > 1)
        show_next_model(t);
    else if ((key == 'p' || key == ' ') && (t->view.is_paused = !t->view.is_paused))
        drop_round(t);
}

/* Take all keys; a frame is drawn after keys, and once a second. */
static void take_keys(struct session *t)
{
    bool is_new = clock_ms() - t->drawn_ms >= FRAME_MS;

    for (int key; !t->is_over && (key = top_screen_event(&t->screen)) != ERR; is_new = true)
        take_key(t, key);
    if (is_new && !t->is_over)
        draw_session(t);
}
#endif

/* ---- running ---- */

static void run_loop(struct session *t)
{
    struct curl_waitfd fds[] = {{.fd = t->screen.fds[0], .events = CURL_WAIT_POLLIN},
                                {.fd = t->screen.fds[1], .events = CURL_WAIT_POLLIN}};
    const unsigned n_fds = t->screen.terminal != NULL ? 2 : 0;

    while (!t->is_over) {
        const uint64_t now = clock_ms(),
                       due = t->view.is_paused && t->next_ms > 0 ? UINT64_MAX : t->next_ms;

        if (!t->is_asking && now >= due)
            begin_round(t);
        curl_multi_poll(t->multi, fds, n_fds,
                        t->is_asking || due - now > FRAME_MS ? FRAME_MS : due - now, NULL);
        if (t->is_asking)
            take_page(t);
#ifdef QUIRE_NCURSES
        if (n_fds > 0)
            take_keys(t);
#endif
    }
}

/* True: the text may be put into a request: it is printable, and has no blanks and no character of
 * `except`. */
static bool is_plain_text(const char *text, size_t most, const char *except)
{
    size_t n = 0;

    while (text[n] > ' ' && text[n] <= '~' && strchr(except, text[n]) == NULL)
        n++;
    return text[n] == '\0' && n <= most;
}

/* Take the URL; refuse passwords, queries and bytes that a terminal does not show. */
static bool take_url(struct session *t, const char *url)
{
    const bool has_scheme = strncmp(url, "unix:", 5) == 0 || strstr(url, "://") != NULL;

    if (url[0] == '\0' || !is_plain_text(url, sizeof(t->url) - 8, "\"<>\\^`{|}#?@") ||
        (has_scheme && strncmp(url, "unix:/", 6) != 0 && strncmp(url, "http://", 7) != 0 &&
         strncmp(url, "https://", 8) != 0))
        return false;
    snprintf(t->url, sizeof(t->url), "%s%s", has_scheme ? "" : "http://", url);
    for (size_t n = strlen(t->url); n > 0 && t->url[n - 1] == '/'; n--)
        t->url[n - 1] = '\0';
    return true;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
    return buf_add(ud, bytes, size * n) == 0 ? size * n : 0;
}

static void set_options(struct session *t, const char *key)
{
    const char *bundle = getenv("CURL_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE");
    CURL *e = t->curl;

    if (bundle != NULL && bundle[0] != '\0')
        file = bundle;
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(e, CURLOPT_TIMEOUT,
                     30L); /* a page may wait for the end of the engine's step */
    curl_easy_setopt(e, CURLOPT_USERAGENT, "quire-top");
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, &t->body);
    curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH,
                     strncmp(t->url, "unix:", 5) == 0 ? t->url + strlen("unix:") : NULL);
    if (file != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    curl_easy_setopt(e, CURLOPT_HTTPAUTH, key[0] != '\0' ? CURLAUTH_BEARER : CURLAUTH_NONE);
    curl_easy_setopt(e, CURLOPT_XOAUTH2_BEARER, key);
}

/* Open what a session needs; NULL: done, else the reason for which it cannot begin. */
static const char *open_session(struct session *t)
{
    const struct top_options *o = t->options;

    buf_init(&t->body, MAX_PAGE);
    t->now = t->readings = mem_calloc(N_READINGS, sizeof(*t->readings));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || (t->multi = curl_multi_init()) == NULL ||
        (t->curl = curl_easy_init()) == NULL || t->readings == NULL)
        return "no memory";
    if (!take_url(t, o->url))
        return "the server's URL must be http://HOST:PORT, https://HOST:PORT, HOST:PORT or "
               "unix:/PATH";
    if (!is_plain_text(o->key, 500, ""))
        return "the key must be at most 500 printable characters without blanks";
    set_options(t, o->key);
    t->view = (struct top_view){.url = t->url, .has_keys = !o->is_once, .sort = o->sort};
    snprintf(t->wanted, sizeof(t->wanted), "%s", o->model);
    top_screen_init(&t->screen);
    return NULL;
}

int top_session_run(const struct top_options *options, char *err, size_t err_len)
{
    struct session t = {.options = options, .answered_ms = clock_ms()};
    const char *why = open_session(&t);
    int rc = why != NULL ? ERR_INVAL : 0;

    snprintf(err, err_len, "%s", why != NULL ? why : "");
    if (rc == 0 && !options->is_once)
        rc = top_screen_open(&t.screen, err, err_len);
    if (rc == 0)
        run_loop(&t);
    if (rc == 0 && options->is_once) {
        snprintf(err, err_len, "%s", t.last_failure);
        rc = err[0] != '\0' ? ERR_IO : 0;
    }
    top_screen_close(&t.screen);
    curl_multi_remove_handle(t.multi, t.curl);
    curl_easy_cleanup(t.curl);
    curl_multi_cleanup(t.multi);
    curl_global_cleanup();
    buf_release(&t.body);
    mem_free(t.readings);
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
