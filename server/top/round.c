/* server/top/round.c - see round.h.
 *
 * /metrics is always the first page: it names the models, to which the other pages are assigned by
 * name. The pages of models are asked for by the list of the last reading, so the first round of a
 * session asks for /metrics only. Without an answer to /metrics there is no reading; another page
 * that fails only leaves its part out.
 */
#include "server/top/round.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "server/top/client.h"

#include <stdio.h>
#include <string.h>

enum kind { PAGE_METRICS = 0, PAGE_REQUESTS, PAGE_STEPS, PAGE_KV };

static const char *const paths[] = {
    [PAGE_METRICS] = "/metrics",
    [PAGE_REQUESTS] = "/debug/requests",
    [PAGE_STEPS] = "/debug/iterations",
    [PAGE_KV] = "/debug/kv",
};

_Static_assert(TOP_MAX_MODELS + 3 <= TOP_MAX_PAGES, "a round has a page for each model");

/* ---- questions ---- */

static void add_page(struct top_round *r, enum kind kind, const char *model)
{
    r->pages[r->n_pages].kind = kind;
    snprintf(r->pages[r->n_pages].model, sizeof(r->pages[0].model), "%s", model);
    r->n_pages++;
}

static void add_pages(struct top_round *r, const struct top_reading *last, const char *wanted)
{
    const char *only = NULL;

    add_page(r, PAGE_METRICS, "");
    for (uint32_t i = 0; i < last->n_models; i++) {
        const char *id = last->models[i].id;

        if (wanted[0] != '\0' && strcmp(id, wanted) != 0)
            continue;
        add_page(r, PAGE_REQUESTS, id);
        only = only == NULL && (wanted[0] != '\0' || last->n_models == 1) ? id : only;
    }
    if (only == NULL)
        return;
    add_page(r, PAGE_STEPS, only);
    add_page(r, PAGE_KV, only);
}

void top_round_begin(struct top_round *r, struct top_client *client, const struct top_reading *last,
                     const char *wanted)
{
    struct top_question questions[TOP_MAX_MODELS + 3];

    r->n_pages = 0;
    add_pages(r, last, wanted);
    r->has_asked_models = r->n_pages > 1;
    for (uint32_t i = 0; i < r->n_pages; i++)
        questions[i] = (struct top_question){paths[r->pages[i].kind], r->pages[i].model};
    if (top_client_begin(client, questions, r->n_pages) < 0)
        r->n_pages = 0;
}

/* ---- answers ---- */

/* Report a failure; only the first one of a round is kept. */
static void blame(struct top_round *r, const char *path, const char *why)
{
    if (r->trouble[0] == '\0')
        snprintf(r->trouble, sizeof(r->trouble), "%s: %s", path, why);
}

/* The message of a body {"error": {"message": ...}}. */
static void copy_message(const struct top_answer *a, char *out, size_t size)
{
    const char *why, *text = NULL;
    cJSON *body = NULL;

    if (json_parse(a->body.len > 0 ? a->body.data : "", a->body.len, &body, &why) == 0)
        text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(body, "error"), "message"));
    snprintf(out, size, "%s", text != NULL ? text : "no answer of a Quire server");
    cJSON_Delete(body);
}

static void blame_status(struct top_round *r, const char *path, const struct top_answer *a)
{
    char message[200], why[TOP_MAX_TROUBLE - 40];

    copy_message(a, message, sizeof(message));
    if (a->status == 401)
        snprintf(why, sizeof(why), "401, the server wants a key: --key KEY or QUIRE_API_KEY (%s)",
                 message);
    else if (a->status == 403)
        snprintf(why, sizeof(why),
                 "403, this page wants an admin's key, as quire key --admin makes it (%s)",
                 message);
    else
        snprintf(why, sizeof(why), "%ld, %s", a->status, message);
    blame(r, path, why);
}

static uint32_t find_model(const struct top_reading *out, const char *id)
{
    uint32_t i = 0;

    while (i < out->n_models && strcmp(out->models[i].id, id) != 0)
        i++;
    return i;
}

static int take_page(const struct top_answer *a, enum kind kind, const char *model,
                     struct top_reading *out)
{
    const uint32_t i = find_model(out, model);

    switch (kind) {
    case PAGE_METRICS:
        top_reading_take_metrics(out, a->body.len > 0 ? a->body.data : "", a->body.len);
        return out->version[0] != '\0' ? 0 : ERR_FORMAT;
    case PAGE_REQUESTS:
        return i == out->n_models ? 0
                                  : top_reading_take_requests(out, i, a->body.data, a->body.len);
    case PAGE_STEPS:
        return top_reading_take_steps(out, a->body.data, a->body.len);
    case PAGE_KV:
        return top_reading_take_kv(out, a->body.data, a->body.len);
    }
    return 0;
}

static bool take_answer(struct top_round *r, uint32_t i, const struct top_answer *a,
                        struct top_reading *out)
{
    const char *path = paths[r->pages[i].kind];

    if (a->status == 0)
        blame(r, path, a->why);
    else if (a->status != 200)
        blame_status(r, path, a);
    else if (take_page(a, (enum kind)r->pages[i].kind, r->pages[i].model, out) < 0)
        blame(r, path, "this is no answer of a Quire server");
    else
        return true;
    return false;
}

bool top_round_take(struct top_round *r, const struct top_client *client, struct top_reading *out,
                    const char *wanted)
{
    r->trouble[0] = '\0';
    r->has_answer = false;
    top_reading_clear(out, wanted);
    if (r->n_pages == 0)
        blame(r, paths[PAGE_METRICS], "no memory");
    else
        r->has_answer = take_answer(r, 0, top_client_answer(client, 0), out);
    if (r->has_answer && wanted[0] != '\0' && out->shown == TOP_ALL_MODELS)
        snprintf(r->trouble, sizeof(r->trouble), "the server has no model '%.100s'", wanted);
    for (uint32_t i = 1; i < r->n_pages && r->has_answer; i++)
        (void)take_answer(r, i, top_client_answer(client, i), out);
    return r->has_answer;
}
