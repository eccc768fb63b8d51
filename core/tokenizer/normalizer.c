/* core/tokenizer/normalizer.c - see normalizer.h.
 *
 * Each step is a function that reads one text and appends the result to a buffer; two buffers take
 * turns, and a step that changes nothing leaves the text where it is, so unchanged texts are never
 * copied. Every step spends the request's budget as it goes, because a file's steps and a client's
 * text together decide how long it takes.
 */
#include "core/tokenizer/normalizer.h"

#include "core/base/buf.h"
#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/normal_form.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/split_pattern.h"
#include "core/tokenizer/vocab.h"

#include <string.h>
#include <unictype.h>

#define MAX_STEPS 16 /* most steps; the longest in use has 6 */
#define MOST_GROWTH 16 /* most growth of a text, plus MOST_ADDED bytes: NFKC makes at most 11 bytes
                        * of 1 */
#define MOST_ADDED 65536

struct piece {
    const char *text;
    size_t n;
};

struct step {
    const struct step_kind *kind;
    char *first, *second; /* the step's texts */
    size_t n_first, n_second;
    struct normal_form *form;      /* or NULL */
    struct split_pattern *pattern; /* or NULL */
};

struct step_kind {
    const char *name;
    /* Append the changed text to `out` and return 1; or return 0: the text stays unchanged. The
     * budget is spent along the way, so that a client that disconnects stops the work. */
    int (*run)(const struct step *step, struct piece text, struct budget *budget, struct buf *out);
    int form;       /* one of NORMAL_FORM_*, or -1 */
    size_t shrinks; /* see normalizer_shrinks() */
    bool is_regex;  /* the first text is a pattern */
};

struct normalizer {
    struct step steps[MAX_STEPS];
    size_t n;
};

/* ---- the steps */

static int run_form(const struct step *step, struct piece p, struct budget *budget,
                    struct buf *out)
{
    const int rc = normal_form_add(step->form, p.text, p.n, budget, out);

    return rc < 0 ? rc : 1;
}

/* Lower-case each character without regard to its context, as `tokenizers` does. */
static int run_lowercase(const struct step *step, struct piece p, struct budget *budget,
                         struct buf *out)
{
    int rc = 0;

    (void)step;
    for (size_t at = 0, len; rc == 0 && at < p.n; at += len) {
        unicode_at(p.text + at, p.n - at, &len);
        unicode_change_case(p.text + at, len, UNICODE_LOWER, out);
        rc = budget_spend(budget, 2);
    }
    return rc < 0 ? rc : 1;
}

/* True: the character is a mark in Unicode 9.0; two Vedic signs have become letters since. */
static bool is_combining_mark(uint32_t c)
{
    return c == 0x1CF2 || c == 0x1CF3 ||
           (c >= 0x300 && uc_is_general_category_withtable(c, UC_CATEGORY_MASK_M) &&
            !normal_form_is_newer(c));
}

static int run_strip_accents(const struct step *step, struct piece p, struct budget *budget,
                             struct buf *out)
{
    int rc = 0;

    (void)step;
    for (size_t at = 0, len; rc == 0 && at < p.n; at += len) {
        if (!is_combining_mark(unicode_at(p.text + at, p.n - at, &len)))
            buf_add(out, p.text + at, len);
        rc = budget_spend(budget, 1);
    }
    return rc < 0 ? rc : 1;
}

static int run_strip_left(const struct step *step, struct piece p, struct budget *budget,
                          struct buf *out)
{
    size_t at = 0, len;

    (void)step;
    while (at < p.n && unicode_is_white(unicode_at(p.text + at, p.n - at, &len)))
        at += len;
    buf_add(out, p.text + at, p.n - at);
    return budget_spend(budget, at) < 0 ? budget_error(budget) : at > 0;
}

static int run_strip_right(const struct step *step, struct piece p, struct budget *budget,
                           struct buf *out)
{
    const size_t before = p.n;

    (void)step;
    while (p.n > 0) {
        const size_t len = unicode_last(p.text, p.n);
        size_t same;

        if (!unicode_is_white(unicode_at(p.text + p.n - len, len, &same)))
            break;
        p.n -= len;
    }
    buf_add(out, p.text, p.n);
    return budget_spend(budget, before - p.n) < 0 ? budget_error(budget) : p.n < before;
}

static int run_prepend(const struct step *step, struct piece p, struct budget *budget,
                       struct buf *out)
{
    (void)budget;
    if (p.n == 0)
        return 0;
    buf_add(out, step->first, step->n_first);
    buf_add(out, p.text, p.n);
    return 1;
}

