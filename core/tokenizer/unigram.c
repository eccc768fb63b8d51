/* core/tokenizer/unigram.c - SentencePiece's unigram model: finds the pieces with the largest sum
 * of scores.
 *
 * The best way to a place in the text is the best way to the begin of a piece that ends there, plus
 * that piece (Viterbi). Pieces longer than MAX_PIECE take no part, so the work is linear. A text
 * whose normal form is longer than MAX_NORMAL, or cannot fit into the ids allowed, is refused as
 * too long before the search.
 */
#include "core/tokenizer/tokenizer_impl.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/charsmap.h"
#include "core/tokenizer/tokenizer.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0 /* an unknown character scores this much below the worst piece */
#define REPLACEMENT "\xEF\xBF\xBD"
#define MIN_NODES 256         /* least room in nodes: nearly all parts are shorter */
#define MAX_PIECE 256         /* in bytes; the longest in use have 64 */
/* most bytes of a normal form; without safe splits its nodes take 16 times that */
#define MAX_NORMAL (8u << 20)

/* MAX_NORMAL scores of at most BIGGEST, in units of 2^-25, add up to at most 2^53 units: no sum of
 * them is rounded. Models in use have scores from -21 to -2 in units of 2^-22. */
#define GRAINS (1 << 25)
#define BIGGEST 32
_Static_assert((uint64_t)MAX_NORMAL * BIGGEST * GRAINS <= (uint64_t)1 << 53, "sums are exact");

struct ugm {
    struct charsmap map;
    int32_t *sorted;  /* pieces in the order of their bytes */
    uint32_t at[257]; /* first piece in `sorted` with each first byte */
    double unknown;   /* the score of an unknown character */
    bool all_bytes;   /* every byte has a token */
    bool exact;       /* sums of scores are never rounded */
};

struct ugm_node { /* the best way to a place */
    double score;
    uint32_t from; /* offset where the way's last piece begins */
    int32_t id;    /* or TOKEN_NONE: an unknown character */
};

/* ---- the pieces */

static int compare_pieces(const void *a, const void *b, void *ud)
{
    const struct vocab *v = ud;
    size_t n, m;
    const char *x = vocab_piece(v, *(const int32_t *)a, &n);
    const char *y = vocab_piece(v, *(const int32_t *)b, &m);
    const int order = memcmp(x, y, n < m ? n : m);

    return order != 0 ? order : (n > m) - (n < m);
}

static bool is_piece(const struct vocab *v, int32_t id)
{
    size_t n;

    vocab_piece(v, id, &n);
    return n > 0 && n <= MAX_PIECE &&
           (v->type[id] == TOKEN_NORMAL || v->type[id] == TOKEN_USER_DEFINED);
}

static bool is_exact(double score)
{
    return score >= -BIGGEST && score <= BIGGEST &&
           (double)(int64_t)(score * GRAINS) == score * GRAINS;
}

static void index_pieces(struct ugm *u, const struct vocab *v)
{
    double lowest = 0;
    uint32_t count = 0;

    u->exact = true;
    for (int32_t id = 0; id < v->n; id++) {
        if (!is_piece(v, id))
            continue;
        u->sorted[count++] = id;
        u->exact = u->exact && (v->type[id] != TOKEN_NORMAL || is_exact(v->score[id]));
        if (v->type[id] == TOKEN_NORMAL && (double)v->score[id] < lowest)
            lowest = v->score[id];
    }
    u->unknown = lowest - UNKNOWN_PENALTY;
    u->exact = u->exact && is_exact(u->unknown);
    qsort_r(u->sorted, count, sizeof(u->sorted[0]), compare_pieces, (void *)v);
    for (uint32_t b = 0, i = 0; b <= 256; b++) {
        size_t n;

        for (; i < count && (uint8_t)vocab_piece(v, u->sorted[i], &n)[0] < b; i++)
            ;
        u->at[b] = i;
    }
}

