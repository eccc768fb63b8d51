/* server/api/decisions/decision_labels.c - see decision_labels.h.
 *
 * A label is tokenized behind the tail: it is one token if that gives the tail's tokens and one
 * more. Sets are searched when they are first needed. A set of fixed texts ends with its first text
 * that is not one token; of pairs, those that are not are left out.
 */
#include "server/api/decisions/decision_labels.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/spans.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/response/choice.h"

#include <string.h>

#define MAX_TAIL ((size_t)64 << 20) /* bytes: a prompt without control tokens is its own tail */

/* Tokenize the first n_own bytes of the text as the server's own, and the rest as plain text. */
static int encode_label_text(struct decision_labels *l, const struct buf *text, size_t n_own,
                             struct token_list *out)
{
    struct spans own = {0};
    int rc;

    spans_add(&own, 0, n_own);
    rc = own.err < 0 ? own.err
                     : tokenizer_encode_own(l->tokenizer, text->data, text->len, &own, SIZE_MAX,
                                            l->budget, out);
    spans_release(&own);
    return rc;
}

static bool starts_with_ids(const struct token_list *list, const int32_t *ids, size_t n)
{
    return list->n >= n && memcmp(list->ids, ids, n * sizeof(*ids)) == 0;
}

/* A text that ends where an answer begins: all of a prompt, or the tail of all prompts. */
struct label_place {
    const char *text; /* [n_text] */
    size_t n_text;
    const int32_t *ids; /* [n_ids] tokens of the text */
    size_t n_ids;
};

static struct label_place place_of_tail(const struct decision_labels *l)
{
    return (struct label_place){l->tail, l->n_tail, l->tail_ids, l->n_tail_ids};
}

static struct label_place place_of_prompt(const struct prompt *prompt)
{
    return (struct label_place){prompt->text, prompt->n_text, prompt->ids.ids, prompt->ids.n};
}

/* Find the tokens of the label at a place. n is 0 if they are more than LABEL_MAX_TOKENS, or if the
 * tokens before them change. ERR_NOMEM, ERR_LIMIT. */
static int spell_label(struct decision_labels *l, const struct label_place *at, const char *label,
                       struct label_spelling *out)
{
    struct token_list list = {0};
    struct buf whole;
    int rc;

    *out = (struct label_spelling){0};
    buf_init(&whole, MAX_TAIL);
    buf_add(&whole, at->text, at->n_text);
    buf_add_str(&whole, label);
    rc = whole.err < 0 ? whole.err : encode_label_text(l, &whole, at->n_text, &list);
    if (rc == 0 && list.n > at->n_ids && list.n <= at->n_ids + LABEL_MAX_TOKENS &&
        starts_with_ids(&list, at->ids, at->n_ids)) {
        out->n = (uint32_t)(list.n - at->n_ids);
        memcpy(out->ids, list.ids + at->n_ids, out->n * sizeof(*out->ids));
    }
    token_list_release(&list);
    buf_release(&whole);
    return rc;
}

/* Return the token that the label is at a place; TOKEN_NONE: it is not one token. */
static int find_label_id(struct decision_labels *l, const struct label_place *at, const char *label,
                         int32_t *id)
{
    struct label_spelling s;
    const int rc = spell_label(l, at, label, &s);

    *id = s.n == 1 ? s.ids[0] : TOKEN_NONE;
    return rc;
}

/* ---- the tail ---- */

static const char *find_last(const char *text, size_t n, const char *piece, size_t n_piece)
{
    for (size_t at = n; at >= n_piece && n_piece > 0; at--)
        if (memcmp(text + at - n_piece, piece, n_piece) == 0)
            return text + at - n_piece;
    return NULL;
}

/* True: the text from `from` on has the tokens from `first` on, when it is tokenized alone. */
static int splits_here(struct decision_labels *l, const struct prompt *prompt, const char *from,
                       size_t first)
{
    const size_t n = (size_t)(prompt->text + prompt->n_text - from);
    struct token_list list = {0};
    struct buf text;
    int rc;

    buf_init(&text, MAX_TAIL);
    buf_add(&text, from, n);
    rc = text.err < 0 ? text.err : encode_label_text(l, &text, n, &list);
    if (rc == 0)
        rc = list.n == prompt->ids.n - first &&
             starts_with_ids(&list, prompt->ids.ids + first, list.n);
    token_list_release(&list);
    buf_release(&text);
    return rc;
}

