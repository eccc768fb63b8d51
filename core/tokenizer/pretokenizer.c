/* core/tokenizer/pretokenizer.c - see pretokenizer.h.
 *
 * The cuts of a family work like a pipeline that is pulled: pretokenizer_next() asks the last cut
 * for the end of its piece, and a cut whose piece is used up gets a new one from the cut before. No
 * list of pieces is stored, so memory does not depend on the text. A cut remembers the match that
 * it found after a gap, and split_memo where alternatives failed, so each character is looked at a
 * fixed number of times.
 */
#include "core/tokenizer/pretokenizer.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/tokenizer/split_pattern.h"
#include "core/tokenizer/thousands.h"

#include <string.h>

#define MAX_CUTS 6

/* Names of cuts that are not patterns: digits in groups of three from the right (thousands.h). */
#define DIGITS_IN_THREES "#digits"
#define NUMBERS_IN_THREES "#numbers"
#define THOUSANDS "#thousands"

enum rules_tag {
#define RULES(tag, ...) TAG_##tag,
#define NAME(name, tag, traits)
#include "core/tokenizer/pretokenizer_rules.inc"
    N_RULES
};

static const char *const rules[N_RULES][MAX_CUTS] = {
#define RULES(tag, ...) [TAG_##tag] = {__VA_ARGS__},
#define NAME(name, tag, traits)
#include "core/tokenizer/pretokenizer_rules.inc"
};

static const struct {
    const char *name;
    enum rules_tag tag;
    unsigned traits;
} names[] = {
#define RULES(tag, ...)
#define NAME(name, tag, traits) {name, TAG_##tag, traits},
#include "core/tokenizer/pretokenizer_rules.inc"
};

struct cut {
    struct split_pattern *pattern; /* NULL: the cut is for numbers */
    enum thousands_kind thousands;
};

struct pretokenizer {
    struct cut cuts[MAX_CUTS];
    size_t n_cuts;
};

/* The state of one cut: its piece ends at `end`; if next_end > end, the text from `end` to
 * `next_end` is known to be a match. */
struct cut_state {
    size_t limit; /* end of the piece that the cut divides */
    size_t end, next_end;
    struct split_memo memo;
    struct thousands thousands;
};

struct pretokenizer_run {
    const struct pretokenizer *p;
    const char *text;
    size_t n, at;
    struct cut_state states[MAX_CUTS];
};

/* ---- table of rules */

int pretokenizer_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i].name) == n && memcmp(names[i].name, name, n) == 0)
            return (int)i;
    }
    return -1;
}

unsigned pretokenizer_traits(int number)
{
    return names[number].traits;
}

bool pretokenizer_same_rules(int a, int b)
{
    return names[a].tag == names[b].tag;
}

const char *pretokenizer_name(size_t i)
{
    return i < sizeof(names) / sizeof(names[0]) ? names[i].name : NULL;
}

/* ---- creation */

static int cut_init(struct cut *cut, const char *source)
{
    int rc;

    if (strcmp(source, DIGITS_IN_THREES) == 0)
        cut->thousands = THOUSANDS_ALL;
    else if (strcmp(source, NUMBERS_IN_THREES) == 0)
        cut->thousands = THOUSANDS_ALONE;
    else if (strcmp(source, THOUSANDS) == 0)
        cut->thousands = THOUSANDS_BETWEEN;
    else {
        rc = split_pattern_create(&cut->pattern, source);
        return rc == 0 || rc == ERR_NOMEM ? rc : ERR_INTERNAL;
    }
    return 0;
}

int pretokenizer_create(struct pretokenizer **out, int number)
{
    const char *const *sources = rules[names[number].tag];
    struct pretokenizer *p = mem_calloc(1, sizeof(*p));
    int rc = p == NULL ? ERR_NOMEM : 0;

    *out = NULL;
    for (size_t i = 0; rc == 0 && i < MAX_CUTS && sources[i] != NULL; i++) {
        rc = cut_init(&p->cuts[i], sources[i]);
        p->n_cuts++;
    }
    if (rc != 0) {
        pretokenizer_destroy(&p);
        return rc;
    }
    *out = p;
    return 0;
}

