/* server/storage/usage_ledger.c - see usage_ledger.h.
 *
 * Rows are an array sorted by day, to which new rows are almost always appended; each owner knows
 * its latest row, so that a request's end finds its row at once. Owners are an array with a hash
 * index and are never removed. When memory or room is short, amounts are added to an existing row,
 * so that the total stays correct.
 */
#include "server/storage/usage_ledger.h"

#include "core/base/err.h"
#include "core/base/hash_index.h"
#include "core/base/mem.h"
#include "core/base/name_copy.h"

#include <string.h>
#include <time.h>

#define DAY_S 86400
#define OTHERS 0 /* the index of USAGE_OTHERS */

struct owner {
    uint32_t row; /* index of its latest row; NO_ROW: none */
    char name[USAGE_MAX_NAME + 1];
};

#define NO_ROW UINT32_MAX

struct usage_ledger {
    struct owner *owners;
    struct usage_row *rows; /* by day */
    struct hash_index by_name; /* owners by name, as index + 1 */
    uint32_t n_owners, cap_owners, n_rows, cap_rows;
    void (*changed)(void *ud); /* or NULL */
    void *changed_ud;
};

void usage_amounts_add(struct usage_amounts *to, const struct usage_amounts *more)
{
    to->requests += more->requests;
    to->prompt_tokens += more->prompt_tokens;
    usage_add(&to->engine, &more->engine);
    to->cpu_us += more->cpu_us;
}

/* ---- room ---- */

/* Make room for one more item; without memory the array does not change. */
static int grow_ledger(void **items, uint32_t n, uint32_t *cap, size_t size)
{
    const uint32_t more = *cap > 0 ? 2 * *cap : 64;
    void *grown;

    if (n < *cap)
        return 0;
    grown = mem_realloc(*items, more * size);
    if (grown == NULL)
        return ERR_NOMEM;
    *items = grown;
    *cap = more;
    return 0;
}

static int add_owner(struct usage_ledger *l, const char *name)
{
    struct owner *o;

    if (l->n_owners == USAGE_MAX_OWNERS)
        return ERR_LIMIT;
    if (grow_ledger((void **)&l->owners, l->n_owners, &l->cap_owners, sizeof(*o)) < 0)
        return ERR_NOMEM;
    o = &l->owners[l->n_owners];
    *o = (struct owner){.row = NO_ROW};
    if (name_copy(o->name, sizeof(o->name), name) < 0)
        return ERR_LIMIT;
    if (hash_index_add(&l->by_name, hash_of_text(name), l->n_owners + 1) < 0)
        return ERR_NOMEM;
    l->n_owners++;
    return 0;
}

int usage_ledger_create(struct usage_ledger **out)
{
    struct usage_ledger *l = mem_calloc(1, sizeof(*l));

    *out = l;
    if (l == NULL)
        return ERR_NOMEM;
    if (add_owner(l, USAGE_OTHERS) < 0 ||
        grow_ledger((void **)&l->rows, 0, &l->cap_rows, sizeof(*l->rows)) < 0) {
        usage_ledger_destroy(out);
        return ERR_NOMEM;
    }
    return 0;
}

void usage_ledger_destroy(struct usage_ledger **l)
{
    if (*l == NULL)
        return;
    mem_free((*l)->owners);
    hash_index_release(&(*l)->by_name);
    mem_free((*l)->rows);
    mem_free(*l);
    *l = NULL;
}

int usage_ledger_copy(struct usage_ledger **out, const struct usage_ledger *l)
{
    struct usage_ledger *copy = mem_calloc(1, sizeof(*copy));

    *out = copy;
    if (copy == NULL)
        return ERR_NOMEM;
    copy->owners = mem_alloc(l->n_owners * sizeof(*l->owners));
    copy->rows = mem_alloc((l->n_rows + 1) * sizeof(*l->rows));
    if (copy->owners == NULL || copy->rows == NULL) {
        usage_ledger_destroy(out);
        return ERR_NOMEM;
    }
    memcpy(copy->owners, l->owners, l->n_owners * sizeof(*l->owners));
    memcpy(copy->rows, l->rows, l->n_rows * sizeof(*l->rows));
    copy->n_owners = copy->cap_owners = l->n_owners;
    copy->n_rows = copy->cap_rows = l->n_rows;
    return 0;
}

/* ---- rows ---- */

uint32_t usage_ledger_find(const struct usage_ledger *l, const char *name)
{
    struct hash_walk w = {.hash = hash_of_text(name)};
    uintptr_t item;

    while ((item = hash_index_next(&l->by_name, &w)) != 0)
        if (strcmp(l->owners[item - 1].name, name) == 0)
            return (uint32_t)item - 1;
    return USAGE_NO_OWNER;
}

/* Return the index of an owner; that of USAGE_OTHERS when there is no room or memory for a new
 * one. */
static uint32_t take_owner(struct usage_ledger *l, const char *name)
{
    const uint32_t known = usage_ledger_find(l, name);

    if (known != USAGE_NO_OWNER)
        return known;
    return add_owner(l, name) < 0 ? OTHERS : l->n_owners - 1;
}

/* Find each owner's latest row again, after rows have moved. */
static void find_latest(struct usage_ledger *l)
{
    for (uint32_t i = 0; i < l->n_owners; i++)
        l->owners[i].row = NO_ROW;
    for (uint32_t i = 0; i < l->n_rows; i++)
        l->owners[l->rows[i].owner].row = i;
}

