/* server/storage/request_record.c - see request_record.h.
 *
 * A record is a fixed head, written as a struct in this machine's byte order, and a payload. The
 * writer reserves the head, appends the payload and fills the head in (close_record()). The scanner
 * trusts nothing: it checks both sums, and after damage searches for the magic number until a
 * head's sum fits again.
 */
#include "server/storage/request_record.h"

#include <string.h>
#include <xxhash.h>

/* "QRq1": no byte is zero, so that it cannot be part of token ids below 2^24. */
#define MAGIC 0x31715251u

struct head { /* as in the file, in this machine's byte order */
    uint32_t magic, kind;
    uint64_t number;
    uint32_t n_payload, is_zero;
    char id[REQUEST_RECORD_ID];
    uint64_t payload_sum, head_sum; /* the second covers everything before it */
};
_Static_assert(sizeof(struct head) == 88, "a head has no gaps");

struct begin_head { /* begins the payload of REQUEST_BEGIN; the texts follow */
    uint64_t seed, origin_id;
    int64_t created, now;
    uint32_t priority, n_past, tells_tokens;
    uint32_t n_texts[5];
};
_Static_assert(sizeof(struct begin_head) == 64, "it has no gaps");

/* ---- writing ---- */

static uint64_t sum_of_head(const struct head *h)
{
    return XXH3_64bits(h, offsetof(struct head, head_sum));
}

/* Fill in the head at `at`; its payload already follows it in the buffer. */
static void close_record(struct buf *out, size_t at, enum request_record_kind kind, uint64_t number,
                         const char *id)
{
    struct head h = {.magic = MAGIC, .kind = (uint32_t)kind, .number = number};
    const char *payload;
    const size_t n_id = strlen(id);

    if (out->err < 0)
        return;
    payload = out->data + at + sizeof(h);
    h.n_payload = (uint32_t)(out->len - at - sizeof(h));
    memcpy(h.id, id, n_id < sizeof(h.id) ? n_id : sizeof(h.id) - 1);
    h.payload_sum = XXH3_64bits(payload, h.n_payload);
    h.head_sum = sum_of_head(&h);
    memcpy(out->data + at, &h, sizeof(h));
}

static size_t open_record(struct buf *out)
{
    static const struct head none;
    const size_t at = out->len;

    buf_add(out, &none, sizeof(none));
    return at;
}

void request_record_begin(struct buf *out, uint64_t number, const char *id,
                          const struct request_begin *b)
{
    const struct request_text texts[] = {b->tenant, b->key, b->path, b->conversation, b->body};
    const size_t at = open_record(out);
    struct begin_head h = {.seed = b->seed,
                           .origin_id = b->origin_id,
                           .created = b->created,
                           .now = b->now,
                           .priority = b->priority,
                           .n_past = b->n_past,
                           .tells_tokens = b->tells_tokens};

    for (size_t i = 0; i < 5; i++)
        h.n_texts[i] = texts[i].n;
    buf_add(out, &h, sizeof(h));
    for (size_t i = 0; i < 5; i++)
        buf_add(out, texts[i].text, texts[i].n);
    close_record(out, at, REQUEST_BEGIN, number, id);
}

void request_record_tokens(struct buf *out, uint64_t number, const char *id, uint32_t from,
                           const int32_t *ids, uint32_t n)
{
    const size_t at = open_record(out);

    buf_add(out, &from, sizeof(from));
    buf_add(out, ids, n * sizeof(*ids));
    close_record(out, at, REQUEST_TOKENS, number, id);
}

void request_record_end(struct buf *out, uint64_t number, const char *id, uint32_t finish,
                        uint32_t n_tokens)
{
    const uint32_t payload[] = {finish, n_tokens};
    const size_t at = open_record(out);

    buf_add(out, payload, sizeof(payload));
    close_record(out, at, REQUEST_END, number, id);
}

void request_record_gone(struct buf *out, uint64_t number, const char *id)
{
    close_record(out, open_record(out), REQUEST_GONE, number, id);
}

/* ---- reading ---- */

