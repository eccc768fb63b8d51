/* server/cli/replay_line.c - see replay_line.h; the format is in scheduler/journal.h.
 *
 * A line is parsed as JSON, and the name of its first key selects a parse function by a table. The
 * functions want() and may() read members with a range; the first failure is kept in struct line,
 * after which the others do nothing, so that callers need no checks in between.
 */
#include "server/cli/replay_line.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/kv_record.h"
#include "scheduler/replay/replay.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXACT ((uint64_t)1 << 53) /* integers up to this are exact in JSON, whose numbers are
                                       * doubles */
#define MAX_COST 1000000000000000u    /* keeps the sums of step_costs_ns within 64 bits */
#define MAX_KV_COST 10000000000u

struct line { /* keeps the first failure */
    int rc;
    char *err;
    size_t err_len;
};

static void wrong(struct line *l, const char *key, const char *what)
{
    if (l->rc < 0)
        return;
    l->rc = ERR_FORMAT;
    snprintf(l->err, l->err_len, "\"%s\" %s", key, what);
}

static uint64_t line_value(struct line *l, const cJSON *v, const char *key, uint64_t max)
{
    const double d = cJSON_IsNumber(v) ? v->valuedouble : -1;
    char what[64];

    if (d >= 0 && d <= (double)max && d <= (double)MAX_EXACT && (double)(uint64_t)d == d)
        return (uint64_t)d;
    snprintf(what, sizeof(what), "is not a whole number from 0 to %" PRIu64,
             max < MAX_EXACT ? max : MAX_EXACT);
    wrong(l, key, what);
    return 0;
}

static uint64_t want(struct line *l, const cJSON *o, const char *key, uint64_t max)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    if (v != NULL)
        return line_value(l, v, key, max);
    wrong(l, key, "is missing");
    return 0;
}

static uint64_t may(struct line *l, const cJSON *o, const char *key, uint64_t max)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    return v != NULL ? line_value(l, v, key, max) : 0;
}

static uint32_t want32(struct line *l, const cJSON *o, const char *key)
{
    return (uint32_t)want(l, o, key, UINT32_MAX);
}

static const cJSON *want_array(struct line *l, const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    if (cJSON_IsArray(v))
        return v;
    wrong(l, key, "is not a list");
    return NULL;
}

/* Allocate for the list's elements (at least one); NULL after a failure. */
static void *room_for(struct line *l, const cJSON *array, size_t bytes, uint32_t *n)
{
    void *p;

    *n = 0;
    if (l->rc < 0)
        return NULL;
    *n = (uint32_t)cJSON_GetArraySize(array);
    p = mem_calloc((size_t)*n + 1, bytes);
    if (p == NULL)
        l->rc = ERR_NOMEM;
    return p;
}

static int32_t token_of(struct line *l, const cJSON *v, const char *key)
{
    const double d = cJSON_IsNumber(v) ? v->valuedouble : 0.5;

    if (d >= INT32_MIN && d <= INT32_MAX && (double)(int32_t)d == d)
        return (int32_t)d;
    wrong(l, key, "contains an element that is not a token");
    return 0;
}

static int32_t *want_tokens(struct line *l, const cJSON *o, const char *key, uint32_t *n)
{
    const cJSON *array = want_array(l, o, key), *v = NULL;
    int32_t *tokens = room_for(l, array, sizeof(*tokens), n);
    uint32_t i = 0;

    if (tokens != NULL)
        cJSON_ArrayForEach(v, array)
            tokens[i++] = token_of(l, v, key);
    return tokens;
}

static void want_ids(struct line *l, const cJSON *o, const char *key, struct replay_ids *out)
{
    const cJSON *array = want_array(l, o, key), *v = NULL;
    uint32_t i = 0;

    out->ids = room_for(l, array, sizeof(*out->ids), &out->n);
    if (out->ids != NULL)
        cJSON_ArrayForEach(v, array) out->ids[i++] = line_value(l, v, key, UINT64_MAX);
}

/* ---- the kinds ---- */

