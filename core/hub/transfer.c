/* core/hub/transfer.c - see transfer.h.
 *
 * One curl handle is reused, so that its connection is. Options that never change are set when it
 * is opened, those of a request before each exchange. The token is a header that is only added to
 * requests for the endpoint, and curl drops it on a redirect to another host. Without libcurl the
 * file compiles to functions that refuse.
 */
#include "core/hub/transfer.h"

#include "core/base/err.h"

#ifdef QUIRE_CURL
#include "core/base/mem.h"
#include "core/base/version.h"
#include "core/hub/interrupt.h"
#include "core/hub/place.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_S 15L
#define STALLED_S 30L /* an exchange below HUB_MIN_SPEED for so long is cut */
#define MAX_REDIRECTS 8L

struct hub_transfer {
    const struct hub_place *place;
    CURL *curl;
    struct curl_slist *with_token, *without;
    char agent[100];
    char why[CURL_ERROR_SIZE];
    /* the current exchange: */
    const struct hub_request *request;
    struct hub_answer *answer;
    int sink_rc;
};

static size_t on_head(char *line, size_t size, size_t n, void *ud)
{
    struct hub_transfer *t = ud;

    hub_answer_take_line(t->answer, line, size * n);
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ud)
{
    struct hub_transfer *t = ud;

    if (hub_interrupt_came())
        return 0;
    (void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->answer->status);
    if (t->request->sink == NULL || (t->answer->status != 200 && t->answer->status != 206))
        return size * n; /* the body of an error: the headers have its text too */
    t->sink_rc = t->request->sink(t->request->ud, t->answer, bytes, size * n);
    return t->sink_rc == 0 ? size * n : 0;
}

static int on_progress(void *ud, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up)
{
    (void)ud, (void)total, (void)now, (void)up_total, (void)up;
    return hub_interrupt_came();
}

static void set_options(struct hub_transfer *t)
{
    CURL *c = t->curl;
    const char *protocols = t->place->is_plain ? "http,https" : "https";

    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, protocols);
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, MAX_REDIRECTS);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
    if (t->place->ca_file != NULL)
        curl_easy_setopt(c, CURLOPT_CAINFO, t->place->ca_file);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)HUB_MIN_SPEED);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALLED_S);
    curl_easy_setopt(c, CURLOPT_USERAGENT, t->agent);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_UNRESTRICTED_AUTH, 0L);
}

/* Make the token's header, which libcurl drops when a redirect leads to another host. */
static int make_headers(struct hub_transfer *t)
{
    char line[HUB_MAX_TOKEN + 40];

    if (t->place->token[0] == '\0')
        return 0;
    snprintf(line, sizeof(line), "Authorization: Bearer %s", t->place->token);
    t->with_token = curl_slist_append(NULL, line);
    explicit_bzero(line, sizeof(line));
    return t->with_token != NULL ? 0 : ERR_NOMEM;
}

int hub_transfer_open(struct hub_transfer **out, const struct hub_place *place, char *err,
                      size_t err_len)
{
    struct hub_transfer *t = mem_calloc(1, sizeof(*t));

    *out = NULL;
    if (t == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        mem_free(t);
        return hub_fail(ERR_NOMEM, err, err_len, "no memory for a connection to the Hub");
    }
    t->place = place;
    snprintf(t->agent, sizeof(t->agent), "quire/%.60s", quire_version());
    t->curl = curl_easy_init();
    if (t->curl == NULL || make_headers(t) < 0) {
        hub_transfer_close(&t);
        return hub_fail(ERR_NOMEM, err, err_len, "no memory for a connection to the Hub");
    }
    set_options(t);
    *out = t;
    return 0;
}

void hub_transfer_close(struct hub_transfer **tp)
{
    struct hub_transfer *t = *tp;

    if (t == NULL)
        return;
    curl_easy_cleanup(t->curl);
    curl_slist_free_all(t->with_token);
    curl_global_cleanup();
    mem_free(t);
    *tp = NULL;
}

/* True: the URL is the endpoint's own; only then it gets the token. */
static bool is_endpoint(const struct hub_place *p, const char *url)
{
    const size_t n = strlen(p->endpoint);

    return strncmp(url, p->endpoint, n) == 0 && url[n] == '/';
}

static void set_request(struct hub_transfer *t, const struct hub_request *r, char range[32])
{
    const bool is_own = is_endpoint(t->place, r->url);

    snprintf(range, 32, "%" PRIu64 "-", r->offset);
    curl_easy_setopt(t->curl, CURLOPT_URL, r->url);
    curl_easy_setopt(t->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(t->curl, CURLOPT_NOBODY, r->is_head ? 1L : 0L);
    curl_easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, r->is_head ? 0L : 1L);
    curl_easy_setopt(t->curl, CURLOPT_TIMEOUT, r->max_s);
    curl_easy_setopt(t->curl, CURLOPT_RANGE, r->offset > 0 ? range : NULL);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, is_own ? t->with_token : t->without);
}

/* True: a repeated try would fail too: errors of certificates or redirects. */
static bool is_lasting(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT ||
           code == CURLE_TOO_MANY_REDIRECTS;
}

int hub_transfer_run(struct hub_transfer *t, const struct hub_request *r, struct hub_answer *a,
                     char *err, size_t err_len)
{
    char range[32];
    CURLcode code;

    *a = (struct hub_answer){.size = UINT64_MAX, .range_start = UINT64_MAX};
    t->request = r;
    t->answer = a;
    t->sink_rc = 0;
    t->why[0] = '\0';
    set_request(t, r, range);
    code = curl_easy_perform(t->curl);
    (void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &a->status);
    if (hub_interrupt_came())
        return hub_fail(ERR_CANCELED, err, err_len, "interrupted");
    if (t->sink_rc < 0)
        return t->sink_rc; /* the sink has written its own sentence */
    if (code == CURLE_OK)
        return 0;
    return hub_fail(is_lasting(code) ? ERR_INVAL : ERR_IO, err, err_len, "%.200s: %s",
                    t->place->endpoint, t->why[0] != '\0' ? t->why : curl_easy_strerror(code));
}

#else

int hub_transfer_open(struct hub_transfer **out, const struct hub_place *place, char *err,
                      size_t err_len)
{
    (void)place;
    *out = NULL;
    return hub_fail(ERR_UNSUPPORTED, err, err_len,
                    "this binary was built without libcurl (Debian: libcurl4-gnutls-dev) and "
                    "cannot download models; models in the cache can be used offline");
}

void hub_transfer_close(struct hub_transfer **t)
{
    *t = NULL;
}

int hub_transfer_run(struct hub_transfer *t, const struct hub_request *r, struct hub_answer *a,
                     char *err, size_t err_len)
{
    (void)t, (void)r, (void)a;
    return hub_fail(ERR_UNSUPPORTED, err, err_len, "this binary was built without libcurl");
}
#endif
