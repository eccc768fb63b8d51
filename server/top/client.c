/* server/top/client.c - see client.h.
 *
 * A round is one libcurl multi handle with an easy handle for each page, all added by
 * top_client_begin(). top_client_wait() calls curl_multi_poll(), which waits for the transfers and
 * for the caller's descriptors (keys, signals) together. Each page keeps its body in a buffer of
 * its own until the next round begins. Without QUIRE_CURL the functions only report that.
 */
#include "server/top/client.h"

#include "core/base/err.h"

#include <stdio.h>

#ifdef QUIRE_CURL
#include "core/base/mem.h"
#include "core/base/version.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 5000L
/* A page with a snapshot of the engine waits for the end of a step. */
#define ANSWER_MS 30000L
/* A list of ten thousand requests has about five million bytes. */
#define MAX_BODY ((size_t)64 << 20)

struct page {
    CURL *curl;
    struct top_answer answer;
    char why[CURL_ERROR_SIZE];
};

struct top_client {
    char url[TOP_MAX_URL];    /* as shown to the user */
    char base[TOP_MAX_URL];   /* paths are appended to it */
    const char *socket;       /* path of a Unix socket, inside `url`; NULL: TCP */
    struct curl_slist *heads; /* request headers, with the key */
    CURLM *multi;
    uint32_t n_pages, n_open; /* of the round; of these, still being answered */
    struct page pages[TOP_MAX_PAGES];
};

static int fail_client(int rc, char *err, size_t err_len, const char *sentence)
{
    snprintf(err, err_len, "%s", sentence);
    return rc;
}

/* ---- opening ---- */

/* Whether a URL may be shown on the terminal and put into a request line: printable, without a
 * query or a password. */
static bool is_plain_char(const char *url)
{
    for (const char *p = url; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' || strchr("\"<>\\^`{|}#?@", *p) != NULL)
            return false;
    return true;
}

static bool url_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int take_url(struct top_client *c, const char *url, char *err, size_t err_len)
{
    const bool has_scheme = strstr(url, "://") != NULL || url_begins(url, "unix:");
    size_t n;

    if (!is_plain_char(url) || strlen(url) + sizeof("http://") > sizeof(c->url) || url[0] == '\0' ||
        (has_scheme && !url_begins(url, "http://") && !url_begins(url, "https://") &&
         !url_begins(url, "unix:/")))
        return fail_client(
            ERR_INVAL, err, err_len,
            "the server's URL must be http://HOST:PORT, https://HOST:PORT, HOST:PORT or "
            "unix:/PATH");
    snprintf(c->url, sizeof(c->url), "%s%s", has_scheme ? "" : "http://", url);
    for (n = strlen(c->url); n > 0 && c->url[n - 1] == '/'; n--)
        c->url[n - 1] = '\0';
    c->socket = url_begins(c->url, "unix:") ? c->url + strlen("unix:") : NULL;
    snprintf(c->base, sizeof(c->base), "%s", c->socket != NULL ? "http://localhost" : c->url);
    return 0;
}

static int take_client_key(struct top_client *c, const char *key, char *err, size_t err_len)
{
    char line[600];

    if (key == NULL || key[0] == '\0')
        return 0;
    for (const char *p = key; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' || p - key > 500)
            return fail_client(ERR_INVAL, err, err_len,
                               "the key must be at most 500 printable characters without blanks");
    snprintf(line, sizeof(line), "Authorization: Bearer %s", key);
    c->heads = curl_slist_append(NULL, line);
    explicit_bzero(line, sizeof(line));
    return c->heads != NULL ? 0 : fail_client(ERR_NOMEM, err, err_len, "no memory");
}

int top_client_open(struct top_client **out, const char *url, const char *key, char *err,
                    size_t err_len)
{
    struct top_client *c = mem_calloc(1, sizeof(*c));
    int rc = 0;

    *out = NULL;
    if (c == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        mem_free(c);
        return fail_client(ERR_NOMEM, err, err_len, "no memory");
    }
    for (uint32_t i = 0; i < TOP_MAX_PAGES; i++)
        buf_init(&c->pages[i].answer.body, MAX_BODY);
    c->multi = curl_multi_init();
    if (c->multi == NULL)
        rc = fail_client(ERR_NOMEM, err, err_len, "no memory");
    if (rc == 0)
        rc = take_url(c, url, err, err_len);
    if (rc == 0)
        rc = take_client_key(c, key, err, err_len);
    if (rc < 0)
        top_client_close(&c);
    *out = c;
    return rc;
}

static void end_round(struct top_client *c)
{
    for (uint32_t i = 0; i < c->n_pages; i++) {
        curl_multi_remove_handle(c->multi, c->pages[i].curl);
        curl_easy_cleanup(c->pages[i].curl);
        c->pages[i].curl = NULL;
    }
    c->n_pages = c->n_open = 0;
}

void top_client_close(struct top_client **cp)
{
    struct top_client *c = *cp;

    if (c == NULL)
        return;
    end_round(c);
    for (uint32_t i = 0; i < TOP_MAX_PAGES; i++)
        buf_release(&c->pages[i].answer.body);
    curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->heads);
    curl_global_cleanup();
    mem_free(c);
    *cp = NULL;
}

const char *top_client_url(const struct top_client *c)
{
    return c->url;
}

/* ---- a round ---- */

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
    struct top_answer *a = ud;

    return buf_add(&a->body, bytes, size * n) == 0 ? size * n : 0;
}

