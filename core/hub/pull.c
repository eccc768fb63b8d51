/* core/hub/pull.c - see pull.h.
 *
 * Four steps: resolve the revision to a commit, list the commit's files page by page, choose those
 * of the model, fetch the missing ones. Every later request names the commit, so a push to the
 * repository meanwhile cannot mix two versions. If the Hub cannot be reached, the same choice is
 * made among the cached files (hub_search.h).
 */
#include "core/hub/pull.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/json/json.h"
#include "core/hub/ask.h"
#include "core/hub/cache.h"
#include "core/hub/hub_search.h"
#include "core/hub/download.h"
#include "core/hub/interrupt.h"
#include "core/hub/listing.h"
#include "core/hub/place.h"
#include "core/hub/reference.h"
#include "core/hub/transfer.h"

#include <stdio.h>
#include <string.h>

#define MAX_PAGES 200
#define MAX_ANSWER ((size_t)32 << 20) /* bytes of one page */

struct pull {
    struct hub_search found;
    struct hub_asker asker;
};

/* ---- questions to the Hub ---- */

static int take_commit(struct pull *p, const struct buf *body)
{
    const char *why, *sha = NULL;
    cJSON *o = NULL;
    int rc = json_parse(body->data != NULL ? body->data : "", body->len, &o, &why);

    if (rc == 0)
        sha = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "sha"));
    if (sha != NULL && hub_is_commit(sha))
        snprintf(p->found.commit, sizeof(p->found.commit), "%s", sha);
    else
        rc = hub_fail(ERR_FORMAT, p->found.err, sizeof(p->found.err),
                      "%s does not say which commit '%s' is, so it is not a Hub",
                      p->found.place.endpoint, p->found.reference.revision);
    cJSON_Delete(o);
    return rc;
}

static int ask_commit(struct pull *p, struct buf *body)
{
    char url[HUB_MAX_URL], middle[HUB_MAX_REPO + 32];
    struct hub_answer a;
    int rc;

    snprintf(middle, sizeof(middle), "api/models/%s/revision", p->found.reference.repo);
    if (hub_url(url, sizeof(url), p->found.place.endpoint, middle, p->found.reference.revision,
                "") < 0)
        return hub_fail(ERR_LIMIT, p->found.err, sizeof(p->found.err), "the URL is too long");
    url[strlen(url) - 1] = '\0'; /* no path follows */
    rc = hub_ask(&p->asker, url, body, &a, p->found.err, sizeof(p->found.err));
    return rc == 0 ? take_commit(p, body) : rc;
}

/* Take the URL of the next page, which must be the endpoint's too, since it gets the token. */
static int next_page(struct pull *p, const struct hub_answer *a, char url[HUB_MAX_URL])
{
    const char *e = p->found.place.endpoint;
    const size_t n = strlen(e);

    if (strncmp(a->next, e, n) != 0 || a->next[n] != '/')
        return hub_fail(ERR_FORMAT, p->found.err, sizeof(p->found.err),
                        "the next page of the listing is on another host than %s", e);
    snprintf(url, HUB_MAX_URL, "%s", a->next);
    return 0;
}

static int ask_listing(struct pull *p, struct buf *body)
{
    char url[HUB_MAX_URL], middle[HUB_MAX_REPO + 32];
    struct hub_answer a;
    size_t n;
    int rc;

    snprintf(middle, sizeof(middle), "api/models/%s/tree", p->found.reference.repo);
    if (hub_url(url, sizeof(url) - 32, p->found.place.endpoint, middle, p->found.commit, "") < 0)
        return hub_fail(ERR_LIMIT, p->found.err, sizeof(p->found.err), "the URL is too long");
    n = strlen(url) - 1;
    snprintf(url + n, sizeof(url) - n, "?recursive=true");
    for (int page = 0; page < MAX_PAGES; page++) {
        rc = hub_ask(&p->asker, url, body, &a, p->found.err, sizeof(p->found.err));
        if (rc == 0)
            rc = hub_listing_add_page(&p->found.listing, body->data != NULL ? body->data : "",
                                      body->len, p->found.err, sizeof(p->found.err));
        if (rc < 0 || a.next[0] == '\0')
            return rc;
        rc = next_page(p, &a, url);
        if (rc < 0)
            return rc;
    }
    return hub_fail(ERR_LIMIT, p->found.err, sizeof(p->found.err),
                    "the listing has more than %d pages", MAX_PAGES);
}

