/* server/top/client.c - see client.h.
 *
 * A curl multi handle drives one easy handle, because curl_multi_poll() waits for the transfer and
 * for the caller's descriptors together.
 */
#include "server/top/client.h"

#ifdef QUIRE_CURL
#include "core/base/err.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 5000L
#define ANSWER_MS 30000L /* a page with a snapshot of the engine waits for the end of a step */
#define MAX_BODY ((size_t)64 << 20) /* a list of ten thousand requests has five million bytes */

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
static bool take_url(struct top_client *c, const char *url)
{
    const bool has_scheme = strncmp(url, "unix:", 5) == 0 || strstr(url, "://") != NULL;

    c->is_unix = strncmp(url, "unix:/", 6) == 0;
    if (url[0] == '\0' || !is_plain_text(url, sizeof(c->url) - 8, "\"<>\\^`{|}#?@") ||
        (has_scheme && !c->is_unix && strncmp(url, "http://", 7) != 0 &&
         strncmp(url, "https://", 8) != 0))
        return false;
    snprintf(c->url, sizeof(c->url), "%s%s", has_scheme ? "" : "http://", url);
    for (size_t n = strlen(c->url); n > 0 && c->url[n - 1] == '/'; n--)
        c->url[n - 1] = '\0';
    return true;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
    struct top_client *c = ud;

    return buf_add(&c->answer.body, bytes, size * n) == 0 ? size * n : 0;
}

static void set_options(struct top_client *c, const char *key)
{
    const char *bundle = getenv("CURL_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE");
    CURL *e = c->curl;

    if (bundle != NULL && bundle[0] != '\0')
        file = bundle;
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ANSWER_MS);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "quire-top");
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->answer.why);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->is_unix ? c->url + strlen("unix:") : NULL);
    if (file != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, file);
    curl_easy_setopt(e, CURLOPT_HTTPAUTH, key[0] != '\0' ? CURLAUTH_BEARER : CURLAUTH_NONE);
    curl_easy_setopt(e, CURLOPT_XOAUTH2_BEARER, key);
}

int top_client_open(struct top_client *c, const char *url, const char *key, char *err,
                    size_t err_len)
{
    const char *why = NULL;

    buf_init(&c->answer.body, MAX_BODY);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || (c->multi = curl_multi_init()) == NULL ||
        (c->curl = curl_easy_init()) == NULL || buf_add_str(&c->answer.body, "") < 0)
        why = "no memory";
    else if (!take_url(c, url))
        why = "the server's URL must be http://HOST:PORT, https://HOST:PORT, HOST:PORT or "
              "unix:/PATH";
    else if (!is_plain_text(key, 500, ""))
        why = "the key must be at most 500 printable characters without blanks";
    else
        set_options(c, key);
    snprintf(err, err_len, "%s", why != NULL ? why : "");
    return why == NULL ? 0 : ERR_INVAL;
}

void top_client_close(struct top_client *c)
{
    curl_multi_remove_handle(c->multi, c->curl);
    curl_easy_cleanup(c->curl);
    curl_multi_cleanup(c->multi);
    curl_global_cleanup();
    buf_release(&c->answer.body);
}

void top_client_ask(struct top_client *c, const char *path, const char *model)
{
    char url[sizeof(c->url) + 600], *escaped = curl_easy_escape(c->curl, model, 0);

    snprintf(url, sizeof(url), "%s%s%s%s", c->is_unix ? "http://localhost" : c->url, path,
             model[0] != '\0' ? "?model=" : "", escaped != NULL ? escaped : "");
    curl_free(escaped);
    curl_multi_remove_handle(c->multi, c->curl);
    buf_clear(&c->answer.body);
    c->answer.why[0] = '\0';
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_multi_add_handle(c->multi, c->curl);
}

struct top_answer *top_client_wait(struct top_client *c, const int *fds, uint32_t n, int timeout_ms)
{
    struct curl_waitfd extra[TOP_MAX_FDS] = {{0}};
    struct top_answer *a = &c->answer;
    const CURLMsg *m;
    int left;

    for (uint32_t i = 0; i < n; i++)
        extra[i] = (struct curl_waitfd){.fd = fds[i], .events = CURL_WAIT_POLLIN};
    curl_multi_poll(c->multi, extra, n, timeout_ms, NULL);
    curl_multi_perform(c->multi, &left);
    m = curl_multi_info_read(c->multi, &left);
    if (m == NULL)
        return NULL;
    a->status = 0;
    if (m->data.result == CURLE_OK)
        curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &a->status);
    else if (a->why[0] == '\0')
        snprintf(a->why, sizeof(a->why), "%s", curl_easy_strerror(m->data.result));
    return a;
}
#endif
