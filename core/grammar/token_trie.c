/* core/grammar/token_trie.c - builds the trie from sorted texts.
 *
 * In sorted order a text adds only the bytes that it does not share with the one before, so nodes
 * come out in depth-first order, and their number is known before they are allocated. The trie of a
 * vocabulary is made once per model; constraint_probe.c makes small ones of the rests of tokens.
 */
#include "core/grammar/token_trie.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare_texts(const void *a, const void *b)
{
    const struct trie_text *x = a, *y = b;
    const size_t n = x->n < y->n ? x->n : y->n;
    const int order = n > 0 ? memcmp(x->bytes, y->bytes, n) : 0;

    if (order != 0)
        return order;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static uint32_t common(const struct trie_text *a, const struct trie_text *b)
{
    uint32_t n = 0;

    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* True: the text is a control token's name between two marks. */
static bool is_name(const struct trie_text *t)
{
    return t->n > 2 && (uint8_t)t->bytes[0] == TOKEN_TRIE_MARK &&
           (uint8_t)t->bytes[t->n - 1] == TOKEN_TRIE_MARK &&
           memchr(t->bytes + 1, TOKEN_TRIE_MARK, t->n - 2) == NULL;
}

static bool is_usable(const struct trie_text *t)
{
    if (t->n == 0 || t->n > TOKEN_TRIE_MAX_BYTES || t->is_mark)
        return false;
    return memchr(t->bytes, TOKEN_TRIE_MARK, t->n) == NULL || is_name(t);
}

/* Adds the nodes that the text does not share with the one before it in sorted order. */
static void add_trie_text(struct token_trie *t, const struct trie_text *text, uint32_t shared,
                          uint32_t *path)
{
    for (uint32_t k = shared; k < text->n; k++) {
        path[k] = t->n_nodes;
        t->nodes[t->n_nodes++] = (struct trie_node){
            .first = t->n_ids, .byte = (uint8_t)text->bytes[k], .depth = (uint8_t)(k + 1)};
    }
    t->ids[t->n_ids++] = text->id;
    t->text[text->id] = text->bytes + is_name(text);
    t->len[text->id] = (uint8_t)(text->n - 2 * is_name(text));
    if (is_name(text)) /* no token is the mark alone, but grammars may use it */
        t->has_byte[TOKEN_TRIE_MARK >> 6] |= (uint64_t)1 << (TOKEN_TRIE_MARK & 63);
    t->nodes[path[text->n - 1]].n++;
    for (uint32_t k = 0; k < text->n; k++)
        t->nodes[path[k]].end = t->n_nodes;
    if (text->n == 1)
        t->has_byte[(uint8_t)text->bytes[0] >> 6] |= (uint64_t)1 << (text->bytes[0] & 63);
}

static void add_mark(struct token_trie *t, const struct trie_text *mark)
{
    t->marks[mark->id >> 5] |= (uint32_t)1 << (mark->id & 31);
    if (mark->n == 0 || mark->n > TOKEN_TRIE_MAX_BYTES)
        return;
    t->text[mark->id] = mark->bytes;
    t->len[mark->id] = (uint8_t)mark->n;
}

static void fill_trie(struct token_trie *t, const struct trie_text *texts, size_t n)
{
    uint32_t path[TOKEN_TRIE_MAX_BYTES];
    const struct trie_text *before = NULL;

    for (size_t i = 0; i < n; i++) {
        if (texts[i].is_mark)
            add_mark(t, &texts[i]);
        if (!is_usable(&texts[i]))
            continue;
        add_trie_text(t, &texts[i], before != NULL ? common(before, &texts[i]) : 0, path);
        before = &texts[i];
    }
}

static size_t count_nodes(const struct trie_text *texts, size_t n)
{
    const struct trie_text *before = NULL;
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        if (!is_usable(&texts[i]))
            continue;
        sum += texts[i].n - (before != NULL ? common(before, &texts[i]) : 0);
        before = &texts[i];
    }
    return sum;
}

static int allocate_trie(struct token_trie *t, const struct trie_text *texts, size_t n)
{
    const size_t n_nodes = count_nodes(texts, n);
    bool has_marks = false;

    for (size_t i = 0; i < n; i++) {
        has_marks = has_marks || texts[i].is_mark;
        if ((uint32_t)texts[i].id >= t->n_vocab)
            t->n_vocab = (uint32_t)texts[i].id + 1;
    }
    t->nodes = n_nodes < UINT32_MAX ? mem_calloc(n_nodes + 1, sizeof(*t->nodes)) : NULL;
    t->ids = mem_calloc(n + 1, sizeof(*t->ids));
    t->text = mem_calloc((size_t)t->n_vocab + 1, sizeof(*t->text));
    t->len = mem_calloc((size_t)t->n_vocab + 1, 1);
    if (has_marks) {
        t->marks = mem_calloc((size_t)t->n_vocab / 32 + 1, sizeof(*t->marks));
        if (t->marks == NULL)
            return ERR_NOMEM;
    }
    return t->nodes != NULL && t->ids != NULL && t->text != NULL && t->len != NULL ? 0 : ERR_NOMEM;
}

int token_trie_create(struct token_trie **out, struct trie_text *texts, size_t n, uint32_t n_vocab)
{
    struct token_trie *t = mem_calloc(1, sizeof(*t));

    *out = NULL;
    if (t == NULL)
        return ERR_NOMEM;
    t->n_vocab = n_vocab;
    qsort(texts, n, sizeof(*texts), compare_texts);
    if (allocate_trie(t, texts, n) < 0) {
        token_trie_destroy(&t);
        return ERR_NOMEM;
    }
    fill_trie(t, texts, n);
    *out = t;
    return 0;
}

static bool is_end(const struct tokenizer *t, int32_t id)
{
    size_t n;
    const int32_t *ends = tokenizer_eog(t, &n);

    for (size_t i = 0; i < n; i++)
        if (ends[i] == id)
            return true;
    return false;
}

/* Returns the bytes of the token's name with its two marks; 0: grammars have no name for it. */
static size_t name_bytes(const struct tokenizer *t, int32_t id)
{
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);

    if (!tokenizer_is_control(t, id) || is_end(t, id) || n == 0 || n + 2 > TOKEN_TRIE_MAX_BYTES ||
        memchr(piece, TOKEN_TRIE_MARK, n) != NULL)
        return 0;
    return n + 2;
}