static int ask_hub(struct pull *p)
{
    struct buf body;
    int rc;

    buf_init(&body, MAX_ANSWER);
    rc = ask_commit(p, &body);
    if (rc == 0)
        rc = ask_listing(p, &body);
    buf_release(&body);
    return rc;
}

/* ---- fetching ---- */

/* Store the commit; a read-only cache that has all the files is enough. */
static void note_commit(struct pull *p)
{
    char quoted[400];

    if (hub_cache_set_commit(&p->found.place, &p->found.reference, p->found.commit, p->found.err,
                             sizeof(p->found.err)) < 0)
        log_warn("hub", "event=revision-not-kept cause=%s",
                 log_quote(quoted, sizeof(quoted), p->found.err));
}

static int fetch_all(struct pull *p)
{
    uint64_t missing = 0;
    int rc;

    for (size_t i = 0; i < p->found.listing.n; i++)
        if (p->found.listing.files[i].is_chosen)
            missing += hub_download_missing(&p->asker, p->found.commit, &p->found.listing.files[i]);
    rc = hub_cache_check_room(&p->found.place, missing, p->found.err, sizeof(p->found.err));
    for (size_t i = 0; i < p->found.listing.n && rc == 0; i++)
        if (p->found.listing.files[i].is_chosen)
            rc = hub_download(&p->asker, p->found.commit, &p->found.listing.files[i], p->found.err,
                              sizeof(p->found.err));
    if (rc == 0)
        note_commit(p);
    return rc;
}

/* The Hub does not answer: use the files fetched before, and log it. */
static int fall_back(struct pull *p)
{
    const char *commit = p->found.commit;
    char said[HUB_MAX_SENTENCE], quoted[400];
    const int rc = hub_cache_commit(&p->found.place, &p->found.reference, p->found.commit);

    snprintf(said, sizeof(said), "%s", p->found.err);
    if (rc == 0 && hub_search_cache(&p->found) == 0) {
        log_warn("hub", "event=unreachable commit=%s cause=%s", commit,
                 log_quote(quoted, sizeof(quoted), said));
        return 0;
    }
    snprintf(p->found.err, sizeof(p->found.err), "%s", said);
    return ERR_IO;
}

static int pull_online(struct pull *p)
{
    int rc;

    p->asker = (struct hub_asker){.place = &p->found.place, .reference = &p->found.reference};
    rc = hub_transfer_open(&p->asker.transfer, &p->found.place, p->found.err, sizeof(p->found.err));
    if (rc == ERR_UNSUPPORTED)
        return fall_back(p) == 0 ? 0 : rc;
    if (rc < 0)
        return rc;
    hub_interrupt_begin();
    rc = ask_hub(p);
    if (rc == ERR_IO)
        rc = fall_back(p);
    else if (rc == 0)
        rc = hub_search_choose(&p->found) == 0 ? fetch_all(p) : ERR_NOENT;
    hub_interrupt_end();
    hub_transfer_close(&p->asker.transfer);
    return rc;
}

int hub_pull(const char *reference, char path[HUB_MAX_FOUND], char *err, size_t err_len)
{
    struct pull p = {0};
    int rc = hub_search_begin(&p.found, reference, err, err_len);

    if (rc < 0)
        return rc;
    rc = p.found.place.is_offline ? hub_search_cache(&p.found) : pull_online(&p);
    return hub_search_end(&p.found, rc, reference, path, err, err_len);
}
