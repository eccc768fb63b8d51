/* core/text/special.c - see special.h. */
#include "core/text/special.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/gguf/gguf.h"
#include "core/text/tokenizer.h"
#include "core/text/vocab.h"

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

static bool is_special(const struct vocab *v, int32_t id)
{
    return v->type[id] == TOKEN_CONTROL || v->type[id] == TOKEN_USER_DEFINED ||
           v->type[id] == TOKEN_UNKNOWN;
}

/* Enter one name. Tables have room for every byte of every name. */
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

static int enter_all(struct special *s, const struct gguf *g, const struct gguf_kv *tokens,
                     char *err, size_t err_len)
{
    const struct vocab *v = s->vocab;

    for (int32_t id = 0; id < v->n; id++) {
        const struct gguf_str name = gguf_array_str(tokens, (uint64_t)id);
        int32_t *end;

        if (!is_special(v, id) || name.len == 0)
            continue;
        end = enter(s, name);
        if (*end != TOKEN_NONE)
            return text_fail(g, ERR_FORMAT, err, err_len,
                             "tokenizer.ggml.tokens: special tokens %d and %d are the same",
                             (int)*end, (int)id);
        *end = id;
        s->begins[1][(uint8_t)name.data[0]] = true;
        if (v->type[id] == TOKEN_USER_DEFINED)
            s->begins[0][(uint8_t)name.data[0]] = true;
    }
    return 0;
}

/* Bytes of all names together: the most nodes the trie can have, less the root. */
static int count_bytes(const struct vocab *v, const struct gguf *g, const struct gguf_kv *tokens,
                       size_t *total, char *err, size_t err_len)
{
    *total = 0;
    for (int32_t id = 0; id < v->n; id++) {
        const struct gguf_str name = gguf_array_str(tokens, (uint64_t)id);

        if (!is_special(v, id))
            continue;
        if (name.len > SPECIAL_MAX_NAME)
            return text_fail(g, ERR_FORMAT, err, err_len,
                             "tokenizer.ggml.tokens: the special token %d has %zu bytes, at most "
                             "%d are supported",
                             (int)id, name.len, SPECIAL_MAX_NAME);
        *total += name.len;
    }
    if (*total > UINT32_MAX / 4)
        return text_fail(g, ERR_FORMAT, err, err_len,
                         "tokenizer.ggml.tokens has too many special tokens");
    return 0;
}

int special_load(struct special *s, const struct vocab *v, const struct gguf *g, char *err,
                 size_t err_len)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    size_t total;
    uint32_t n_slots = 16;
    int rc = count_bytes(v, g, tokens, &total, err, err_len);

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
    rc = enter_all(s, g, tokens, err, err_len);
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

/* The longest name at text[0..n), in *id; 0 if there is none. */
static size_t longest_name(const struct special *s, const char *text, size_t n, bool control,
                           int32_t *id)
{
    uint32_t node = 0;
    size_t best = 0;

    for (size_t i = 0; i < n; i++) {
        const struct special_edge *e = edge_of(s, node, (uint8_t)text[i]);

        if (e->key == 0)
            break;
        node = e->to;
        if (s->ends[node] == TOKEN_NONE)
            continue;
        if (control || s->vocab->type[s->ends[node]] == TOKEN_USER_DEFINED) {
            best = i + 1;
            *id = s->ends[node];
        }
    }
    return best;
}

bool special_find(const struct special *s, const char *text, size_t n, size_t from, bool control,
                  struct special_match *match)
{
    const bool *begins = s->begins[control];

    for (size_t i = from; i < n; i++) {
        if (!begins[(uint8_t)text[i]])
            continue;
        match->len = longest_name(s, text + i, n - i, control, &match->id);
        match->at = i;
        if (match->len > 0)
            return true;
    }
    return false;
}