static void parse_sched(struct line *l, const cJSON *o, struct sched_options *s)
{
    s->policy = (enum sched_policy)want(l, o, "policy", SCHED_ADAPTIVE);
    s->preemption = (enum sched_preemption)want(l, o, "preemption", SCHED_SWAP);
    s->aging_milli = want32(l, o, "aging_milli");
    s->max_wait_ms = want32(l, o, "max_wait_ms");
    s->max_preemptions = want32(l, o, "max_preemptions");
    s->max_tenants = want32(l, o, "max_tenants");
    s->max_sequences = want32(l, o, "max_sequences");
    s->max_requests = want32(l, o, "max_requests");
    s->max_context = want32(l, o, "max_context");
    s->max_batch_tokens = want32(l, o, "max_batch_tokens");
    s->prefill_chunk = want32(l, o, "prefill_chunk");
    s->whole_prompts = want(l, o, "whole_prompts", 1) != 0;
    s->store_blocks = (uint32_t)may(l, o, "store_blocks", KV_RECORD_MOST);
    s->store_wait_ms = (uint32_t)may(l, o, "store_wait_ms", UINT32_MAX);
}

static void parse_kv(struct line *l, const cJSON *o, struct kv_manager_options *k)
{
    k->n_blocks = want32(l, o, "n_blocks");
    k->placement = (enum block_placement)want(l, o, "placement", BLOCK_ROUND_ROBIN);
    k->prefix_cache = want(l, o, "prefix_cache", 1) == 1;
    k->n_ram = want32(l, o, "n_ram");
    k->n_file = want32(l, o, "n_file");
    k->max_sequences = want32(l, o, "max_sequences");
    k->max_table = want32(l, o, "max_table");
    k->groups.n = want32(l, o, "lanes");
    k->groups.n_window = want32(l, o, "window_lanes");
    k->groups.window = want32(l, o, "window");
    k->states.n_slots = want32(l, o, "state_slots");
    k->states.interval = want32(l, o, "state_interval");
    k->states.n_parts = want32(l, o, "state_parts");
    k->states.is_alone = want(l, o, "state_alone", 1) != 0;
    k->max_chunk = want32(l, o, "max_chunk");
    k->low_percent = want32(l, o, "low_percent");
    k->critical_percent = want32(l, o, "critical_percent");
    k->pins.most_blocks = (uint32_t)may(l, o, "pin_most", UINT32_MAX);
    k->pins.tenant_blocks = (uint32_t)may(l, o, "pin_tenant", UINT32_MAX);
    k->pins.n_tenants = (uint32_t)may(l, o, "pin_tenants", UINT32_MAX);
    k->pins.most_states = (uint32_t)may(l, o, "pin_states", UINT32_MAX);
}

static void parse_start(struct line *l, const cJSON *o, struct replay_record *r)
{
    if (r->id != 1)
        wrong(l, "start", "is not 1: the journal is from another version");
    r->unix_us = may(l, o, "unix", MAX_EXACT);
    parse_sched(l, cJSON_GetObjectItemCaseSensitive(o, "sched"), &r->sched);
    parse_kv(l, cJSON_GetObjectItemCaseSensitive(o, "kv"), &r->kv);
    r->tokens = want_tokens(l, o, "eog", &r->n_tokens);
}

static uint64_t parse_salt(struct line *l, const cJSON *o)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "salt");
    const char *text = cJSON_IsString(v) ? v->valuestring : "";
    char *end;
    uint64_t salt;

    salt = strtoull(text, &end, 16);
    if (*text == '\0' || *text == '-' || *end != '\0')
        wrong(l, "salt", "is not a hexadecimal number");
    return salt;
}

static void parse_stop(struct line *l, const cJSON *o, struct request *q)
{
    int32_t *stop = NULL;
    uint32_t n = 0;

    if (cJSON_HasObjectItem(o, "stop"))
        stop = want_tokens(l, o, "stop", &n);
    if (n > REQUEST_MAX_STOP_IDS)
        wrong(l, "stop", "is too long");
    else if (n > 0)
        memcpy(q->stop_ids, stop, n * sizeof(*stop));
    q->n_stop_ids = n;
    mem_free(stop);
}

