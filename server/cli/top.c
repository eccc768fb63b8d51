/* server/cli/top.c - `quire top`: shows the activity of a server in a terminal.
 *
 * A round asks for one page after the other and fills the reading `next`; at its end that becomes
 * `now`, which is shown. While the command waits for a page or for the next round, it handles keys
 * and draws: libcurl's multi interface waits for all of them together.
 */
#include "server/cli/command.h"

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/models/instance.h"
#include "server/top/reading.h"
#include "server/top/screen.h"
#include "server/top/view.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef QUIRE_CURL
#include <curl/curl.h>
#endif
#ifdef QUIRE_NCURSES
#include <curses.h>
#endif

#define DEFAULT_URL "http://127.0.0.1:8080"
#define MAX_PAGE ((size_t)64 << 20) /* a list of ten thousand requests has five million bytes */
#define FRAME_MS 1000u /* most time between frames: they show since when no answer comes */
#define N_READINGS 4   /* now, the two that it refers to, and next */
/* Characters of a URL without user, query and fragment, and further ones of a key. */
#define URL_CHARACTERS                                                                             \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!$%&'()*+,-./:;=[]_~"
#define KEY_CHARACTERS URL_CHARACTERS "\"<>\\^`{|}#?@"

static void print_top_help(void)
{
    fputs("quire top [URL] [options]\n"
          "\n"
          "Shows what a server is doing and refreshes it: requests, tokens per second, steps,\n"
          "latencies and the KV cache with its owners.\n"
          "\n"
          "  URL         http://HOST:PORT, https://HOST:PORT, HOST:PORT or unix:/PATH\n"
          "              [" DEFAULT_URL "]\n"
          "  --once      print the numbers once, for a file or a pipe\n"
          "  --key       API key with admin rights, if the server needs keys [QUIRE_API_KEY]\n"
          "  --interval  seconds between two readings, from 0.2 to 60 [2]\n"
          "  --model     the model to show [all]\n"
          "  --sort      state, age, rate, prompt, generated or blocks [state]\n"
          "\n"
          "Keys: q quit, p pause, s next order, m next model, arrows and page up or down scroll.\n"
          "\n"
          "Environment: QUIRE_API_KEY; NO_COLOR; CURL_CA_BUNDLE or SSL_CERT_FILE, a file of\n"
          "certificates to trust; COLUMNS, the width that --once prints. No proxy is used.\n",
          stdout);
}

#ifdef QUIRE_CURL
struct session {
    char url[1000], key[600]; /* url: http://..., https://... or unix:/PATH; key: "": none */
    uint32_t interval_ms;
    bool is_once;
    CURLM *multi;
    CURL *curl;
    struct buf body;
    char why[CURL_ERROR_SIZE]; /* libcurl's reason for a missing answer */
    struct top_screen screen;
    struct top_view view;
    struct top_reading *readings, *now, *next;
    char wanted[TOP_MAX_TEXT];
    char failure[400], last_failure[400]; /* of this round, and of the last one */
    bool is_asking, is_over;              /* is_asking: in a round; a key may end it */
    bool is_answered;                     /* the last round had /metrics */
    uint32_t n_answered;                  /* rounds that had */
    uint64_t next_ms;                     /* when the next round is due; 0: now, even if paused */
    uint64_t answered_ms, drawn_ms;       /* answered_ms: the end of the last round that had */
};

/* Draw, with a line about missing answers and the time since the last one. */
static void draw_session(struct session *t)
{
    const unsigned s = (unsigned)((clock_ms() - t->answered_ms) / 1000);
    char trouble[sizeof(t->failure) + 60];

    snprintf(trouble, sizeof(trouble), "%s", t->last_failure);
    if (t->last_failure[0] != '\0' && !t->is_answered)
        snprintf(trouble, sizeof(trouble), "%s (nothing for %u s; asked again every %.1f s)",
                 t->last_failure, s, t->interval_ms / 1e3);
    else if (t->is_asking && s > 2 + 2 * t->interval_ms / 1000)
        snprintf(trouble, sizeof(trouble), "no answer for %u s", s);
    t->view.trouble = trouble;
    t->drawn_ms = clock_ms();
    top_screen_begin(&t->screen);
    top_view_draw(&t->view, t->now, &t->screen);
    if (!top_screen_end(&t->screen)) /* a file */
        snprintf(t->last_failure, sizeof(t->last_failure), "standard output cannot be written");
}