int ugm_create(struct ugm **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len)
{
    struct ugm *u = mem_calloc(1, sizeof(*u));
    int rc = ERR_NOMEM;

    *out = NULL;
    if (u != NULL)
        u->sorted = mem_alloc((size_t)v->n * sizeof(*u->sorted));
    if (u == NULL || u->sorted == NULL)
        text_fail(g, rc, err, err_len, "no memory for the tokens' order");
    else
        rc = charsmap_load(&u->map, g, err, err_len);
    if (rc != 0) {
        ugm_destroy(&u);
        return rc;
    }
    index_pieces(u, v);
    u->all_bytes = true;
    for (int b = 0; b < 256; b++)
        u->all_bytes = u->all_bytes && v->byte_id[b] != TOKEN_NONE;
    *out = u;
    return 0;
}

void ugm_destroy(struct ugm **ugm)
{
    struct ugm *u = ugm != NULL ? *ugm : NULL;

    if (u == NULL)
        return;
    charsmap_release(&u->map);
    mem_free(u->sorted);
    mem_free(u);
    *ugm = NULL;
}

bool ugm_sums_are_exact(const struct ugm *u)
{
    return u->exact;
}

/* ---- normalizing */

/* Add a character's bytes. Merged spaces wait in *gap until another character follows. */
static void add_normal(const struct vocab *v, struct buf *out, const char *bytes, size_t n,
                       bool *gap)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == ' ' && v->merge_spaces) {
            *gap = *gap || out->len > 0;
            continue;
        }
        if (*gap)
            buf_add_char(out, ' ');
        *gap = false;
        buf_add_char(out, bytes[i]);
    }
}

/* Normalise the text: U+2581 becomes a space, and a prefix space is added. */
static int normalise(struct encoder *e, const char *text, size_t n, struct buf *out)
{
    const struct vocab *v = &e->t->vocab;
    bool gap = v->add_space_prefix;

    for (size_t at = 0, len; at < n && out->err == 0; at += len) {
        const char *to = NULL;

        len = charsmap_match(&e->t->ugm->map, text + at, n - at, &to, &e->steps);
        if (len > 0) {
            add_normal(v, out, to, strlen(to), &gap);
            continue;
        }
        len = utf8_len((const uint8_t *)text + at, n - at);
        if (len == 3 && memcmp(text + at, "\xE2\x96\x81", 3) == 0)
            add_normal(v, out, " ", 1, &gap);
        else if (len > 0)
            add_normal(v, out, text + at, len, &gap);
        else
            add_normal(v, out, REPLACEMENT, 3, &gap);
        len = len > 0 ? len : 1;
    }
    return out->err;
}

/* ---- the best way */

/* Return the first of sorted[low..high), pieces with equal beginnings, whose byte `k` is `byte` or
 * more. */
