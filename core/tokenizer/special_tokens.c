/* core/tokenizer/special_tokens.c - see special_tokens.h.
 *
 * The trie's edges are one hash table keyed by (node, byte), sized beforehand by the total length
 * of the names. A table of first bytes skips text in which no name can begin. Names are at most
 * SPECIAL_MAX_NAME bytes, so a walk from each position is bounded, and white_end remembers how far
 * spaces were looked at, so that many tokens before one long gap do not look at it again and again.
 */
#include "core/tokenizer/special_tokens.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/base/unicode.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/vocab.h"

#include <string.h>

struct special_edge {
    uint64_t key; /* (node << 8 | byte) + 1; 0 = empty */
    uint32_t to;
};

static struct special_edge *edge_of(const struct special *s, uint32_t node, uint8_t byte)
{
    const uint64_t key = ((uint64_t)node << 8 | byte) + 1;
    uint32_t i = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & s->mask; /* golden ratio hash */

    while (s->edges[i].key != 0 && s->edges[i].key != key)
        i = (i + 1) & s->mask;
    return &s->edges[i];
}

static bool is_listed(const struct vocab *v, const struct special_names *names, int32_t id)
{
    const bool is_users = v->type[id] == TOKEN_USER_DEFINED;
    const bool in_normalized = is_users && names->normalizer != NULL && v->sides != NULL &&
                               (v->sides[id] & TOKEN_IN_NORMALIZED) != 0;

    return (is_users || v->type[id] == TOKEN_CONTROL || v->type[id] == TOKEN_UNKNOWN) &&
           in_normalized == names->in_normalized;
}

/* Enter one name. The tables have room for every byte of every name. */
static int32_t *enter(struct special *s, struct gguf_str name)
{
    uint32_t node = 0;

    for (size_t i = 0; i < name.len; i++) {
        struct special_edge *e = edge_of(s, node, (uint8_t)name.data[i]);

        if (e->key == 0) {
            e->key = ((uint64_t)node << 8 | (uint8_t)name.data[i]) + 1;
            e->to = s->n_nodes++;
        }
        node = e->to;
    }
    return &s->ends[node];
}

/* A token's name as texts contain it. SentencePiece looks for user-defined tokens after it has
 * turned spaces into U+2581, so their names may have either. */
static struct gguf_str written(const struct vocab *v, int32_t id, struct gguf_str name, char *room)
{
    if (v->type[id] != TOKEN_USER_DEFINED || !v->raw || v->model == VOCAB_WPM)
        return name;
    return (struct gguf_str){room, unescape_spaces(name.data, name.len, room)};
}

static bool same_name(const struct gguf_kv *tokens, int32_t a, int32_t b)
{
    const struct gguf_str x = gguf_array_str(tokens, (uint64_t)a);
    const struct gguf_str y = gguf_array_str(tokens, (uint64_t)b);

    return x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
}

static int enter_one(struct special *s, const struct gguf *g, const struct gguf_kv *tokens,
                     int32_t id, struct gguf_str name, char *err, size_t err_len)
{
    int32_t *end = enter(s, name);

    if (*end != TOKEN_NONE && same_name(tokens, *end, id))
        return text_fail(g, ERR_FORMAT, err, err_len,
                         "tokenizer.ggml.tokens: special tokens %d and %d are the same", (int)*end,
                         (int)id);
    if (*end == TOKEN_NONE)
        *end = id;
    s->n_names++;
    s->begins[1][(uint8_t)name.data[0]] = true;
    if (s->vocab->type[id] == TOKEN_USER_DEFINED)
        s->begins[0][(uint8_t)name.data[0]] = true;
    return 0;
}

/* Return a token's name as it is in the searched text; `room` has SPECIAL_MAX_NAME bytes, and the
 * caller releases `normal`. */
static int listed_name(const struct vocab *v, const struct special_names *names, int32_t id,
                       struct gguf_str *name, char *room, struct normal_text *normal)
{
    int rc;