/* ---- keys ---- */

#ifdef QUIRE_NCURSES
static void show_next_model(struct session *t)
{
    const struct top_reading *r = t->now;
    uint32_t i = 0;

    while (r->wanted[0] != '\0' && i < r->n_models && strcmp(r->models[i++], r->wanted) != 0)
        ;
    snprintf(t->wanted, sizeof(t->wanted), "%s", i < r->n_models ? r->models[i] : "");
    t->view.first = 0;
    t->next_ms = 0;
    t->is_asking = false;
}

/* A pause keeps the shown reading, even if a round is nearly over. */
static void take_key(struct session *t, int key)
{
    const uint32_t page = t->screen.height / 2, first = t->view.first;

    if (key == 'q' || key == KEY_EXIT)
        t->is_over = !(t->is_asking = false);
    else if (key == KEY_UP || key == KEY_PPAGE)
        t->view.first -= key == KEY_UP ? first > 0 : first < page ? first : page;
    else if (key == KEY_DOWN || key == KEY_NPAGE)
        t->view.first += key == KEY_DOWN ? 1 : page;
    else if (key == 's')
        t->view.sort = (t->view.sort + 1) % TOP_N_SORTS;
    else if (key == 'm' && t->now->n_models > 1)
        show_next_model(t);
    else if ((key == 'p' || key == ' ') && (t->view.is_paused = !t->view.is_paused))
        t->is_asking = false;
}
#endif

/* Wait for the transfer, keys and signals; handle all keys. A frame is drawn after keys, and once a
 * second. */
static void wait_events(struct session *t, uint64_t ms)
{
    struct curl_waitfd fds[] = {{.fd = 0, .events = CURL_WAIT_POLLIN},
                                {.fd = t->screen.signals, .events = CURL_WAIT_POLLIN}};
    bool is_new;

    ms = ms < FRAME_MS ? ms : FRAME_MS;
    curl_multi_poll(t->multi, fds, t->screen.terminal != NULL ? 2 : 0, (int)ms, NULL);
    is_new = clock_ms() - t->drawn_ms >= FRAME_MS;
#ifdef QUIRE_NCURSES
    for (int key;
         !t->is_over && t->screen.terminal != NULL && (key = top_screen_event(&t->screen)) != ERR;
         is_new = true)
        take_key(t, key);
#endif
    if (t->screen.terminal != NULL && is_new && !t->is_over)
        draw_session(t);
}

/* ---- a round ---- */

/* Note the reason for which a page is missing; only the first one of a round is shown. The body of
 * an error is {"error": {"message": ...}}. */
static void note_failure(struct session *t, enum top_page page, long status)
{
    const char *hint = status == 401   ? "the server wants a key: --key KEY or QUIRE_API_KEY ("
                       : status == 403 ? "this page wants an admin's key, as quire key --admin "
                                         "makes it ("
                                       : "";
    const char *text, *why;
    cJSON *body = NULL;

    if (t->failure[0] != '\0')
        return;
    (void)json_parse(t->body.data, t->body.len, &body, &why);
    text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(body, "error"), "message"));
    if (status == 0 || status == 200)
        snprintf(t->failure, sizeof(t->failure), "%s: %s", top_paths[page],
                 status == 0 ? t->why : "this is no answer of a Quire server");
    else
        snprintf(t->failure, sizeof(t->failure), "%s: %ld, %s%.200s%s", top_paths[page], status,
                 hint, text != NULL ? text : "no answer of a Quire server",
                 hint[0] != '\0' ? ")" : "");
    cJSON_Delete(body);
}

/* Get a page into t->body. Returns its status; 0: there is no answer, or the round was ended. */
static long get_page(struct session *t, enum top_page page, const char *model)
{
    char url[sizeof(t->url) + 600], *escaped = curl_easy_escape(t->curl, model, 0);
    const CURLMsg *m;
    long status = 0;
    int n = 1;

    snprintf(url, sizeof(url), "%s%s%s%s", t->url[0] == 'u' ? "http://localhost" : t->url,
             top_paths[page], model[0] != '\0' ? "?model=" : "", escaped != NULL ? escaped : "");
    curl_free(escaped);
    buf_clear(&t->body);
    buf_add_str(&t->body, "");
    t->why[0] = '\0';
    curl_easy_setopt(t->curl, CURLOPT_URL, url);
    curl_multi_add_handle(t->multi, t->curl);
    while (t->is_asking && curl_multi_perform(t->multi, &n) == CURLM_OK && n > 0)
        wait_events(t, FRAME_MS);
    m = curl_multi_info_read(t->multi, &n);
    if (m != NULL && m->data.result == CURLE_OK)
        curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    else if (m != NULL && t->why[0] == '\0')
        snprintf(t->why, sizeof(t->why), "%s", curl_easy_strerror(m->data.result));
    curl_multi_remove_handle(t->multi, t->curl);
    return status;
}