static int run_replace(const struct step *step, struct piece p, struct budget *budget,
                       struct buf *out)
{
    size_t at = 0;
    int rc = 0;

    for (const char *found; rc == 0 && at < p.n; at = (size_t)(found - p.text) + step->n_first) {
        found = memmem(p.text + at, p.n - at, step->first, step->n_first);
        if (found == NULL)
            break;
        buf_add(out, p.text + at, (size_t)(found - p.text) - at);
        buf_add(out, step->second, step->n_second);
        rc = budget_spend(budget, 1 + step->n_second / 8);
    }
    buf_add(out, p.text + at, p.n - at);
    return rc < 0 ? rc : 1;
}

static int run_replace_regex(const struct step *step, struct piece p, struct budget *budget,
                             struct buf *out)
{
    struct split_memo memo = {0};
    size_t done = 0, at = 0, len;
    int rc = 0;

    split_memo_forget(step->pattern, &memo);
    while (rc == 0 && at < p.n) {
        size_t end;

        at = split_pattern_skip(step->pattern, &memo, p.text, p.n, at);
        end = at < p.n ? split_pattern_match(step->pattern, &memo, p.text, p.n, at) : SPLIT_NONE;
        if (end != SPLIT_NONE) {
            buf_add(out, p.text + done, at - done);
            buf_add(out, step->second, step->n_second);
            done = at = end;
        } else if (at < p.n) {
            unicode_at(p.text + at, p.n - at, &len);
            at += len;
        }
        rc = budget_spend(budget, 1 + step->n_second / 8);
    }
    buf_add(out, p.text + done, p.n - done);
    return rc < 0 ? rc : 1;
}

/* A form turns at most 4 bytes into one, lower case at most 3. */
static const struct step_kind kinds[] = {
    {"nfc", run_form, NORMAL_FORM_C, 4, false},
    {"nfd", run_form, NORMAL_FORM_D, 4, false},
    {"nfkc", run_form, NORMAL_FORM_KC, 4, false},
    {"nfkd", run_form, NORMAL_FORM_KD, 4, false},
    {"lowercase", run_lowercase, -1, 3, false},
    {"strip_accents", run_strip_accents, -1, 0, false},
    {"strip_left", run_strip_left, -1, 0, false},
    {"strip_right", run_strip_right, -1, 0, false},
    {"prepend", run_prepend, -1, 1, false},
    {"replace", run_replace, -1, 0, false},
    {"replace_regex", run_replace_regex, -1, 0, true},
};

static const struct step_kind *find_kind(struct gguf_str name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strlen(kinds[i].name) == name.len && memcmp(kinds[i].name, name.data, name.len) == 0)
            return &kinds[i];
    return NULL;
}

/* ---- loading */

static char *copy_text(struct gguf_str s, size_t *n)
{
    char *copy = mem_calloc(s.len + 1, 1);

    if (copy != NULL && s.len > 0)
        memcpy(copy, s.data, s.len);
    *n = s.len;
    return copy;
}

/* Add a step. ERR_FORMAT, ERR_LIMIT: its pattern or text is not supported. */
static int add_step_of(struct normalizer *normalizer, struct gguf_str name, struct gguf_str first,
                       struct gguf_str second)
{
    const struct step_kind *kind = find_kind(name);
    struct step *step = &normalizer->steps[normalizer->n];

    if (kind == NULL || (kind->run == run_replace && first.len == 0) ||
        memchr(first.data, 0, first.len) != NULL)
        return ERR_FORMAT;
    *step = (struct step){.kind = kind};
    normalizer->n++;
    step->first = copy_text(first, &step->n_first);
    step->second = copy_text(second, &step->n_second);
    if (step->first == NULL || step->second == NULL)
        return ERR_NOMEM;
    if (kind->is_regex)
        return split_pattern_create(&step->pattern, step->first);
    return kind->form >= 0 ? normal_form_create(&step->form, (enum normal_form_kind)kind->form) : 0;
}