    *normal = (struct normal_text){0};
    *name = written(v, id, *name, room);
    if (!names->in_normalized)
        return 0;
    rc = normalizer_run(names->normalizer, name->data, name->len, SPECIAL_MAX_NAME, NULL, normal);
    *name = (struct gguf_str){normal->text, normal->n};
    return rc;
}

static int enter_all(struct special *s, const struct special_names *names, const struct gguf *g,
                     const struct gguf_kv *tokens, char *err, size_t err_len)
{
    int rc = 0;

    for (int32_t id = 0; rc == 0 && id < s->vocab->n; id++) {
        struct gguf_str name = gguf_array_str(tokens, (uint64_t)id);
        struct normal_text normal;
        char room[SPECIAL_MAX_NAME];

        if (!is_listed(s->vocab, names, id))
            continue;
        rc = listed_name(s->vocab, names, id, &name, room, &normal);
        if (rc < 0)
            text_fail(g, rc, err, err_len, "no memory for the special tokens");
        else if (name.len > 0)
            rc = enter_one(s, g, tokens, id, name, err, err_len);
        normal_text_release(&normal);
    }
    return rc;
}

/* Count the bytes of all names: the trie has at most so many nodes besides its root. */
static int count_bytes(const struct vocab *v, const struct special_names *names,
                       const struct gguf *g, const struct gguf_kv *tokens, size_t *total, char *err,
                       size_t err_len)
{
    *total = 0;
    for (int32_t id = 0; id < v->n; id++) {
        struct gguf_str name = gguf_array_str(tokens, (uint64_t)id);
        const size_t n = name.len;
        struct normal_text normal = {0};
        char room[SPECIAL_MAX_NAME];
        int rc = 0;

        if (!is_listed(v, names, id))
            continue;
        if (n <= SPECIAL_MAX_NAME)
            rc = listed_name(v, names, id, &name, room, &normal);
        if (rc == 0)
            *total += name.len;
        normal_text_release(&normal);
        if (rc != 0 || n > SPECIAL_MAX_NAME)
            return text_fail(g, rc == ERR_NOMEM ? rc : ERR_FORMAT, err, err_len,
                             "tokenizer.ggml.tokens: the special token %d has %zu bytes or more, "
                             "but at most %d are supported",
                             (int)id, n, SPECIAL_MAX_NAME);
    }
    if (*total > UINT32_MAX / 4)
        return text_fail(g, ERR_FORMAT, err, err_len,
                         "tokenizer.ggml.tokens has too many special tokens");
    return 0;
}

int special_load(struct special *s, const struct vocab *v, const struct special_names *names,
                 const struct gguf *g, char *err, size_t err_len)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    size_t total;
    uint32_t n_slots = 16;
    int rc = count_bytes(v, names, g, tokens, &total, err, err_len);

    *s = (struct special){.vocab = v, .n_nodes = 1};
    if (rc != 0)
        return rc;
    while (n_slots < total * 2)
        n_slots *= 2;
    s->mask = n_slots - 1;
    s->edges = mem_calloc(n_slots, sizeof(*s->edges));
    s->ends = mem_alloc((total + 1) * sizeof(*s->ends));
    if (s->edges == NULL || s->ends == NULL) {
        special_release(s);
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the special tokens");
    }
    for (size_t i = 0; i <= total; i++)
        s->ends[i] = TOKEN_NONE;
    rc = enter_all(s, names, g, tokens, err, err_len);
    if (rc != 0)
        special_release(s);
    return rc;
}

void special_release(struct special *s)
{
    mem_free(s->edges);
    mem_free(s->ends);
    *s = (struct special){0};
}

/* A search: its text, and which names may match where. */
struct search {
    const struct special *special;
    const char *text;
    size_t n;
    enum special_scope scope;
    const struct spans *own;
};

/* True: the token named by text[from..to) may match there. */
static bool counts(const struct search *s, int32_t id, size_t from, size_t to)
{
    const bool is_users = s->special->vocab->type[id] == TOKEN_USER_DEFINED;

    if (is_users || s->scope != SPECIAL_ALL)
        return is_users;
    return s->own == NULL || spans_cover(s->own, from, to);
}