static void take_page(struct session *t, enum top_page page, const char *model)
{
    const long status = get_page(t, page, model);

    if (t->is_asking &&
        (status != 200 || !top_reading_take(t->next, page, model, t->body.data, t->body.len)))
        note_failure(t, page, status);
}

/* Take /metrics, then the requests of each shown model; if only one is shown, also its steps and KV
 * cache. Without the model that is wanted, the numbers of all are shown. */
static void take_pages(struct session *t)
{
    struct top_reading *r = t->next;
    const char *wanted = r->wanted;
    const bool is_any = wanted[0] == '\0';
    bool is_found = is_any;

    take_page(t, TOP_METRICS, "");
    for (uint32_t i = 0; i < r->n_models && r->has[TOP_METRICS]; i++) {
        if (!is_any && strcmp(r->models[i], wanted) != 0)
            continue;
        is_found = true;
        take_page(t, TOP_REQUESTS, r->models[i]);
        if (!is_any || r->n_models == 1) {
            take_page(t, TOP_STEP_TIMES, r->models[i]);
            take_page(t, TOP_KV, r->models[i]);
        }
    }
    if (is_found || !r->has[TOP_METRICS])
        return;
    snprintf(t->failure, sizeof(t->failure), "the server has no model '%.100s'", wanted);
    r->wanted[0] = '\0';
}

static void run_round(struct session *t)
{
    t->is_asking = true;
    t->next_ms = clock_ms() + t->interval_ms;
    t->failure[0] = '\0';
    t->next = t->readings;
    while (t->next == t->now || t->next == t->now->before || t->next == t->now->first)
        t->next++;
    top_reading_clear(t->next, t->wanted);
    take_pages(t);
    if (!t->is_asking)
        return;
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
    t->is_over = t->is_once && (!t->is_answered || t->n_answered == 2);
    if (!t->is_once || t->n_answered == 2)
        draw_session(t);
}

static void run_rounds(struct session *t)
{
    while (!t->is_over) {
        const uint64_t now = clock_ms();

        if (t->view.is_paused && t->next_ms > 0)
            wait_events(t, FRAME_MS);
        else if (now < t->next_ms)
            wait_events(t, t->next_ms - now);
        else
            run_round(t);
    }
}

/* ---- running ---- */

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
    return buf_add(ud, bytes, size * n) == 0 ? size * n : 0;
}

/* The key is only sent to this server: no proxy is used, redirects are not followed, and
 * certificates are verified. */
static void set_transfer(struct session *t)
{
    const char *bundle = getenv("CURL_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE");
    CURL *e = t->curl;

    if (bundle != NULL && bundle[0] != '\0')
        file = bundle;
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(e, CURLOPT_TIMEOUT, 30L); /* a page may wait for the end of a step */
    curl_easy_setopt(e, CURLOPT_USERAGENT, "quire-top");
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, &t->body);
    if (t->url[0] == 'u')
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, t->url + strlen("unix:"));
    if (file != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    curl_easy_setopt(e, CURLOPT_HTTPAUTH, t->key[0] != '\0' ? CURLAUTH_BEARER : CURLAUTH_NONE);
    curl_easy_setopt(e, CURLOPT_XOAUTH2_BEARER, t->key);
}