static const char *ca_file(void)
{
    const char *path = getenv("CURL_CA_BUNDLE");

    return path != NULL && path[0] != '\0' ? path : getenv("SSL_CERT_FILE");
}

static void set_options(const struct top_client *c, struct page *p)
{
    CURL *e = p->curl;

    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ANSWER_MS);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "quire-top");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->heads);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, p->why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, &p->answer);
    curl_easy_setopt(e, CURLOPT_PRIVATE, p);
    if (c->socket != NULL)
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->socket);
    if (ca_file() != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, ca_file());
}

static int set_url(const struct top_client *c, struct page *p, const struct top_question *q)
{
    char url[TOP_MAX_URL + 600];
    char *model = curl_easy_escape(p->curl, q->model, 0);

    if (model == NULL)
        return ERR_NOMEM;
    snprintf(url, sizeof(url), "%s%s%s%s", c->base, q->path, q->model[0] != '\0' ? "?model=" : "",
             model);
    curl_free(model);
    return curl_easy_setopt(p->curl, CURLOPT_URL, url) == CURLE_OK ? 0 : ERR_NOMEM;
}

static int ask_server(struct top_client *c, const struct top_question *q)
{
    struct page *p = &c->pages[c->n_pages];

    buf_clear(&p->answer.body);
    p->answer.status = 0;
    p->answer.why[0] = p->why[0] = '\0';
    p->curl = curl_easy_init();
    if (p->curl == NULL)
        return ERR_NOMEM;
    set_options(c, p);
    if (set_url(c, p, q) < 0 || curl_multi_add_handle(c->multi, p->curl) != CURLM_OK) {
        curl_easy_cleanup(p->curl);
        return ERR_NOMEM;
    }
    c->n_pages++;
    c->n_open++;
    return 0;
}

int top_client_begin(struct top_client *c, const struct top_question *questions, uint32_t n)
{
    int rc = 0;

    end_round(c);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = ask_server(c, &questions[i]);
    if (rc < 0)
        end_round(c);
    return rc;
}

static void end_page(struct top_client *c, const CURLMsg *m)
{
    struct page *p = NULL;

    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &p);
    curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &p->answer.status);
    if (m->data.result != CURLE_OK) {
        p->answer.status = 0; /* the answer was cut off */
        snprintf(p->answer.why, sizeof(p->answer.why), "%s",
                 p->why[0] != '\0' ? p->why : curl_easy_strerror(m->data.result));
    }
    c->n_open--;
}

/* Do all that is possible without waiting. True: the round is over. */
static bool advance_client(struct top_client *c)
{
    const CURLMsg *m;
    int n;

    curl_multi_perform(c->multi, &n);
    while ((m = curl_multi_info_read(c->multi, &n)) != NULL)
        if (m->msg == CURLMSG_DONE)
            end_page(c, m);
    return c->n_open == 0;
}

static bool any_ready(const struct pollfd *fds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (fds[i].revents != 0)
            return true;
    return false;
}

bool top_client_wait(struct top_client *c, struct pollfd *fds, uint32_t n, int timeout_ms)
{
    struct curl_waitfd extra[TOP_MAX_FDS] = {{0}};

    for (uint32_t i = 0; i < n; i++)
        fds[i].revents = 0;
    if (c->n_open == 0) {
        (void)poll(fds, n, timeout_ms);
        return true;
    }
    for (uint32_t i = 0; i < n; i++)
        extra[i] = (struct curl_waitfd){.fd = fds[i].fd, .events = CURL_WAIT_POLLIN};
    if (!advance_client(c)) {
        curl_multi_poll(c->multi, extra, n, timeout_ms, NULL);
        for (uint32_t i = 0; i < n; i++)
            fds[i].revents = extra[i].revents;
    }
    return any_ready(fds, n) ? c->n_open == 0 : advance_client(c);
}

const struct top_answer *top_client_answer(const struct top_client *c, uint32_t i)
{
    return &c->pages[i].answer;
}

#else

int top_client_open(struct top_client **out, const char *url, const char *key, char *err,
                    size_t err_len)
{
    (void)url, (void)key;
    *out = NULL;
    snprintf(err, err_len,
             "this binary was built without libcurl (Debian: libcurl4-gnutls-dev) and cannot ask a "
             "server; the same numbers are on its page, at /");
    return ERR_UNSUPPORTED;
}

void top_client_close(struct top_client **c)
{
    *c = NULL;
}

const char *top_client_url(const struct top_client *c)
{
    (void)c;
    return "";
}

int top_client_begin(struct top_client *c, const struct top_question *questions, uint32_t n)
{
    (void)c, (void)questions, (void)n;
    return ERR_UNSUPPORTED;
}

bool top_client_wait(struct top_client *c, struct pollfd *fds, uint32_t n, int timeout_ms)
{
    (void)c, (void)fds, (void)n, (void)timeout_ms;
    return true;
}

const struct top_answer *top_client_answer(const struct top_client *c, uint32_t i)
{
    (void)c, (void)i;
    return NULL;
}
#endif