/* The pins in ascending order, each within the prompt. */
static void parse_pins(struct line *l, const cJSON *o, struct request *q)
{
    const cJSON *pins = cJSON_GetObjectItemCaseSensitive(o, "pins"), *v = NULL;
    uint32_t least = 1;

    if (pins == NULL)
        return;
    if (!cJSON_IsArray(pins) || cJSON_GetArraySize(pins) > REQUEST_MAX_PINS) {
        wrong(l, "pins", "is not a list of at most 4 pins");
        return;
    }
    cJSON_ArrayForEach(v, pins)
    {
        struct request_pin *pin = &q->pins[q->n_pins++];

        if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 2) {
            wrong(l, "pins", "contains an element that is not a list of 2 numbers");
            return;
        }
        pin->n_tokens = (uint32_t)line_value(l, cJSON_GetArrayItem(v, 0), "pins", q->n_prompt);
        pin->ttl_us = line_value(l, cJSON_GetArrayItem(v, 1), "pins", MAX_EXACT);
        if (pin->n_tokens < least)
            wrong(l, "pins", "is not in ascending order");
        least = pin->n_tokens;
    }
}

static void parse_request(struct line *l, const cJSON *o, struct request *q)
{
    q->arrival_us = want(l, o, "arrival", MAX_EXACT);
    q->deadline_us = may(l, o, "deadline", MAX_EXACT);
    q->first_by_us = may(l, o, "first_by", MAX_EXACT);
    q->timeout_us = may(l, o, "timeout", MAX_EXACT);
    q->queue_until_us = may(l, o, "queue_until", MAX_EXACT);
    q->prefix_owner = may(l, o, "leader", MAX_EXACT);
    q->priority = (enum priority)want(l, o, "priority", PRIORITY_CRITICAL);
    q->tenant = (uint32_t)may(l, o, "tenant", UINT32_MAX);
    q->weight = (uint32_t)want(l, o, "weight", REQUEST_MAX_WEIGHT);
    q->key.salt = parse_salt(l, o);
    q->min_tokens = (uint32_t)may(l, o, "min_tokens", UINT32_MAX);
    q->ignore_eos = may(l, o, "ignore_eos", 1) == 1;
    q->score_prompt = may(l, o, "score_prompt", 1) == 1;
    q->rows_from = (uint32_t)may(l, o, "rows_from", UINT32_MAX);
    q->asks_store = may(l, o, "asks_store", 1) == 1;
    parse_stop(l, o, q);
    parse_pins(l, o, q);
}

/* The range that is discarded must end before the last token. */
static void parse_shift(struct line *l, const cJSON *o, struct request *q)
{
    if (!request_may_shift(q))
        return;
    q->n_keep = (uint32_t)may(l, o, "n_keep", q->max_known - 2);
    q->n_discard = (uint32_t)want(l, o, "n_discard", q->max_known - 1 - q->n_keep);
    if (q->n_discard == 0)
        wrong(l, "n_discard", "is 0");
}

static void parse_post(struct line *l, const cJSON *o, struct replay_record *r)
{
    struct request_size size = {0};
    int32_t *prompt = want_tokens(l, o, "prompt", &size.n_prompt);

    size.max_tokens = (uint32_t)may(l, o, "max_tokens", INT32_MAX);
    r->now_us = want(l, o, "now", MAX_EXACT);
    if (size.n_prompt == 0)
        wrong(l, "prompt", "is empty");
    size.max_known = (uint32_t)may(l, o, "max_known", INT32_MAX);
    if (size.max_known > 0 && size.max_known <= size.n_prompt)
        wrong(l, "max_known", "leaves no room for tokens after the prompt");
    /* A line must not cause an allocation that is much larger than the line. */
    if (size.max_tokens > 1u << 24)
        wrong(l, "max_tokens", "is too large");
    if (l->rc == 0)
        l->rc = request_create(&r->request, &size);
    if (l->rc == 0) {
        memcpy(r->request->ids, prompt, size.n_prompt * sizeof(*prompt));
        r->request->id = r->id;
        r->request->drafts = true; /* allowed: a plan may have drafts */
        parse_request(l, o, r->request);
        parse_shift(l, o, r->request);
    }
    mem_free(prompt);
}