static int read_steps(struct normalizer *normalizer, const struct gguf *g, const struct gguf_kv *kv,
                      char *err, size_t err_len)
{
    if (kv->count % 3 != 0 || kv->count / 3 > MAX_STEPS)
        return text_fail(
            g, ERR_FORMAT, err, err_len,
            NORMALIZER_KEY
            " has %llu elements, but must have three for each step, and at most %d steps",
            (unsigned long long)kv->count, MAX_STEPS);
    for (uint64_t i = 0; i < kv->count; i += 3) {
        const struct gguf_str name = gguf_array_str(kv, i), first = gguf_array_str(kv, i + 1);
        const int rc = add_step_of(normalizer, name, first, gguf_array_str(kv, i + 2));

        if (rc == ERR_NOMEM)
            return text_fail(g, rc, err, err_len, "no memory for " NORMALIZER_KEY);
        if (rc < 0)
            return text_fail(g, ERR_UNSUPPORTED, err, err_len,
                             NORMALIZER_KEY ": step '%.*s' with '%.*s' is not supported",
                             (int)(name.len < 40 ? name.len : 40), name.data,
                             (int)(first.len < 60 ? first.len : 60), first.data);
    }
    return 0;
}

/* Take the family's steps if the file has none. */
static int read_family(struct normalizer *normalizer, const struct vocab *v, const struct gguf *g,
                       char *err, size_t err_len)
{
    static const struct gguf_str nfc = {"nfc", 3}, none = {"", 0};

    if (v->model != VOCAB_BPE || (pretokenizer_traits(v->rules) & PRETOKENIZER_NFC) == 0)
        return 0;
    return add_step_of(normalizer, nfc, none, none) == 0
               ? 0
               : text_fail(g, ERR_NOMEM, err, err_len, "no memory for the normalizer");
}

int normalizer_load(struct normalizer **out, const struct vocab *v, const struct gguf *g, char *err,
                    size_t err_len)
{
    struct normalizer *normalizer = mem_calloc(1, sizeof(*normalizer));
    const struct gguf_kv *kv;
    int rc;

    *out = NULL;
    if (normalizer == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the normalizer");
    rc = gguf_get_array(g, NORMALIZER_KEY, GGUF_STRING, &kv, err, err_len);
    if (rc == ERR_NOENT)
        rc = read_family(normalizer, v, g, err, err_len);
    else if (rc == 0)
        rc = read_steps(normalizer, g, kv, err, err_len);
    if (rc < 0 || normalizer->n == 0)
        normalizer_destroy(&normalizer);
    *out = normalizer;
    return rc;
}

void normalizer_destroy(struct normalizer **normalizer)
{
    struct normalizer *p = normalizer != NULL ? *normalizer : NULL;

    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n; i++) {
        mem_free(p->steps[i].first);
        mem_free(p->steps[i].second);
        normal_form_destroy(&p->steps[i].form);
        split_pattern_destroy(&p->steps[i].pattern);
    }
    mem_free(p);
    *normalizer = NULL;
}

size_t normalizer_shrinks(const struct normalizer *normalizer)
{
    size_t times = 1;

    for (size_t i = 0; i < normalizer->n; i++)
        times *= normalizer->steps[i].kind->shrinks;
    return times;
}

/* ---- running */

void normal_text_release(struct normal_text *t)
{
    for (size_t i = 0; t->buffers != NULL && i < 2; i++)
        buf_release(&t->buffers[i]);
    mem_free(t->buffers);
    *t = (struct normal_text){0};
}

/* Return the buffer that does not hold the text. */
static struct buf *other_buffer(struct normal_text *t, size_t max)
{
    struct buf *b = t->buffers;

    if (b == NULL) {
        b = t->buffers = mem_calloc(2, sizeof(*b));
        if (b == NULL)
            return NULL;
        buf_init(&b[0], max);
        buf_init(&b[1], max);
    }
    b += t->text == b->data;
    buf_clear(b);
    return b;
}

int normalizer_run(const struct normalizer *normalizer, const char *text, size_t n, size_t max,
                   struct budget *budget, struct normal_text *out)
{
    *out = (struct normal_text){.text = text, .n = n};
    if (max > MOST_ADDED && (max - MOST_ADDED) / MOST_GROWTH > n)
        max = MOST_GROWTH * n + MOST_ADDED; /* a file's step may replace one letter by a very long
                                             * text */
    for (size_t i = 0; i < normalizer->n; i++) {
        const struct step *step = &normalizer->steps[i];
        struct buf *to;
        int rc = budget_spend(budget, 1 + out->n / 32);

        if (rc < 0)
            return rc;
        if (step->form != NULL && normal_form_check(step->form, out->text, out->n) == out->n)
            continue;
        to = other_buffer(out, max);
        if (to == NULL)
            return ERR_NOMEM;
        rc = step->kind->run(step, (struct piece){out->text, out->n}, budget, to);
        if (rc < 0 || (rc > 0 && to->err != 0))
            return rc < 0 ? rc : to->err;
        if (rc == 0)
            continue;
        out->text = to->data != NULL ? to->data : "";
        out->n = to->len;
    }
    return 0;
}