static uint32_t first_from(const struct vocab *v, const int32_t *sorted, uint32_t low,
                           uint32_t high, size_t k, unsigned byte)
{
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        size_t n;
        const char *piece = vocab_piece(v, sorted[mid], &n);

        if (n <= k || (uint8_t)piece[k] < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Return the bytes of the first character; 1 if it is not UTF-8 (a table of replacements may leave
 * such bytes). */
static size_t character_len(const char *text, size_t n)
{
    const size_t len = utf8_len((const uint8_t *)text, n);

    return len > 0 ? len : 1;
}

static void offer(struct ugm_node *nodes, size_t from, size_t to, double score, int32_t id)
{
    const double sum = nodes[from].score + score;

    if (sum > nodes[to].score)
        nodes[to] = (struct ugm_node){.score = sum, .from = (uint32_t)from, .id = id};
}

/* Try every piece that begins at `at`, and the unknown character if no piece is that long. */
static void offer_all(struct encoder *e, struct ugm_node *nodes, const char *text, size_t n,
                      size_t at)
{
    const struct vocab *v = &e->t->vocab;
    const struct ugm *u = e->t->ugm;
    const size_t one = character_len(text + at, n - at);
    uint32_t low = u->at[(uint8_t)text[at]], high = u->at[(uint8_t)text[at] + 1];
    bool is_known = false;

    for (size_t k = 1; low < high; k++) {
        size_t len;

        e->steps++;
        vocab_piece(v, u->sorted[low], &len);
        if (len == k) {
            const int32_t id = u->sorted[low];

            offer(nodes, at, at + k, v->type[id] == TOKEN_USER_DEFINED ? 0 : v->score[id], id);
            is_known = is_known || k == one;
        }
        if (at + k == n)
            break;
        low = first_from(v, u->sorted, low, high, k, (uint8_t)text[at + k]);
        high = first_from(v, u->sorted, low, high, k, (uint8_t)text[at + k] + 1u);
    }
    if (!is_known)
        offer(nodes, at, at + one, u->unknown, TOKEN_NONE);
}

static int push_unknown(struct encoder *e, const char *bytes, size_t n)
{
    const struct vocab *v = &e->t->vocab;
    int rc = 0;

    if (e->t->ugm->all_bytes) {
        for (size_t i = 0; rc == 0 && i < n; i++)
            rc = encoder_push(e, v->byte_id[(uint8_t)bytes[i]]);
        return rc;
    }
    return e->after_unknown || v->unknown == TOKEN_NONE ? 0 : encoder_push(e, v->unknown);
}

/* Push the way's tokens. Its links go backwards, so they are reversed first. */
static int push_way(struct encoder *e, struct ugm_node *nodes, const char *text, size_t n)
{
    uint32_t next = (uint32_t)n;
    int rc = 0;

    for (uint32_t at = (uint32_t)n; at > 0;) {
        const uint32_t from = nodes[at].from;

        nodes[at].from = next;
        next = at;
        at = from;
    }
    for (uint32_t at = 0; rc == 0 && at < n; at = next, next = nodes[at].from) {
        if (nodes[next].id != TOKEN_NONE)
            rc = encoder_push(e, nodes[next].id);
        else
            rc = push_unknown(e, text + at, next - at);
        e->after_unknown = nodes[next].id == TOKEN_NONE;
    }
    return rc;
}

/* Make room for the nodes of n bytes; the old contents are lost. */
static int reserve_nodes(struct encoder *e, size_t n)
{
    const size_t room = n > MIN_NODES ? n : MIN_NODES;

    if (n <= e->n_nodes)
        return 0;
    mem_free(e->nodes);
    e->nodes = mem_alloc(room * sizeof(*e->nodes));
    e->n_nodes = e->nodes != NULL ? room : 0;
    return e->nodes != NULL ? 0 : ERR_NOMEM;
}

static int encode_part(struct encoder *e, const char *text, size_t n)
{
    const int rc = reserve_nodes(e, n + 1);
    struct ugm_node *nodes = e->nodes;

    if (rc != 0)
        return rc;
    for (size_t i = 0; i <= n; i++)
        nodes[i] = (struct ugm_node){.score = i == 0 ? 0 : -DBL_MAX, .id = TOKEN_NONE};
    for (size_t at = 0; at < n; at += character_len(text + at, n - at))
        offer_all(e, nodes, text, n, at);
    return push_way(e, nodes, text, n);
}

/* Return the most bytes that can become e->max ids: a token covers at most MAX_PIECE bytes, except
 * the unknown token. */
static size_t most_normal(const struct encoder *e)
{
    const size_t room = e->max > e->out->n ? e->max - e->out->n : 0;

    return room < MAX_NORMAL / MAX_PIECE ? (room + 1) * MAX_PIECE : MAX_NORMAL;
}

int ugm_encode(struct encoder *e, const char *text, size_t n)
{
    struct buf normal;
    int rc;

    buf_init(&normal, most_normal(e));
    rc = normalise(e, text, n, &normal);
    e->after_unknown = false;
    if (rc == 0)
        rc = encoder_parts(e, normal.data, normal.len, encode_part);
    buf_release(&normal);
    return rc;
}
