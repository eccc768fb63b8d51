/* server/storage/usage_page.c - see usage_page.h.
 *
 * Rows are in the order of days, so that periods are rendered in one pass: amounts of the current
 * period are summed per owner, and its lines are written when a row of the next period comes. All
 * numbers are integers; microseconds are printed as seconds with six digits. A pool thread runs
 * usage_page_render() on a copy of the ledger.
 */
#include "server/storage/usage_page.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"
#include "core/json/json.h"
#include "server/http/error.h"
#include "server/http/http_call.h"

#include <inttypes.h>
#include <string.h>

/* ---- the query parameters ---- */

static int take_day(struct http_call *call, const char *name, int32_t *day, struct api_error *e)
{
    const char *text = http_call_query(call, name);

    if (text == NULL || usage_day_parse(text, day))
        return 0;
    return api_error_set(e, 400, name, NULL, "'%s' must be a day, such as 2026-11-26", name);
}

/* Read the parameter as an index into a NULL-terminated list of words. */
static int take_word(struct http_call *call, const char *name, const char *const *words,
                     uint32_t *out, struct api_error *e)
{
    const char *text = http_call_query(call, name);
    struct buf list = {0};
    int rc;

    if (text == NULL)
        return 0;
    for (uint32_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return 0;
        }
    }
    buf_init(&list, 200);
    for (uint32_t i = 0; words[i] != NULL; i++)
        buf_printf(&list, "%s%s", i == 0 ? "" : words[i + 1] != NULL ? ", " : " or ", words[i]);
    rc = api_error_set(e, 400, name, NULL, "'%s' must be %.*s", name, (int)list.len, list.data);
    buf_release(&list);
    return rc;
}

int usage_question_read(struct http_call *call, struct usage_question *q, struct api_error *e)
{
    static const char *const periods[] = {"day", "month", "total", NULL};
    static const char *const formats[] = {"json", "csv", NULL};
    const char *owner = http_call_query(call, "owner");
    uint32_t by = USAGE_BY_DAY, format = 0;

    *q = (struct usage_question){.from = 0, .to = INT32_MAX, .has_owner = owner != NULL};
    if (owner != NULL && name_copy(q->owner, sizeof(q->owner), owner) < 0)
        return api_error_set(e, 400, "owner", NULL, "'owner' must be at most %d bytes",
                             USAGE_MAX_NAME);
    if (take_day(call, "from", &q->from, e) < 0 || take_day(call, "to", &q->to, e) < 0 ||
        take_word(call, "by", periods, &by, e) < 0 ||
        take_word(call, "format", formats, &format, e) < 0)
        return ERR_INVAL;
    q->by = (enum usage_period)by;
    q->is_csv = format == 1;
    return 0;
}

/* ---- lines ---- */

struct sums { /* the sums of one period */
    const struct usage_ledger *ledger;
    const struct usage_question *q;
    struct buf *out;
    char period[11];
    uint32_t n_owners;
    struct usage_amounts *of; /* [n_owners] */
    struct usage_amounts all; /* sum of all periods */
    bool has_line;            /* a line has been written */
};

/* Print seconds exactly: the ledger counts microseconds. */
static void add_seconds(struct buf *b, const char *before, uint64_t us)
{
    buf_printf(b, "%s%" PRIu64 ".%06" PRIu64, before, us / 1000000, us % 1000000);
}

static void add_amounts_json(struct buf *b, const struct usage_amounts *a)
{
    buf_printf(b,
               "\"requests\":%" PRIu64 ",\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64
               ",\"computed_tokens\":%" PRIu64 ",\"generated_tokens\":%" PRIu64,
               a->requests, a->prompt_tokens, a->engine.cached_tokens, a->engine.computed_tokens,
               a->engine.generated_tokens);
    add_seconds(b, ",\"compute_seconds\":", a->engine.compute_us);
    add_seconds(b, ",\"cpu_seconds\":", a->cpu_us);
    add_seconds(b, ",\"block_seconds\":", a->engine.block_us);
}

static void add_line_json(struct sums *s, const char *owner, const struct usage_amounts *a)
{
    buf_printf(s->out, "%s{\"object\":\"usage\",\"period\":\"%s\",\"owner\":",
               s->has_line ? "," : "", s->period);
    json_add_cstring(s->out, owner);
    buf_add_char(s->out, ',');
    add_amounts_json(s->out, a);
    buf_add_char(s->out, '}');
}

