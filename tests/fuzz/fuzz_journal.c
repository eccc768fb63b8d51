/* tests/fuzz/fuzz_journal.c - libFuzzer: any text as a journal to be replayed.
 *
 * A line that is understood and that the journal could have written, written by it again reads the
 * same. What the replay takes keeps the scheduler's books in order, a second replay ends at the
 * same line with the same counts, and whatever is refused is so with a sentence. Runs of more than
 * MOST sequences, tokens or blocks end the input: replay.h's own bounds are those of memory, which
 * test_replay checks.
 *
 * Under libFuzzer every other input is made from another by changing a number, or by removing,
 * doubling or moving a line, so that most inputs are journals.
 */
#include "tests/fuzz/scratch.h"

#include "core/base/mem.h"
#include "scheduler/journal.h"
#include "scheduler/replay/replay.h"
#include "server/cli/replay_line.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed);

#define MOST 1024
#define MAX_LINE ((size_t)1 << 17)
#define EXACT ((uint64_t)1 << 53)

struct outcome {
    uint64_t line;
    int rc;
    struct replay_stats stats;
};

static bool is_small(const struct replay_record *r)
{
    const struct sched_options *s = &r->sched;
    const struct kv_manager_options *k = &r->kv;

    if (r->kind == REPLAY_POST)
        return r->request->max_tokens <= MOST;
    return r->kind != REPLAY_START ||
           (s->max_tenants <= MOST && s->max_sequences <= MOST && s->max_requests <= MOST &&
            s->max_context <= 16 * MOST && s->max_batch_tokens <= 16 * MOST &&
            k->n_blocks <= MOST && k->n_ram <= MOST && k->n_file <= MOST &&
            k->max_sequences <= MOST && k->max_table <= MOST && k->groups.n <= 16);
}

/* The journal's line for the record; 0: it is none of those that are made from it alone. */
static size_t print(struct journal *j, const struct replay_record *r, char *out)
{
    switch (r->kind) {
    case REPLAY_START:
        if (r->kv.groups.n == 0)
            return 0; /* the replay refuses it, and the journal writes 1 */
        journal_start(j, &r->sched, &r->kv, r->tokens, r->n_tokens, r->unix_us);
        break;
    case REPLAY_POST:
        journal_post(j, r->request, r->now_us);
        break;
    case REPLAY_CANCEL:
        journal_cancel(j, r->id, r->why, r->now_us);
        break;
    case REPLAY_CANCEL_ALL:
        journal_cancel_all(j, r->why, r->now_us);
        break;
    case REPLAY_STORED:
        journal_stored(j, r->id, r->n_blocks);
        break;
    case REPLAY_FETCH:
        journal_fetch(j, &(struct sched_fetch){r->id, r->first, r->n_blocks});
        break;
    case REPLAY_FETCHED:
        journal_fetched(j, r->id, r->first, r->n_blocks, r->is_last);
        break;
    case REPLAY_PLAN:
    case REPLAY_MOVES_DONE:
    case REPLAY_IO_START:
    case REPLAY_IO_DONE:
    case REPLAY_COMMIT:
    case REPLAY_DROPPED:
        return 0;
    }
    return journal_take(j, out, MAX_LINE);
}

static void check_print(const struct replay_record *r)
{
    static char first[MAX_LINE], second[MAX_LINE];
    struct replay_record again;
    struct journal *j;
    char err[300];
    size_t n;

    require(journal_create(&j, MAX_LINE) == 0);
    n = print(j, r, first);
    if (n > 0) {
        require(first[n - 1] == '\n');
        require(replay_line_parse(&again, first, n - 1, err, sizeof(err)) == 0);
        require(again.kind == r->kind && again.now_us == r->now_us);
        require(print(j, &again, second) == n && memcmp(first, second, n) == 0);
        replay_record_release(&again);
    }
    journal_destroy(&j);
}

/* Every field has its own place in a line: values that differ come back where they were. */
static void check_fields(const struct replay_record *r)
{
    static char line[MAX_LINE];
    struct request *q = r->request;
    const struct request kept = *q;
    struct replay_record again;
    struct journal *j;
    char err[300];

    q->arrival_us = 11, q->deadline_us = 12, q->timeout_us = 13, q->queue_until_us = 14;
    q->prefix_owner = 15, q->tenant = 16, q->weight = 17, q->min_tokens = 18;
    require(journal_create(&j, MAX_LINE) == 0);
    require(replay_line_parse(&again, line, print(j, r, line) - 1, err, sizeof(err)) == 0);
    require(again.id == r->id && again.request->arrival_us == 11 &&
            again.request->deadline_us == 12 && again.request->timeout_us == 13 &&
            again.request->queue_until_us == 14 && again.request->prefix_owner == 15 &&
            again.request->tenant == 16 && again.request->weight == 17 &&
            again.request->min_tokens == 18 && again.request->max_tokens == q->max_tokens &&
            again.request->max_known == q->max_known &&
            (!request_may_shift(q) || (again.request->n_keep == q->n_keep &&
                                       again.request->n_discard == q->n_discard)));
    replay_record_release(&again);
    journal_destroy(&j);
    *q = kept;
}