static void parse_cancel(struct line *l, const cJSON *o, struct replay_record *r)
{
    const bool all = r->kind == REPLAY_CANCEL_ALL;

    r->now_us = want(l, o, "now", MAX_EXACT);
    r->why = (enum finish)(all ? r->id : want(l, o, "why", FINISH_ERROR));
    if (r->why == FINISH_NONE || r->why > FINISH_ERROR)
        wrong(l, "why", "is not a finish reason");
}

static void parse_limits(struct line *l, const cJSON *o, struct sched_limits *out)
{
    const cJSON *costs = want_array(l, o, "costs");
    const int n = cJSON_GetArraySize(costs);
    uint64_t v[10] = {0};

    out->target_us = want(l, o, "target", MAX_COST);
    out->is_shared = may(l, o, "shared", 1) != 0;
    if (n != 8 && n != 10)
        wrong(l, "costs", "does not have 8 or 10 numbers");
    for (int i = 0; i < n && l->rc == 0; i++)
        v[i] = line_value(l, cJSON_GetArrayItem(costs, i), "costs",
                          i == 0             ? 1
                          : i == 4 || i == 5 ? MAX_KV_COST
                          : i == 1           ? MAX_COST
                                             : 100000000000);
    if (l->rc == 0)
        out->costs = (struct step_costs){v[0] == 1, v[1], v[2], v[3], v[4], v[5],
                                         v[6],      v[7], v[8], v[9]};
}

static void parse_item(struct line *l, const cJSON *array, struct replay_item *out)
{
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != 4) {
        wrong(l, "items", "contains an element that is not a list of 4 numbers");
        return;
    }
    out->request = line_value(l, cJSON_GetArrayItem(array, 0), "items", MAX_EXACT);
    out->first = (uint32_t)line_value(l, cJSON_GetArrayItem(array, 1), "items", UINT32_MAX);
    out->n = (uint32_t)line_value(l, cJSON_GetArrayItem(array, 2), "items", UINT32_MAX);
    out->wants_token = line_value(l, cJSON_GetArrayItem(array, 3), "items", 1) == 1;
}

static void parse_draft(struct line *l, const cJSON *array, struct recorded_draft *out)
{
    const int n = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;

    if (n < 2 || n > 1 + DRAFT_MAX) {
        wrong(l, "drafts", "contains an element that is not a list of a request and its drafts");
        return;
    }
    out->request = line_value(l, cJSON_GetArrayItem(array, 0), "drafts", MAX_EXACT);
    out->n = (uint32_t)n - 1;
    for (int i = 1; i < n; i++)
        out->ids[i - 1] = token_of(l, cJSON_GetArrayItem(array, i), "drafts");
}

static void parse_drafts(struct line *l, const cJSON *o, struct replay_record *r)
{
    const cJSON *drafts = cJSON_GetObjectItemCaseSensitive(o, "drafts"), *v = NULL;
    uint32_t i = 0;

    if (drafts == NULL)
        return;
    drafts = want_array(l, o, "drafts");
    r->drafts = room_for(l, drafts, sizeof(*r->drafts), &r->n_drafts);
    if (r->drafts != NULL)
        cJSON_ArrayForEach(v, drafts)
            parse_draft(l, v, &r->drafts[i++]);
}

static void parse_plan(struct line *l, const cJSON *o, struct replay_record *r)
{
    const cJSON *items = want_array(l, o, "items"), *v = NULL;
    uint32_t i = 0;

    r->now_us = want(l, o, "now", MAX_EXACT);
    parse_limits(l, o, &r->limits);
    r->items = room_for(l, items, sizeof(*r->items), &r->n_items);
    if (r->items != NULL)
        cJSON_ArrayForEach(v, items)
            parse_item(l, v, &r->items[i++]);
    parse_drafts(l, o, r);
    want_ids(l, o, "admitted", &r->lists[REPLAY_ADMITTED]);
    want_ids(l, o, "preempted", &r->lists[REPLAY_PREEMPTED]);
    want_ids(l, o, "swapped_out", &r->lists[REPLAY_SWAPPED_OUT]);
    want_ids(l, o, "swapped_in", &r->lists[REPLAY_SWAPPED_IN]);
    r->n_moves = want32(l, o, "moves");
}