/* Quote a text for CSV. A tenant's name may begin like a formula, which a spreadsheet would
 * compute: an apostrophe prevents that. */
static void add_csv_text(struct buf *b, const char *text)
{
    buf_add_char(b, '"');
    if (text[0] != '\0' && strchr("=+-@\t", text[0]) != NULL)
        buf_add_char(b, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            buf_add_char(b, '"');
        buf_add_char(b, *text);
    }
    buf_add_char(b, '"');
}

static void add_line_csv(struct sums *s, const char *owner, const struct usage_amounts *a)
{
    buf_printf(s->out, "%s,", s->period);
    add_csv_text(s->out, owner);
    buf_printf(s->out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, a->requests,
               a->prompt_tokens, a->engine.cached_tokens, a->engine.computed_tokens,
               a->engine.generated_tokens);
    add_seconds(s->out, ",", a->engine.compute_us);
    add_seconds(s->out, ",", a->cpu_us);
    add_seconds(s->out, ",", a->engine.block_us);
    buf_add_str(s->out, "\r\n");
}

/* End a period: write a line for each owner that has requests in it. */
static void end_period(struct sums *s)
{
    for (uint32_t i = 0; i < s->n_owners; i++) {
        const char *owner = usage_ledger_name(s->ledger, i);

        if (s->of[i].requests == 0)
            continue;
        if (s->q->is_csv)
            add_line_csv(s, owner, &s->of[i]);
        else
            add_line_json(s, owner, &s->of[i]);
        usage_amounts_add(&s->all, &s->of[i]);
        s->of[i] = (struct usage_amounts){0};
        s->has_line = true;
    }
}

/* The period's name: "2026-11-26", "2026-11" or "total". */
static void name_period(enum usage_period by, int32_t day, char out[11])
{
    usage_day_text(day, out);
    if (by == USAGE_BY_MONTH)
        out[7] = '\0';
    if (by == USAGE_BY_TOTAL)
        memcpy(out, "total", 6);
}

static void add_lines(struct sums *s)
{
    uint32_t n;
    const struct usage_row *rows = usage_ledger_rows(s->ledger, &n);

    for (uint32_t i = 0; i < n; i++) {
        const struct usage_row *r = &rows[i];
        char period[11];

        if (r->day < s->q->from || r->day > s->q->to ||
            (s->q->has_owner &&
             strcmp(s->q->owner, usage_ledger_name(s->ledger, r->owner)) != 0))
            continue;
        name_period(s->q->by, r->day, period);
        if (strcmp(period, s->period) != 0)
            end_period(s);
        memcpy(s->period, period, sizeof(period));
        usage_amounts_add(&s->of[r->owner], &r->amounts);
    }
    end_period(s);
}

/* ---- the answer ---- */

static void render_json(struct sums *s, bool has_keys)
{
    buf_printf(s->out, "{\"object\":\"list\",\"owners\":\"%s\",\"data\":[",
               has_keys ? "keys" : "tenants");
    add_lines(s);
    buf_add_str(s->out, "],\"total\":{");
    add_amounts_json(s->out, &s->all);
    buf_add_str(s->out, "}}");
}

static void render_csv(struct sums *s)
{
    buf_add_str(s->out, "period,owner,requests,prompt_tokens,cached_tokens,computed_tokens,"
                        "generated_tokens,compute_seconds,cpu_seconds,block_seconds\r\n");
    add_lines(s);
}

int usage_page_render(const struct usage_ledger *l, const struct usage_question *q, bool has_keys,
                      struct buf *out)
{
    const uint32_t n = usage_ledger_n_owners(l);
    struct sums s = {.ledger = l, .q = q, .out = out, .n_owners = n};

    s.of = mem_calloc(n, sizeof(*s.of));
    if (s.of == NULL)
        return ERR_NOMEM;
    if (q->is_csv)
        render_csv(&s);
    else
        render_json(&s, has_keys);
    mem_free(s.of);
    return out->err;
}

const char *usage_page_type(const struct usage_question *q)
{
    return q->is_csv ? "text/csv; charset=utf-8" : "application/json";
}
