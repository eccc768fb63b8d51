/* core/hub/ask.c - see ask.h.
 *
 * hub_ask() is a loop around one exchange: success returns, a lasting refusal becomes a sentence,
 * and anything else is repeated after a wait that signals can interrupt. HEAD requests follow
 * redirects here instead of in libcurl, and only within the endpoint: the caller wants the Hub's
 * own answer, not that of the file server it redirects to.
 */
#include "core/hub/ask.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/hub/interrupt.h"
#include "core/hub/place.h"
#include "core/hub/reference.h"
#include "core/hub/transfer.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MAX_TRIES 5
#define MAX_HOPS 5
#define FIRST_WAIT_MS 250
#define MAX_WAIT_S 300 /* longest wait that the Hub may ask for */
#define MAX_ANSWER_S 120 /* for one answer that is not a file */

bool hub_status_passes(long status)
{
    return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

unsigned long hub_wait_ms(const struct hub_answer *a, unsigned n_failed)
{
    if (n_failed >= MAX_TRIES || a->retry_after > MAX_WAIT_S)
        return ULONG_MAX;
    if (a->retry_after > 0)
        return a->retry_after * 1000;
    return (unsigned long)FIRST_WAIT_MS << (n_failed > 0 ? n_failed - 1 : 0);
}

/* Return the Hub's own words about an error. */
static const char *said(const struct hub_answer *a, char text[300])
{
    char shown[256];

    if (a->error_text[0] == '\0')
        return "";
    snprintf(text, 300, " (\"%s\")", hub_printable(shown, sizeof(shown), a->error_text));
    return text;
}

static int refuse_access(const struct hub_asker *k, const struct hub_answer *a, char *err,
                         size_t err_len)
{
    const char *repo = k->reference->repo;
    const bool is_gated = strcmp(a->error_code, "GatedRepo") == 0;
    char text[300];

    if (is_gated)
        return hub_fail(ERR_INVAL, err, err_len,
                        "%s is gated, and the Hub refuses access (%ld)%s: accept its terms at "
                        "%s/%s, and %s",
                        repo, a->status, said(a, text), k->place->endpoint, repo,
                        k->place->token[0] != '\0' ? "use a token of that account"
                                                   : "set HF_TOKEN to a token of that account");
    return hub_fail(
        ERR_INVAL, err, err_len,
        "the Hub refuses access to %s (%ld)%s: the repository does not exist or is private: %s",
        repo, a->status, said(a, text),
        k->place->token[0] != '\0' ? "the token has no access to it"
                                   : "for a private one set HF_TOKEN");
}

int hub_refused(const struct hub_asker *k, const struct hub_answer *a, const char *what, char *err,
                size_t err_len)
{
    const char *repo = k->reference->repo;
    char text[300];

    if (a->status == 401 || a->status == 403)
        return refuse_access(k, a, err, err_len);
    if (a->status == 404 && strcmp(a->error_code, "RevisionNotFound") == 0)
        return hub_fail(ERR_NOENT, err, err_len, "%s has no branch, tag or commit '%s'", repo,
                        k->reference->revision);
    if (a->status == 404)
        return hub_fail(ERR_NOENT, err, err_len, "%s: the Hub has no %s%s", repo, what,
                        said(a, text));
    if (a->status == 429)
        return hub_fail(ERR_IO, err, err_len,
                        "the Hub refuses further requests for now (429)%s: try again in %" PRIu64
                        " seconds",
                        said(a, text), a->retry_after > 0 ? a->retry_after : 60);
    return hub_fail(ERR_IO, err, err_len, "%s: the Hub answers %s with status %ld%s", repo, what,
                    a->status, said(a, text));
}

static int take_body(void *ud, const struct hub_answer *a, const void *bytes, size_t n)
{
    (void)a;
    return buf_add(ud, bytes, n);
}

/* True: a redirect stays with the endpoint, as that of a renamed repository does; `url` gets its
 * target. */
static bool is_hop(const struct hub_asker *k, const struct hub_answer *a, char url[HUB_MAX_URL])
{
    const char *e = k->place->endpoint, *to = a->location;
    const size_t n = strlen(e);
    const char *path = strchr(e + 8, '/'); /* the endpoint's path, or NULL */

    if (a->status < 300 || a->status > 399)
        return false;
    if (strncmp(to, e, n) == 0 && to[n] == '/')
        return snprintf(url, HUB_MAX_URL, "%s", to) < HUB_MAX_URL;
    return to[0] == '/' && to[1] != '/' &&
           snprintf(url, HUB_MAX_URL, "%.*s%s", path != NULL ? (int)(path - e) : (int)n, e, to) <
               HUB_MAX_URL;
}

/* Try once, following redirects. */
static int try_once(const struct hub_asker *k, const char *url, struct buf *body,
                    struct hub_answer *a, char *err, size_t err_len)
{
    char at[HUB_MAX_URL];
    const struct hub_request r = {
        .url = at, .is_head = body == NULL, .max_s = MAX_ANSWER_S, .sink = take_body, .ud = body};
    int rc = 0;

    snprintf(at, sizeof(at), "%s", url);
    for (int hop = 0; hop <= MAX_HOPS; hop++) {
        if (body != NULL)
            buf_clear(body);
        rc = hub_transfer_run(k->transfer, &r, a, err, err_len);
        if (body != NULL && body->err < 0)
            return hub_fail(body->err, err, err_len, "%s: the Hub's answer is too long",
                            k->reference->repo);
        if (rc < 0 || !r.is_head || !is_hop(k, a, at))
            break;
    }
    return rc;
}

int hub_ask(const struct hub_asker *k, const char *url, struct buf *body, struct hub_answer *a,
            char *err, size_t err_len)
{
    for (unsigned n = 1;; n++) {
        int rc = try_once(k, url, body, a, err, err_len);
        unsigned long wait;
        char quoted[300];

        if (rc == 0 && a->status < 400)
            return 0;
        if (rc == 0 && !hub_status_passes(a->status))
            return hub_refused(k, a, body != NULL ? "such repository" : "such file", err, err_len);
        if (rc < 0 && rc != ERR_IO)
            return rc;
        if (rc == 0)
            rc = hub_refused(k, a, "the question", err, err_len);
        wait = hub_wait_ms(a, n);
        if (wait == ULONG_MAX)
            return rc;
        log_warn("hub", "event=retry in_ms=%lu cause=%s", wait,
                 log_quote(quoted, sizeof(quoted), err));
        if (!hub_interrupt_sleep(wait))
            return hub_fail(ERR_CANCELED, err, err_len, "interrupted");
    }
}