/* Run until the end. ERR_*: it could not begin, or, with is_once, pages were not answered. */
static int run_session(struct session *t, char *err, size_t err_len)
{
    int rc = 0;

    buf_init(&t->body, MAX_PAGE);
    top_screen_init(&t->screen);
    t->answered_ms = clock_ms();
    t->now = t->readings = mem_calloc(N_READINGS, sizeof(*t->readings));
    snprintf(err, err_len, "no memory");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || (t->multi = curl_multi_init()) == NULL ||
        (t->curl = curl_easy_init()) == NULL || t->readings == NULL)
        rc = ERR_NOMEM;
    if (rc == 0 && !t->is_once)
        rc = top_screen_open(&t->screen, err, err_len);
    if (rc == 0) {
        set_transfer(t);
        run_rounds(t);
        snprintf(err, err_len, "%s", t->last_failure);
        rc = t->is_once && err[0] != '\0' ? ERR_IO : 0;
    }
    top_screen_close(&t->screen);
    curl_easy_cleanup(t->curl);
    curl_multi_cleanup(t->multi);
    curl_global_cleanup();
    buf_release(&t->body);
    mem_free(t->readings);
    return rc;
}

/* ---- options ---- */

/* Take the URL, which gets http:// if it has no scheme. False: it has a password, a query or a byte
 * that a terminal does not show, or another scheme. */
static bool take_url(struct session *t, const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "unix:/"};
    const bool has_scheme = strncmp(url, "unix:", 5) == 0 || strstr(url, "://") != NULL;
    int i = 0;

    snprintf(t->url, sizeof(t->url), "%s%s", has_scheme ? "" : "http://", url);
    for (size_t n = strlen(t->url); n > 0 && t->url[n - 1] == '/'; n--)
        t->url[n - 1] = '\0';
    while (i < 3 && strncmp(t->url, schemes[i], strlen(schemes[i])) != 0)
        i++;
    return i < 3 && t->url[strspn(t->url, URL_CHARACTERS)] == '\0' && strlen(url) < 990;
}

/* Take the key, and wipe it out of argv, so that lists of processes do not show it. */
static bool take_api_key(struct session *t, const char *argument)
{
    const char *key = argument != NULL ? argument : getenv("QUIRE_API_KEY");

    snprintf(t->key, sizeof(t->key), "%s", key != NULL ? key : "");
    if (argument != NULL)
        explicit_bzero((char *)(uintptr_t)argument, strlen(argument));
    return strlen(t->key) <= 500 && t->key[strspn(t->key, KEY_CHARACTERS)] == '\0';
}

/* Returns an exit_code, with a message. */
static int take_options(struct session *t, int argc, char **argv)
{
    const char *key = NULL, *sort = "state", *model = "";
    double interval_s = 2;

    t->is_once = command_take_switch(&argc, argv, "--once");
    if (!command_take_value(&argc, argv, "--key", &key) ||
        !command_take_value(&argc, argv, "--model", &model) ||
        !command_take_value(&argc, argv, "--sort", &sort) ||
        !command_take_float(&argc, argv, "--interval", 0.2, 60, &interval_s))
        return EXIT_USAGE;
    t->interval_ms = (uint32_t)(interval_s * 1000);
    snprintf(t->wanted, sizeof(t->wanted), "%s", model);
    t->view = (struct top_view){.url = t->url, .has_keys = !t->is_once, .sort = top_sort_of(sort)};
    if (t->view.sort == TOP_N_SORTS)
        return command_fail(EXIT_USAGE,
                            "--sort must be state, age, rate, prompt, generated or "
                            "blocks, got '%s'",
                            sort);
    if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
        return command_fail(EXIT_USAGE, "unexpected argument '%s'; see quire top --help",
                            argv[argc - 1]);
    if (!take_url(t, argc == 2 ? argv[1] : DEFAULT_URL))
        return command_fail(EXIT_FAILED, "the server's URL must be http://HOST:PORT, "
                                         "https://HOST:PORT, HOST:PORT or unix:/PATH");
    if (!take_api_key(t, key))
        return command_fail(EXIT_FAILED, "the key must be at most 500 printable characters "
                                         "without blanks");
    return EXIT_OK;
}

int cmd_top(int argc, char **argv)
{
    struct session t = {0};
    char err[600];
    int code;

    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h"))
        return print_top_help(), EXIT_OK;
    code = take_options(&t, argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (code == EXIT_OK && run_session(&t, err, sizeof(err)) < 0)
        code = command_fail(EXIT_FAILED, "%s", err);
    explicit_bzero(t.key, sizeof(t.key));
    return code;
}
#else
int cmd_top(int argc, char **argv)
{
    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h"))
        return print_top_help(), EXIT_OK;
    return command_fail(EXIT_FAILED, "this binary was built without libcurl (Debian: "
                                     "libcurl4-gnutls-dev) and cannot ask a server; the same "
                                     "numbers are on its page, at /");
}
#endif
