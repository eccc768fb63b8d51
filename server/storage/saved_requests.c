/* server/storage/saved_requests.c - see saved_requests.h.
 *
 * An array sorted by number, which a binary search extends: numbers grow along the file, so that
 * new requests almost always go to its end. Records may repeat or overlap (a compaction, a retry);
 * tokens that are known already are skipped, and an answer's tokens are used up to the first gap. A
 * request that is gone keeps its entry, without memory, so that later records cannot revive it.
 */
#include "server/storage/saved_requests.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

#define FIRST_ROOM 64

void saved_request_release(struct saved_request *r)
{
    mem_free(r->payload);
    mem_free(r->tokens);
    r->payload = NULL;
    r->tokens = NULL;
    r->n_tokens = r->n_room = 0;
}

void saved_requests_release(struct saved_requests *s)
{
    for (size_t i = 0; i < s->n; i++)
        saved_request_release(&s->all[i]);
    mem_free(s->all);
    *s = (struct saved_requests){0};
}

/* ---- finding ---- */

/* Return the index of the first request whose number is >= `number`. */
static size_t saved_place(const struct saved_requests *s, uint64_t number)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (s->all[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow_saved(struct saved_requests *s)
{
    const size_t n = s->n_room > 0 ? 2 * s->n_room : FIRST_ROOM;
    struct saved_request *all;

    if (s->n < s->n_room)
        return 0;
    all = mem_realloc(s->all, n * sizeof(*all));
    if (all == NULL)
        return ERR_NOMEM;
    s->all = all;
    s->n_room = n;
    return 0;
}

/* Return the record's request, added if it is new; NULL: no memory. */
static struct saved_request *get(struct saved_requests *s, const struct request_record *record)
{
    const size_t at = saved_place(s, record->number);
    struct saved_request *r;

    if (at < s->n && s->all[at].number == record->number)
        return &s->all[at];
    if (grow_saved(s) < 0)
        return NULL;
    r = &s->all[at];
    memmove(r + 1, r, (s->n - at) * sizeof(*r));
    s->n++;
    *r = (struct saved_request){.number = record->number};
    memcpy(r->id, record->id, sizeof(r->id));
    return r;
}

/* ---- records ---- */

/* ERR_FORMAT: the payload cannot be read. */
static int take_begin(struct saved_request *r, const struct request_record *record)
{
    struct request_record copy = *record;

    if (r->has_begin || r->is_gone)
        return 0;
    r->payload = mem_dup(record->payload, record->n_payload);
    if (r->payload == NULL)
        return ERR_NOMEM;
    copy.payload = r->payload;
    r->has_begin = request_record_read_begin(&copy, &r->begin);
    if (r->has_begin)
        return 0;
    mem_free(r->payload);
    r->payload = NULL;
    return ERR_FORMAT;
}

static int reserve(struct saved_request *r, size_t n)
{
    int32_t *tokens;

    if (n <= r->n_room)
        return 0;
    n = n < 2 * (size_t)r->n_room ? 2 * (size_t)r->n_room : n;
    if (n > UINT32_MAX)
        return ERR_NOMEM;
    tokens = mem_realloc(r->tokens, n * sizeof(*tokens));
    if (tokens == NULL)
        return ERR_NOMEM;
    r->tokens = tokens;
    r->n_room = (uint32_t)n;
    return 0;
}

static int take_tokens(struct saved_request *r, const struct request_record *record)
{
    const uint64_t known = (uint64_t)r->begin.n_past + r->n_tokens;
    uint32_t from, n;

    if (!request_record_read_tokens(record, &from, &n))
        return ERR_FORMAT;
    if (!r->has_begin || r->is_gone || from > known || (uint64_t)from + n <= known)
        return 0;
    if (reserve(r, r->n_tokens + (size_t)((uint64_t)from + n - known)) < 0)
        return ERR_NOMEM;
    for (uint32_t i = (uint32_t)(known - from); i < n; i++)
        r->tokens[r->n_tokens++] = request_record_token(record, i);
    return 0;
}

static int take_record(struct saved_requests *s, const struct request_record *record)
{
    struct saved_request *r = get(s, record);

    if (r == NULL)
        return ERR_NOMEM;
    switch (record->kind) {
    case REQUEST_BEGIN:
        return take_begin(r, record);
    case REQUEST_TOKENS:
        return take_tokens(r, record);
    case REQUEST_END:
        r->has_end = request_record_read_end(record, &r->finish, &r->n_answer);
        return r->has_end ? 0 : ERR_FORMAT;
    case REQUEST_GONE:
        r->is_gone = true;
        saved_request_release(r);
        return 0;
    }
    return ERR_FORMAT;
}

/* Take a record whose payload is damaged. It is not a REQUEST_GONE record, which has no payload, so
 * the request was wanted. */
static int take_head(struct saved_requests *s, const struct request_record *record)
{
    struct saved_request *r = get(s, record);

    if (r == NULL)
        return ERR_NOMEM;
    r->is_damaged = true;
    return 0;
}

/* Drop ends that do not match the tokens that were found. */
static void settle_saved(struct saved_requests *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct saved_request *r = &s->all[i];

        if ((uint64_t)r->begin.n_past + r->n_tokens != r->n_answer)
            r->has_end = false;
    }
}

int saved_requests_read(struct saved_requests *s, const char *data, size_t n,
                        void (*damage)(void *ud, size_t offset, size_t n), void *ud)
{
    struct request_scan scan = {.data = data, .n = n};
    struct request_record record;
    enum request_found found;
    int rc;

    while ((found = request_scan_next(&scan, &record)) != REQUEST_FOUND_NOTHING) {
        rc = found == REQUEST_FOUND_RECORD ? take_record(s, &record)
             : found == REQUEST_FOUND_HEAD ? take_head(s, &record)
                                           : ERR_FORMAT;
        if (rc == ERR_NOMEM)
            return rc;
        if (rc == 0 && found == REQUEST_FOUND_RECORD)
            continue;
        s->n_damaged += scan.at - scan.begin;
        if (damage != NULL)
            damage(ud, scan.begin, scan.at - scan.begin);
    }
    settle_saved(s);
    return 0;
}

void saved_request_write(const struct saved_request *r, struct buf *out)
{
    request_record_begin(out, r->number, r->id, &r->begin);
    if (r->n_tokens > 0)
        request_record_tokens(out, r->number, r->id, r->begin.n_past, r->tokens, r->n_tokens);
    if (r->has_end)
        request_record_end(out, r->number, r->id, r->finish, r->n_answer);
}