bool request_record_read_begin(const struct request_record *r, struct request_begin *out)
{
    struct request_text *const texts[] = {&out->tenant, &out->key, &out->path, &out->conversation,
                                          &out->body};
    struct begin_head h;
    size_t at = sizeof(h);

    if (r->kind != REQUEST_BEGIN || r->n_payload < sizeof(h))
        return false;
    memcpy(&h, r->payload, sizeof(h));
    *out = (struct request_begin){.seed = h.seed,
                                  .origin_id = h.origin_id,
                                  .created = h.created,
                                  .now = h.now,
                                  .priority = h.priority,
                                  .n_past = h.n_past,
                                  .tells_tokens = h.tells_tokens != 0};
    for (size_t i = 0; i < 5; i++) {
        if (h.n_texts[i] > r->n_payload - at)
            return false;
        *texts[i] = (struct request_text){r->payload + at, h.n_texts[i]};
        at += h.n_texts[i];
    }
    return at == r->n_payload;
}

bool request_record_read_tokens(const struct request_record *r, uint32_t *from, uint32_t *n)
{
    if (r->kind != REQUEST_TOKENS || r->n_payload < sizeof(*from) || r->n_payload % 4 != 0)
        return false;
    memcpy(from, r->payload, sizeof(*from));
    *n = r->n_payload / 4 - 1;
    return true;
}

int32_t request_record_token(const struct request_record *r, uint32_t i)
{
    int32_t id;

    memcpy(&id, r->payload + 4 * ((size_t)i + 1), sizeof(id));
    return id;
}

bool request_record_read_end(const struct request_record *r, uint32_t *finish, uint32_t *n_tokens)
{
    if (r->kind != REQUEST_END || r->n_payload != 8)
        return false;
    memcpy(finish, r->payload, 4);
    memcpy(n_tokens, r->payload + 4, 4);
    return true;
}

static bool read_head(const struct request_scan *s, size_t at, struct head *h)
{
    if (s->n - at < sizeof(*h))
        return false;
    memcpy(h, s->data + at, sizeof(*h));
    return h->magic == MAGIC && h->head_sum == sum_of_head(h) && h->kind >= REQUEST_BEGIN &&
           h->kind <= REQUEST_GONE && h->id[sizeof(h->id) - 1] == '\0';
}

/* Return the offset of the next head from `at` on; the end if there is none. */
static size_t find_head(const struct request_scan *s, size_t at)
{
    const uint32_t magic = MAGIC;
    struct head h;

    while (at < s->n) {
        const char *found = memmem(s->data + at, s->n - at, &magic, sizeof(magic));

        if (found == NULL)
            return s->n;
        at = (size_t)(found - s->data);
        if (read_head(s, at, &h))
            return at;
        at++;
    }
    return s->n;
}

/* Return the offset at which to continue after a payload that does not match its sum. Either its
 * bytes or its length are wrong: the next record is at its end only if a head is there. */
static size_t behind_damaged(const struct request_scan *s, size_t payload, uint32_t n)
{
    struct head h;

    if (n <= s->n - payload && (payload + n == s->n || read_head(s, payload + n, &h)))
        return payload + n;
    return find_head(s, payload);
}

enum request_found request_scan_next(struct request_scan *s, struct request_record *out)
{
    const size_t payload = s->at + sizeof(struct head);
    struct head h;

    s->begin = s->at;
    if (s->at >= s->n)
        return REQUEST_FOUND_NOTHING;
    if (!read_head(s, s->at, &h)) {
        s->at = find_head(s, s->at + 1);
        return REQUEST_FOUND_DAMAGE;
    }
    *out = (struct request_record){.kind = (enum request_record_kind)h.kind, .number = h.number};
    memcpy(out->id, h.id, sizeof(out->id));
    if (h.n_payload > s->n - payload ||
        XXH3_64bits(s->data + payload, h.n_payload) != h.payload_sum) {
        s->at = behind_damaged(s, payload, h.n_payload);
        return REQUEST_FOUND_HEAD;
    }
    out->payload = s->data + payload;
    out->n_payload = h.n_payload;
    s->at = payload + h.n_payload;
    return REQUEST_FOUND_RECORD;
}