int decision_labels_init(struct decision_labels *l, const struct prompt *prompt)
{
    size_t i = prompt->ids.n, n_piece;
    const char *piece, *from;
    int rc = 0;

    l->tail = prompt->text;
    l->n_tail = prompt->n_text;
    l->tail_ids = prompt->ids.ids;
    l->n_tail_ids = prompt->ids.n;
    while (i > 0 && !tokenizer_is_control(l->tokenizer, prompt->ids.ids[i - 1]))
        i--;
    if (i == 0)
        return 0;
    piece = tokenizer_piece(l->tokenizer, prompt->ids.ids[i - 1], &n_piece);
    from = find_last(prompt->text, prompt->n_text, piece, n_piece);
    if (from != NULL)
        rc = splits_here(l, prompt, from, i - 1);
    if (rc <= 0)
        return rc;
    l->has_control = true;
    l->tail = from;
    l->n_tail = (size_t)(prompt->text + prompt->n_text - from);
    l->tail_ids = prompt->ids.ids + i - 1;
    l->n_tail_ids = prompt->ids.n - (i - 1);
    return 0;
}

/* ---- sets ---- */

/* Write text i of a set; false: there are no more. */
static bool label_text(enum decision_label_kind which, uint32_t i, char out[4])
{
    static const char *const words[] = {"Yes", "No", "yes", "no"};
    const char *word = which == LABELS_CAPITALIZED ? words[i & 1] : words[2 + (i & 1)];

    memset(out, 0, 4);
    switch (which) {
    case LABELS_CAPITALIZED:
    case LABELS_WORDS:
        memcpy(out, word, strlen(word));
        return i < 2;
    case LABELS_DIGITS:
        out[0] = (char)('0' + i);
        return i < 10;
    case LABELS_LETTERS:
    case LABELS_SPELLED_LETTERS:
        out[0] = (char)('A' + i);
        return i < 26;
    default:
        out[0] = (char)('A' + i / 26 % 26);
        out[1] = (char)('A' + i % 26);
        return i < 26 * 26;
    }
}

static bool has_id(const struct decision_label_set *s, int32_t id)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->ids[i] == id)
            return true;
    return false;
}

static int search_labels(struct decision_labels *l, enum decision_label_kind which)
{
    struct decision_label_set *s = &l->sets[which];
    const struct label_place tail = place_of_tail(l);
    char text[4];

    for (uint32_t i = 0; s->n < DECISIONS_MAX_OPTIONS && label_text(which, i, text); i++) {
        int32_t id;
        const int rc = find_label_id(l, &tail, text, &id);

        if (rc < 0)
            return rc;
        if (id != TOKEN_NONE && !has_id(s, id)) {
            memcpy(s->texts[s->n], text, sizeof(text));
            s->ids[s->n++] = id;
        } else if (which != LABELS_PAIRS) {
            break;
        }
    }
    s->is_known = true;
    return 0;
}

static enum decision_label_kind write_labels(struct decision_labels *l, uint32_t n)
{
    const enum decision_label_kind which = n <= 26 ? LABELS_SPELLED_LETTERS : LABELS_SPELLED_PAIRS;
    struct decision_label_set *s = &l->sets[which];

    while (s->n < n && label_text(which, s->n, s->texts[s->n]))
        s->n++;
    return which;
}

int decision_labels_find(struct decision_labels *l, enum decision_kind kind, uint32_t n,
                         enum decision_label_kind *out)
{
    static const uint8_t first[] = {[DECISION_YES_NO] = LABELS_CAPITALIZED,
                                    [DECISION_CHOICE] = LABELS_LETTERS,
                                    [DECISION_SCORE] = LABELS_DIGITS};

    for (int k = first[kind]; k < LABELS_SPELLED_LETTERS; k++) {
        if (kind == DECISION_YES_NO && k == LABELS_DIGITS)
            continue;
        if (!l->sets[k].is_known) {
            const int rc = search_labels(l, (enum decision_label_kind)k);

            if (rc < 0)
                return rc;
        }
        *out = (enum decision_label_kind)k;
        if (l->sets[k].n >= n)
            return 0;
    }
    *out = write_labels(l, n);
    return 0;
}

int decision_labels_spell(struct decision_labels *l, const struct prompt *prompt,
                          enum decision_label_kind which, uint32_t n, struct label_spelling *out)
{
    const struct label_place at = l->has_control ? place_of_tail(l) : place_of_prompt(prompt);

    for (uint32_t i = 0; i < n; i++) {
        const int rc = spell_label(l, &at, l->sets[which].texts[i], &out[i]);

        if (rc < 0 || out[i].n == 0)
            return rc < 0 ? rc : ERR_NOENT;
    }
    return 0;
}

int decision_labels_hold(struct decision_labels *l, const struct prompt *prompt,
                         enum decision_label_kind which, uint32_t n)
{
    const struct decision_label_set *s = &l->sets[which];
    const struct label_place at = place_of_prompt(prompt);

    if (l->has_control)
        return prompt->ids.n >= l->n_tail_ids &&
               memcmp(prompt->ids.ids + prompt->ids.n - l->n_tail_ids, l->tail_ids,
                      l->n_tail_ids * sizeof(*l->tail_ids)) == 0;
    for (uint32_t i = 0; i < n; i++) {
        int32_t id;
        const int rc = find_label_id(l, &at, s->texts[i], &id);

        if (rc < 0 || id != s->ids[i])
            return rc < 0 ? rc : 0;
    }
    return 1;
}