static void drop_oldest_day(struct usage_ledger *l)
{
    uint32_t n = 1;

    while (n < l->n_rows && l->rows[n].day == l->rows[0].day)
        n++;
    l->n_rows -= n;
    memmove(l->rows, l->rows + n, l->n_rows * sizeof(*l->rows));
    find_latest(l);
}

/* Insert a row by its day. A day before the last row's occurs only after the clock was set back:
 * then later rows move. */
static struct usage_row *insert_row(struct usage_ledger *l, uint32_t owner, int32_t day)
{
    uint32_t at = l->n_rows;

    while (at > 0 && l->rows[at - 1].day > day)
        at--;
    memmove(l->rows + at + 1, l->rows + at, (l->n_rows - at) * sizeof(*l->rows));
    l->n_rows++;
    l->rows[at] = (struct usage_row){.day = day, .owner = owner};
    if (at + 1 == l->n_rows)
        l->owners[owner].row = at;
    else
        find_latest(l);
    return &l->rows[at];
}

/* Return the row of an owner and a day, or NULL. */
static struct usage_row *find_row(struct usage_ledger *l, uint32_t owner, int32_t day)
{
    uint32_t i = l->owners[owner].row;

    if (i == NO_ROW)
        return NULL;
    while (i > 0 && (l->rows[i].owner != owner || l->rows[i].day > day) && l->rows[i].day >= day)
        i--;
    return l->rows[i].owner == owner && l->rows[i].day == day ? &l->rows[i] : NULL;
}

/* Return the row of an owner and a day; add it if it does not exist. Without room or memory return
 * the latest row of all, so that the sum over all rows is correct even then. */
static struct usage_row *take_row(struct usage_ledger *l, uint32_t owner, int32_t day)
{
    struct usage_row *row = find_row(l, owner, day);

    if (row != NULL)
        return row;
    if (l->n_rows == USAGE_MAX_ROWS)
        drop_oldest_day(l);
    if (grow_ledger((void **)&l->rows, l->n_rows, &l->cap_rows, sizeof(*row)) < 0)
        return &l->rows[l->n_rows - 1];
    return insert_row(l, owner, day);
}

void usage_ledger_add(struct usage_ledger *l, const char *owner, int32_t day,
                      const struct usage_amounts *more)
{
    struct usage_row *row = take_row(l, take_owner(l, owner), day);

    usage_amounts_add(&row->amounts, more);
    row->is_unsaved = true;
    if (l->changed != NULL)
        l->changed(l->changed_ud);
}

/* ---- saving ---- */

void usage_ledger_on_change(struct usage_ledger *l, void (*changed)(void *ud), void *ud)
{
    l->changed = changed;
    l->changed_ud = ud;
}

void usage_ledger_restore(struct usage_ledger *l, const char *owner, int32_t day,
                          const struct usage_amounts *saved)
{
    usage_amounts_add(&take_row(l, take_owner(l, owner), day)->amounts, saved);
}

/* Search from the end: the rows that change are those of the latest days. */
uint32_t usage_ledger_take_unsaved(struct usage_ledger *l, struct usage_row *out, uint32_t max)
{
    uint32_t n = 0;

    for (uint32_t i = l->n_rows; i-- > 0 && n < max;) {
        if (!l->rows[i].is_unsaved)
            continue;
        l->rows[i].is_unsaved = false;
        out[n++] = l->rows[i];
    }
    return n;
}

void usage_ledger_give_back(struct usage_ledger *l, const struct usage_row *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct usage_row *row = find_row(l, rows[i].owner, rows[i].day);

        if (row != NULL)
            row->is_unsaved = true;
    }
}

bool usage_ledger_has_unsaved(const struct usage_ledger *l)
{
    for (uint32_t i = l->n_rows; i-- > 0;)
        if (l->rows[i].is_unsaved)
            return true;
    return false;
}

uint64_t *usage_ledger_sums(const struct usage_ledger *l, int32_t from_day)
{
    uint64_t *sums = mem_calloc(l->n_owners, sizeof(*sums));

    for (uint32_t i = l->n_rows; sums != NULL && i-- > 0 && l->rows[i].day >= from_day;)
        sums[l->rows[i].owner] +=
            l->rows[i].amounts.prompt_tokens + l->rows[i].amounts.engine.generated_tokens;
    return sums;
}

const struct usage_row *usage_ledger_rows(const struct usage_ledger *l, uint32_t *n)
{
    *n = l->n_rows;
    return l->rows;
}

uint32_t usage_ledger_n_owners(const struct usage_ledger *l)
{
    return l->n_owners;
}

const char *usage_ledger_name(const struct usage_ledger *l, uint32_t owner)
{
    return l->owners[owner].name;
}

/* ---- days ---- */

void usage_day_text(int32_t day, char out[11])
{
    const time_t at = (time_t)day * DAY_S;
    struct tm tm;

    gmtime_r(&at, &tm);
    strftime(out, 11, "%Y-%m-%d", &tm);
}

bool usage_day_parse(const char *text, int32_t *day)
{
    struct tm tm = {0};
    char back[11];
    const char *end = strptime(text, "%Y-%m-%d", &tm);

    if (end == NULL || *end != '\0' || tm.tm_year < 70 || tm.tm_year > 8099)
        return false;
    *day = (int32_t)(timegm(&tm) / DAY_S);
    usage_day_text(*day, back);
    return strcmp(back, text) == 0; /* refuses the 30th of February, for example */
}