void pretokenizer_destroy(struct pretokenizer **pretokenizer)
{
    struct pretokenizer *p = pretokenizer != NULL ? *pretokenizer : NULL;

    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n_cuts; i++)
        split_pattern_destroy(&p->cuts[i].pattern);
    mem_free(p);
    *pretokenizer = NULL;
}

int pretokenizer_run_create(struct pretokenizer_run **out, const struct pretokenizer *p)
{
    struct pretokenizer_run *run = mem_calloc(1, sizeof(*run));

    *out = run;
    if (run == NULL)
        return ERR_NOMEM;
    run->p = p;
    return 0;
}

void pretokenizer_run_destroy(struct pretokenizer_run **run)
{
    if (run == NULL)
        return;
    mem_free(*run);
    *run = NULL;
}

/* ---- cutting */

static size_t match(struct pretokenizer_run *run, size_t i, size_t at)
{
    const struct cut *cut = &run->p->cuts[i];
    struct cut_state *s = &run->states[i];

    if (cut->pattern != NULL)
        return split_pattern_match(cut->pattern, &s->memo, run->text, s->limit, at);
    return thousands_match(&s->thousands, cut->thousands, run->text, s->limit, at);
}

/* Return the end of cut i's piece that begins at `at`: the end of a match, or of the gap before the
 * next match. */
static size_t piece_end(struct pretokenizer_run *run, size_t i, size_t at)
{
    struct cut_state *s = &run->states[i];
    size_t len;

    if (s->next_end > at)
        return s->next_end;
    s->next_end = match(run, i, at);
    if (s->next_end != SPLIT_NONE)
        return s->next_end;
    for (size_t next = at; next < s->limit;) {
        unicode_at(run->text + next, s->limit - next, &len);
        next += len;
        if (run->p->cuts[i].pattern != NULL) /* most characters begin no match */
            next = split_pattern_skip(run->p->cuts[i].pattern, &s->memo, run->text, s->limit, next);
        s->next_end = next < s->limit ? match(run, i, next) : 0;
        if (s->next_end != SPLIT_NONE)
            return next;
    }
    return s->limit;
}

/* Give cut i a new piece to divide, and forget its results for the last one. */
static void set_limit(struct pretokenizer_run *run, size_t i, size_t limit)
{
    struct cut_state *s = &run->states[i];

    s->limit = limit;
    s->next_end = 0;
    if (run->p->cuts[i].pattern != NULL)
        split_memo_forget(run->p->cuts[i].pattern, &s->memo);
    else
        s->thousands = (struct thousands){.steps = s->thousands.steps};
}

void pretokenizer_begin(struct pretokenizer_run *run, const char *text, size_t n)
{
    run->text = text;
    run->n = n;
    run->at = 0;
    for (size_t i = 0; i < MAX_CUTS; i++)
        run->states[i].end = 0;
    set_limit(run, 0, n);
}

size_t pretokenizer_next(struct pretokenizer_run *run)
{
    const size_t n_cuts = run->p->n_cuts;

    for (size_t i = 0; i < n_cuts; i++) {
        struct cut_state *s = &run->states[i];

        if (s->end > run->at)
            continue; /* the piece is not used up yet */
        s->end = piece_end(run, i, run->at);
        if (i + 1 < n_cuts)
            set_limit(run, i + 1, s->end);
    }
    run->at = run->states[n_cuts - 1].end;
    return run->at;
}

uint64_t pretokenizer_steps(const struct pretokenizer_run *run)
{
    uint64_t steps = 0;

    for (size_t i = 0; i < MAX_CUTS; i++)
        steps += run->states[i].memo.steps + run->states[i].thousands.steps;
    return steps;
}