static void parse_io_start(struct line *l, const cJSON *o, struct replay_record *r)
{
    r->is_write = want(l, o, "write", 1) == 1;
    r->n_blocks = want32(l, o, "n");
}

static void parse_io_done(struct line *l, const cJSON *o, struct replay_record *r)
{
    const cJSON *rc = cJSON_GetObjectItemCaseSensitive(o, "rc");

    r->rc = token_of(l, rc, "rc");
    if (r->rc > 0)
        wrong(l, "rc", "is above 0");
}

static void parse_stored(struct line *l, const cJSON *o, struct replay_record *r)
{
    r->n_blocks = want32(l, o, "n");
}

static void parse_fetch(struct line *l, const cJSON *o, struct replay_record *r)
{
    r->first = want32(l, o, "first");
    r->n_blocks = want32(l, o, "n");
    r->is_last = may(l, o, "last", 1) == 1;
}

static void parse_commit(struct line *l, const cJSON *o, struct replay_record *r)
{
    r->now_us = want(l, o, "now", MAX_EXACT);
    r->tokens = want_tokens(l, o, "tokens", &r->n_tokens);
    if (cJSON_GetObjectItemCaseSensitive(o, "accepted") != NULL)
        want_ids(l, o, "accepted", &r->accepted);
}

static const struct {
    const char *key;
    void (*parse)(struct line *l, const cJSON *o, struct replay_record *r); /* NULL: no more keys */
} kinds[] = {
    [REPLAY_START] = {"start", parse_start},
    [REPLAY_POST] = {"post", parse_post},
    [REPLAY_CANCEL] = {"cancel", parse_cancel},
    [REPLAY_CANCEL_ALL] = {"cancel_all", parse_cancel},
    [REPLAY_PLAN] = {"plan", parse_plan},
    [REPLAY_MOVES_DONE] = {"moves_done", NULL},
    [REPLAY_IO_START] = {"io_start", parse_io_start},
    [REPLAY_IO_DONE] = {"io_done", parse_io_done},
    [REPLAY_COMMIT] = {"commit", parse_commit},
    [REPLAY_STORED] = {"stored", parse_stored},
    [REPLAY_FETCH] = {"fetch", parse_fetch},
    [REPLAY_FETCHED] = {"fetched", parse_fetch},
    [REPLAY_DROPPED] = {"dropped", NULL},
};

/* The first key selects the kind. */
static void parse_object(struct line *l, const cJSON *o, struct replay_record *out)
{
    const char *key = cJSON_IsObject(o) && o->child != NULL ? o->child->string : "";

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (strcmp(kinds[k].key, key) != 0)
            continue;
        out->kind = (enum replay_kind)k;
        out->id = line_value(l, o->child, key, MAX_EXACT);
        if (kinds[k].parse != NULL && l->rc == 0)
            kinds[k].parse(l, o, out);
        return;
    }
    l->rc = ERR_FORMAT;
    snprintf(l->err, l->err_len, "the line is not a line of a journal");
}

int replay_line_parse(struct replay_record *out, const char *text, size_t n, char *err,
                      size_t err_len)
{
    struct line l = {.err = err, .err_len = err_len};
    const char *end = NULL;
    cJSON *o = cJSON_ParseWithLengthOpts(text, n, &end, 0);

    memset(out, 0, sizeof(*out));
    if (o == NULL || end != text + n) {
        l.rc = ERR_FORMAT;
        snprintf(err, err_len, "the line is not a JSON object");
    } else {
        parse_object(&l, o, out);
    }
    cJSON_Delete(o);
    if (l.rc == ERR_NOMEM || l.rc == ERR_LIMIT)
        snprintf(err, err_len, "out of memory");
    if (l.rc < 0)
        replay_record_release(out);
    return l.rc;
}