/* Writes the names of control tokens one after the other to `names`, and adds them as texts from
 * texts[n] on. Returns how many texts there are. */
static size_t add_names(const struct tokenizer *t, char *names, struct trie_text *texts, size_t n)
{
    size_t len;

    for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
        const size_t n_name = name_bytes(t, id);

        if (n_name == 0)
            continue;
        memset(names, TOKEN_TRIE_MARK, n_name);
        memcpy(names + 1, tokenizer_piece(t, id, &len), n_name - 2);
        texts[n] = (struct trie_text){.bytes = names, .n = (uint32_t)n_name, .id = id};
        names += n_name;
        n++;
    }
    return n;
}

static int make_trie(struct token_trie **out, const struct tokenizer *t, char *names,
                     struct trie_text *texts)
{
    const int32_t n_vocab = tokenizer_n_vocab(t);
    size_t n = 0, len;

    for (int32_t id = 0; id < n_vocab; id++) {
        texts[n].is_mark = !tokenizer_is_text(t, id);
        texts[n].bytes = tokenizer_piece(t, id, &len);
        texts[n].n = len <= TOKEN_TRIE_MAX_BYTES ? (uint32_t)len : 0;
        if (!texts[n].is_mark && len > 0 && memchr(texts[n].bytes, TOKEN_TRIE_MARK, len) != NULL)
            texts[n].n = 0; /* a grammar's texts never have this byte */
        texts[n++].id = id;
    }
    n = add_names(t, names, texts, n);
    return token_trie_create(out, texts, n, (uint32_t)n_vocab);
}

int token_trie_of(struct token_trie **out, const struct tokenizer *t)
{
    const int32_t n_vocab = tokenizer_n_vocab(t);
    size_t n_texts = (size_t)n_vocab, n_bytes = 0;
    struct trie_text *texts;
    char *names;
    int rc = ERR_NOMEM;

    *out = NULL;
    for (int32_t id = 0; id < n_vocab; id++) {
        n_texts += name_bytes(t, id) > 0;
        n_bytes += name_bytes(t, id);
    }
    texts = mem_calloc(n_texts, sizeof(*texts));
    names = mem_alloc(n_bytes + 1);
    if (texts != NULL && names != NULL)
        rc = make_trie(out, t, names, texts);
    mem_free(texts);
    if (rc < 0) {
        mem_free(names);
        return rc;
    }
    (*out)->names = names;
    (*out)->n_names = n_bytes;
    return 0;
}

const char *token_trie_name(const struct token_trie *t, int32_t id, uint32_t *n)
{
    const char *text = t->text[id];

    if (text == NULL || t->n_names == 0 || text <= t->names || text >= t->names + t->n_names)
        return NULL;
    *n = (uint32_t)t->len[id] + 2;
    return text - 1;
}

uint32_t token_trie_child(const struct token_trie *t, uint32_t node, uint8_t byte)
{
    const uint32_t end = node == UINT32_MAX ? t->n_nodes : t->nodes[node].end;
    uint32_t i = node == UINT32_MAX ? 0 : node + 1;

    while (i < end && t->nodes[i].byte != byte)
        i = t->nodes[i].end;
    return i < end ? i : t->n_nodes;
}

size_t token_trie_mark_at(const struct token_trie *t, const char *text)
{
    uint32_t node = token_trie_child(t, UINT32_MAX, TOKEN_TRIE_MARK);
    size_t found = 0;

    for (size_t n = 0; node != t->n_nodes && text[n] != '\0';) {
        node = token_trie_child(t, node, (uint8_t)text[n++]);
        if (node != t->n_nodes && token_trie_child(t, node, TOKEN_TRIE_MARK) != t->n_nodes)
            found = n;
    }
    return found;
}

void token_trie_destroy(struct token_trie **trie)
{
    struct token_trie *t = trie != NULL ? *trie : NULL;

    if (t == NULL)
        return;
    mem_free(t->nodes);
    mem_free(t->ids);
    mem_free(t->text);
    mem_free(t->len);
    mem_free(t->marks);
    mem_free(t->names);
    mem_free(t);
    *trie = NULL;
}