static void check_record(const struct replay_record *r)
{
    require(r->id <= EXACT && r->now_us <= EXACT && r->rc <= 0);
    require((r->kind == REPLAY_POST) == (r->request != NULL));
    if (r->kind == REPLAY_POST)
        require(r->request->priority < PRIORITY_COUNT && r->request->weight <= REQUEST_MAX_WEIGHT &&
                r->request->n_stop_ids <= REQUEST_MAX_STOP_IDS && r->request->n_prompt > 0);
    check_print(r);
    if (r->kind == REPLAY_POST)
        check_fields(r);
}

static bool has_time(enum replay_kind kind)
{
    return kind == REPLAY_POST || kind == REPLAY_CANCEL || kind == REPLAY_CANCEL_ALL ||
           kind == REPLAY_PLAN || kind == REPLAY_COMMIT;
}

static int take_line(struct replay *r, const char *line, size_t n, bool checks, uint64_t *now_us)
{
    struct replay_record record;
    char err[512] = "";
    int rc = replay_line_parse(&record, line, n, err, sizeof(err));

    if (rc == 0 && checks)
        check_record(&record);
    if (rc == 0 && !is_small(&record)) {
        rc = 1;
    } else if (rc == 0) {
        rc = replay_take(r, &record, err, sizeof(err));
        *now_us = record.kind == REPLAY_START ? 0 : *now_us;
        require(rc < 0 || !has_time(record.kind) || record.now_us >= *now_us);
        *now_us = has_time(record.kind) ? record.now_us : *now_us;
        require(rc <= 0 && (rc < 0 || !checks || replay_check(r)));
    }
    require(rc >= 0 || err[0] != '\0');
    replay_record_release(&record);
    return rc;
}

static struct outcome replay(const char *text, size_t n, bool checks)
{
    struct outcome o = {0};
    uint64_t now_us = 0;
    struct replay *r;

    require(replay_create(&r, checks) == 0);
    while (o.rc == 0 && n > 0) {
        const char *end = memchr(text, '\n', n);
        const size_t len = end != NULL ? (size_t)(end - text) : n;

        o.rc = take_line(r, text, len, checks, &now_us);
        o.line++;
        text += len + (end != NULL);
        n -= len + (end != NULL);
    }
    o.stats = replay_stats(r);
    replay_destroy(&r);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct outcome a = replay((const char *)data, n, true);
    const struct outcome b = replay((const char *)data, n, false);

    require(a.line == b.line && a.rc == b.rc);
    require(a.stats.n_runs == b.stats.n_runs && a.stats.n_posts == b.stats.n_posts &&
            a.stats.n_cancels == b.stats.n_cancels && a.stats.n_plans == b.stats.n_plans &&
            a.stats.n_tokens == b.stats.n_tokens && a.stats.n_ends == b.stats.n_ends);
    return 0;
}

/* ---- inputs ---- */

static uint32_t pick(uint32_t *random, size_t n)
{
    *random = *random * 1664525 + 1013904223;
    return n > 0 ? (uint32_t)((*random >> 8) % n) : 0;
}

/* Replace n_old bytes at `at` by others, if there is room. */
static size_t replace(uint8_t *data, size_t n, size_t max, size_t at, size_t n_old,
                     const void *bytes, size_t n_new)
{
    if (n - n_old + n_new > max)
        return n;
    memmove(data + at + n_new, data + at + n_old, n - at - n_old);
    memcpy(data + at, bytes, n_new);
    return n - n_old + n_new;
}

static size_t change_number(uint8_t *data, size_t n, size_t max, uint32_t *random)
{
    static const char *const values[] = {"0", "1", "2", "3", "15", "16", "17", "255", "4294967295",
                                         "4294967296", "9007199254740992", "-1", "0.5"};
    size_t at = pick(random, n), len = 0;
    char near[24];
    const char *value = near;

    while (at < n && (data[at] < '0' || data[at] > '9'))
        at++;
    while (at > 0 && at < n && data[at - 1] >= '0' && data[at - 1] <= '9')
        at--;
    while (at + len < n && len < 9 && data[at + len] >= '0' && data[at + len] <= '9')
        near[len] = (char)data[at + len], len++;
    near[len] = '\0';
    if (pick(random, 3) == 0)
        value = values[pick(random, sizeof(values) / sizeof(values[0]))];
    else
        snprintf(near, sizeof(near), "%ld", strtol(near, NULL, 10) + (long)pick(random, 5) - 2);
    return replace(data, n, max, at, len, value, strlen(value));
}

static size_t line_at(const uint8_t *data, size_t n, size_t at, size_t *len)
{
    const uint8_t *end;

    while (at > 0 && data[at - 1] != '\n')
        at--;
    end = memchr(data + at, '\n', n - at);
    *len = end != NULL ? (size_t)(end - data) - at + 1 : n - at;
    return at;
}

/* Out, in again elsewhere, or both. */
static size_t change_line(uint8_t *data, size_t n, size_t max, uint32_t *random)
{
    static uint8_t line[1 << 16];
    const uint32_t how = pick(random, 3);
    size_t len, ignored, at = line_at(data, n, pick(random, n), &len);

    if (len > sizeof(line))
        return n;
    memcpy(line, data + at, len);
    if (how != 0)
        n = replace(data, n, max, at, len, "", 0);
    if (how != 1)
        n = replace(data, n, max, line_at(data, n, pick(random, n), &ignored), 0, line, len);
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    uint32_t random = seed;
    const uint32_t how = pick(&random, 4);

    if (how < 2 || n == 0)
        return LLVMFuzzerMutate(data, n, max);
    return how == 2 ? change_number(data, n, max, &random) : change_line(data, n, max, &random);
}