/* Return the length of the longest name at `at` that may match and set *id to its token; 0: there
 * is none. */
static size_t longest_name(const struct search *search, size_t at, int32_t *id)
{
    const struct special *s = search->special;
    uint32_t node = 0;
    size_t best = 0;

    for (size_t i = at; i < search->n; i++) {
        const struct special_edge *e = edge_of(s, node, (uint8_t)search->text[i]);

        if (e->key == 0)
            break;
        node = e->to;
        if (s->ends[node] == TOKEN_NONE || !counts(search, s->ends[node], at, i + 1))
            continue;
        best = i + 1 - at;
        *id = s->ends[node];
    }
    return best;
}

/* True: the token takes the spaces after it, as all of Phi-3's special tokens but the first do. */
static bool takes_right(const struct special *s, const char *name, size_t n, int32_t id)
{
    const struct vocab *v = s->vocab;

    return v->rstrip && v->type[id] != TOKEN_USER_DEFINED && id != v->bos && id != v->unknown &&
           (n != 13 || memcmp(name, "<|endoftext|>", 13) != 0);
}

/* Return the token's enum token_side bits: the file's, else those of its family. */
static unsigned sides_of(const struct special *s, const struct special_match *m, const char *text)
{
    if (s->vocab->sides != NULL)
        return s->vocab->sides[m->id];
    return (takes_right(s, text + m->at, m->len, m->id) ? TOKEN_TAKES_RIGHT : 0) |
           (m->id == s->vocab->gap ? TOKEN_TAKES_LEFT : 0);
}

/* True: the character is a space. Any of Unicode's if the file has token sides, else only
 * ASCII's. */
static bool is_space(const struct special *s, uint32_t c)
{
    return s->vocab->sides != NULL ? unicode_is_white(c) : c == ' ' || (c >= '\t' && c <= '\r');
}

static void take_right(const struct special *s, const char *text, size_t n,
                       struct special_match *m)
{
    size_t end = m->at + m->len, len;

    if (end < m->white_end) /* no space is looked at twice */
        end = m->white_end;
    while (end < n && is_space(s, unicode_at(text + end, n - end, &len)))
        end += len;
    m->white_end = end;
    m->len = end - m->at;
}

static void take_left(const struct special *s, const char *text, size_t from,
                      struct special_match *m)
{
    while (m->at > from) {
        const size_t len = unicode_last(text + from, m->at - from);
        size_t same;

        if (!is_space(s, unicode_at(text + m->at - len, len, &same)))
            return;
        m->at -= len;
        m->len += len;
    }
}

/* True: no word continues before or after the match. */
static bool is_alone(const char *text, size_t n, const struct special_match *m)
{
    const size_t end = m->at + m->len;
    size_t len = m->at > 0 ? unicode_last(text, m->at) : 0;

    if (m->at > 0 && unicode_is_word(unicode_at(text + m->at - len, len, &len)))
        return false;
    return end == n || !unicode_is_word(unicode_at(text + end, n - end, &len));
}

bool special_find(const struct special *s, const char *text, size_t n, size_t at, size_t from,
                  enum special_scope scope, const struct spans *own, struct special_match *match)
{
    const struct search search = {s, text, n, scope, own};
    const bool *begins = s->begins[scope];

    for (size_t i = at; i < n; i++) {
        unsigned sides;

        if (!begins[(uint8_t)text[i]])
            continue;
        match->len = longest_name(&search, i, &match->id);
        match->at = i;
        if (match->len == 0)
            continue;
        match->name_end = i + match->len;
        sides = sides_of(s, match, text);
        if ((sides & TOKEN_ALONE) != 0 && !is_alone(text, n, match)) {
            i += match->len - 1; /* a shorter name inside it does not match either */
            continue;
        }
        if ((sides & TOKEN_TAKES_RIGHT) != 0)
            take_right(s, text, n, match);
        if ((sides & TOKEN_TAKES_LEFT) != 0)
            take_left(s, text, from, match);
        return true;
    }
    return false;
}
