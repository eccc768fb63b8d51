/* core/tokenizer/tokenizer.c - see tokenizer.h.
 *
 * Encoding peels a text in layers: special tokens as written cut it (encode_between), each piece
 * between is normalized (encode_plain), special tokens that belong to normalized text cut it again,
 * and the family's encoder gets the rest, split where no token can lie across (encoder_parts) and
 * through the word cache (encoder_word). A text that could not fit into `max` ids is refused by its
 * length before any work is done. All scratch is in struct encoder, which lives for one call.
 */
#include "core/tokenizer/tokenizer.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/safe_split.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "core/tokenizer/word_cache.h"

#include <assert.h>
#include <string.h>

#define MAX_BYTES ((size_t)UINT32_MAX / 4) /* most bytes of a text, before and after it is
                                            * normalized */

void token_list_release(struct token_list *list)
{
    mem_free(list->ids);
    *list = (struct token_list){0};
}

static bool can_be_cut(const struct tokenizer *t)
{
    switch (t->vocab.model) {
    case VOCAB_SPM:
        return true;
    case VOCAB_BPE:
        return !bpe_takes_whole_words(t->bpe);
    case VOCAB_UGM:
        return ugm_sums_are_exact(t->ugm);
    case VOCAB_WPM:
        break;
    }
    return false;
}

static int load_special(struct tokenizer *t, const struct gguf *g, char *err, size_t err_len)
{
    const struct special_names own = {t->normalizer, false}, normal = {t->normalizer, true};
    int rc = special_load(&t->special, &t->vocab, &own, g, err, err_len);

    if (rc == 0 && t->normalizer != NULL && t->vocab.sides != NULL)
        rc = special_load(&t->normal_special, &t->vocab, &normal, g, err, err_len);
    return rc;
}

static int load_tokenizer(struct tokenizer *t, const struct gguf *g, const char *pre, char *err,
                          size_t err_len)
{
    int rc = vocab_load(&t->vocab, g, pre, err, err_len);

    if (rc == 0)
        rc = normalizer_load(&t->normalizer, &t->vocab, g, err, err_len);
    if (rc == 0)
        rc = load_special(t, g, err, err_len);
    if (rc == 0 && t->vocab.model == VOCAB_BPE)
        rc = bpe_create(&t->bpe, &t->vocab, g, err, err_len);
    if (rc == 0 && t->vocab.model == VOCAB_UGM)
        rc = ugm_create(&t->ugm, &t->vocab, g, err, err_len);
    if (rc == 0 && can_be_cut(t)) {
        rc = safe_splits_create(&t->safe_splits, &t->vocab);
        if (rc != 0)
            text_fail(g, rc, err, err_len, "no memory for the safe splits");
    }
    return rc;
}

int tokenizer_create(struct tokenizer **out, const struct gguf *g, char *err, size_t err_len)
{
    return tokenizer_create_as(out, g, "", err, err_len);
}

int tokenizer_create_as(struct tokenizer **out, const struct gguf *g, const char *pre, char *err,
                        size_t err_len)
{
    struct tokenizer *t = mem_calloc(1, sizeof(*t));
    int rc;

    *out = NULL;
    if (t == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the tokenizer");
    rc = load_tokenizer(t, g, pre, err, err_len);
    if (rc != 0) {
        tokenizer_destroy(&t);
        return rc;
    }
    *out = t;
    return 0;
}

void tokenizer_destroy(struct tokenizer **tokenizer)
{
    struct tokenizer *t = tokenizer != NULL ? *tokenizer : NULL;

    if (t == NULL)
        return;
    safe_splits_destroy(&t->safe_splits);
    bpe_destroy(&t->bpe);
    ugm_destroy(&t->ugm);
    special_release(&t->normal_special);
    special_release(&t->special);
    normalizer_destroy(&t->normalizer);
    vocab_release(&t->vocab);
    mem_free(t);
    *tokenizer = NULL;
}

/* ---- encoding */

int token_list_add(struct token_list *list, int32_t id, size_t max)
{
    if (list->n >= max)
        return ERR_LIMIT;
    if (list->n == list->cap) {
        const size_t cap = list->cap > 0 ? list->cap * 2 : 64;
        int32_t *ids = mem_realloc(list->ids, cap * sizeof(*ids));

        if (ids == NULL)
            return ERR_NOMEM;
        list->ids = ids;
        list->cap = cap;
    }
    list->ids[list->n++] = id;
    return 0;
}

int encoder_push(struct encoder *e, int32_t id)
{
    const int rc = budget_spend(e->budget, 1);

    return rc < 0 ? rc : token_list_add(e->out, id, e->max);
}

static int push_all(struct encoder *e, const int32_t *ids, size_t n)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = encoder_push(e, ids[i]);
    return rc;
}

/* Cache the word with its ids (those from index `before` on), if they fit. A unigram word with an
 * unknown character is not cached: unknown characters in a row are one token, so its ids depend on
 * the word before. */
static void keep_word(const struct encoder *e, struct cached_word *slot, const char *word,
                      size_t n, size_t before)
{
    const size_t n_ids = e->out->n - before;
    const int32_t *ids = e->out->ids + before;

    if (n_ids > WORD_CACHE_IDS)
        return;
    for (size_t i = 0; e->t->vocab.model == VOCAB_UGM && i < n_ids; i++) {
        if (ids[i] == e->t->vocab.unknown)
            return;
    }
    slot->len = (uint8_t)n;
    slot->n = (uint8_t)n_ids;
    memcpy(slot->bytes, word, n);
    memcpy(slot->ids, ids, n_ids * sizeof(ids[0]));
}

int encoder_word(struct encoder *e, const char *word, size_t n, encode_fn encode)
{
    const bool after_unknown = e->after_unknown;
    const size_t before = e->out->n;
    struct cached_word *slot;
    bool known;
    int rc = budget_spend(e->budget, 1 + n / 4);

    if (rc < 0)
        return rc;
    if (e->cache == NULL || n > WORD_CACHE_BYTES)
        return encode(e, word, n);
    slot = word_cache_slot(e->cache, word, n, &known);
    if (known) {
        e->after_unknown = false;
        return push_all(e, slot->ids, slot->n);
    }
    rc = encode(e, word, n);
    if (rc == 0 && !after_unknown)
        keep_word(e, slot, word, n, before);
    return rc;
}

int encoder_parts(struct encoder *e, const char *text, size_t n, encode_fn encode)
{
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < n;) {
        const size_t end = safe_splits_next(e->t->safe_splits, text, n, at);

        e->steps += end - at;
        rc = encoder_word(e, text + at, end - at, encode);
        at = end;
    }
    return rc;
}

static int encode_text(struct encoder *e, const char *text, size_t n, bool behind_special)
{
    if (n == 0)
        return 0;
    switch (e->t->vocab.model) {
    case VOCAB_SPM:
        return spm_encode(e, text, n, behind_special);
    case VOCAB_BPE:
        return bpe_encode(e, text, n);
    case VOCAB_WPM:
        return wpm_encode(e, text, n);
    case VOCAB_UGM:
        return ugm_encode(e, text, n);
    }
    return ERR_INTERNAL;
}

/* Return the most bytes of text that can become e->max ids: no token covers more bytes than the
 * longest piece or name, in which U+2581 (3 bytes) may stand for each space. SIZE_MAX: no limit,
 * because bytes may be dropped. */
static size_t most_bytes(const struct encoder *e)
{
    const struct vocab *v = &e->t->vocab;
    const size_t most = v->longest > SPECIAL_MAX_NAME ? v->longest : SPECIAL_MAX_NAME;
    const size_t room = e->max - e->out->n;

    if (v->model == VOCAB_WPM || v->model == VOCAB_UGM || v->rstrip ||
        v->sides != NULL) /* spaces may take no token */
        return SIZE_MAX;
    for (int b = 0; b < 256; b++) {
        if (v->byte_id[b] == TOKEN_NONE)
            return SIZE_MAX;
    }
    if (e->max < e->out->n)
        return 0;
    return room < SIZE_MAX / (3 * most) ? (room + 1) * (3 * most) : SIZE_MAX;
}

/* Return the same for a text before it is normalized. */
static size_t most_bytes_before(const struct encoder *e)
{
    const size_t times = e->t->normalizer != NULL ? normalizer_shrinks(e->t->normalizer) : 1;
    const size_t most = most_bytes(e);

    return times > 0 && most < MAX_BYTES / times ? most * times : MAX_BYTES;
}

static int encode_between(struct encoder *e, const struct special *special, const char *text,
                          size_t n, enum special_scope scope, bool behind_special);

/* Encode text that contains no special token as written. */
static int encode_plain(struct encoder *e, const char *text, size_t n, bool behind_special)
{
    const struct tokenizer *t = e->t;
    struct normal_text normal = {0};
    int rc;

    if (t->normalizer == NULL)
        return encode_text(e, text, n, behind_special);
    rc = normalizer_run(t->normalizer, text, n, most_bytes_before(e), e->budget, &normal);
    if (rc == 0 && t->normal_special.n_names > 0)
        rc = encode_between(e, &t->normal_special, normal.text, normal.n, SPECIAL_USER_DEFINED,
                            behind_special);
    else if (rc == 0)
        rc = encode_text(e, normal.text, normal.n, behind_special);
    normal_text_release(&normal);
    return rc;
}

/* Cut the text at special tokens and encode the pieces between them. SentencePiece adds a space
 * before a piece that follows a special token, and before the first piece if `behind_special`. */
static int encode_between(struct encoder *e, const struct special *special, const char *text,
                          size_t n, enum special_scope scope, bool behind_special)
{
    const bool is_normal = special == &e->t->normal_special;
    struct special_match match = {0};
    size_t search = 0;
    int rc = 0;

    for (size_t at = 0; rc == 0 && (at < n || search < n);) {
        const bool found = special_find(special, text, n, search, at, scope, e->own, &match);
        const size_t end = found ? match.at : n;
        const bool spaced = behind_special && (at == 0 || !e->t->vocab.prefix_first);

        if (end > at)
            rc = is_normal ? encode_text(e, text + at, end - at, spaced)
                           : encode_plain(e, text + at, end - at, spaced);
        behind_special = found && !is_normal; /* the space was added before tokens of normalized
                                               * text were looked for */
        if (rc == 0 && found)
            rc = encoder_push(e, match.id);
        at = found ? match.at + match.len : n;
        search = found ? match.name_end : n;
    }
    return rc;
}

static int encode_with_special(struct encoder *e, const char *text, size_t n, unsigned flags)
{
    const struct vocab *v = &e->t->vocab;
    const bool adds = (flags & TOKENIZER_ADD_SPECIAL) != 0;
    int rc = adds && v->add_bos ? encoder_push(e, v->bos) : 0;

    if (rc == 0)
        rc = encode_between(e, &e->t->special, text, n,
                            flags & TOKENIZER_PARSE_SPECIAL ? SPECIAL_ALL : SPECIAL_USER_DEFINED,
                            true); /* SentencePiece also adds it at the start of the text */
    if (rc == 0 && adds && v->add_separator)
        rc = encoder_push(e, v->separator);
    if (rc == 0 && adds && v->add_eos)
        rc = encoder_push(e, v->eos);
    return rc == 0 ? budget_error(e->budget) : rc; /* some functions stop early and return 0 */
}

/* Encode a text for all public functions; *steps as in encoder_run(). */
static int run_encoder(struct encoder *e, const char *text, size_t n, unsigned flags,
                       uint64_t *steps)
{
    const size_t n_before = e->out->n;
    int rc = 0;

    *steps = 0;
    if (n > most_bytes_before(e))
        return ERR_LIMIT;
    e->bytes = n;
    e->merge.budget = e->budget;
    if (e->t->vocab.model != VOCAB_WPM)
        rc = word_cache_create(&e->cache, n);
    if (rc == 0)
        rc = encode_with_special(e, text, n, flags);
    if (rc != 0)
        e->out->n = n_before;
    if (rc != 0 && n_before == 0) /* after an error the caller has nothing to release */
        token_list_release(e->out);
    *steps = e->steps + e->merge.steps + (e->run != NULL ? pretokenizer_steps(e->run) : 0);
    merge_release(&e->merge);
    pretokenizer_run_destroy(&e->run);
    word_cache_destroy(&e->cache);
    mem_free(e->nodes);
    return rc;
}

int encoder_run(const struct tokenizer *t, const char *text, size_t n, unsigned flags, size_t max,
                struct budget *budget, struct token_list *out, uint64_t *steps)
{
    struct encoder e = {.t = t, .out = out, .max = max, .budget = budget};

    return run_encoder(&e, text, n, flags, steps);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     size_t max, struct budget *budget, struct token_list *out)
{
    uint64_t steps;

    return encoder_run(t, text, n, flags, max, budget, out, &steps);
}

int tokenizer_encode_own(const struct tokenizer *t, const char *text, size_t n,
                         const struct spans *own, size_t max, struct budget *budget,
                         struct token_list *out)
{
    struct encoder e = {.t = t, .out = out, .max = max, .budget = budget, .own = own};
    uint64_t steps;

    return run_encoder(&e, text, n, TOKENIZER_PARSE_SPECIAL, &steps);
}

/* ---- properties of the tokens */

const char *tokenizer_model(const struct tokenizer *t)
{
    static const char *const names[] = {
        [VOCAB_SPM] = "llama", [VOCAB_BPE] = "gpt2", [VOCAB_WPM] = "bert", [VOCAB_UGM] = "t5"};

    return names[t->vocab.model];
}

int32_t tokenizer_n_vocab(const struct tokenizer *t)
{
    return t->vocab.n;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->vocab.bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->vocab.eos;
}

int32_t tokenizer_separator(const struct tokenizer *t)
{
    return t->vocab.separator;
}

int32_t tokenizer_mask(const struct tokenizer *t)
{
    return t->vocab.gap;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
    return t->vocab.add_bos;
}

uint32_t tokenizer_n_behind(const struct tokenizer *t)
{
    return (uint32_t)t->vocab.add_separator + (uint32_t)t->vocab.add_eos;
}

int32_t tokenizer_pair_separator(const struct tokenizer *t)
{
    return t->vocab.separates_pairs ? t->vocab.separator : TOKEN_NONE;
}

const int32_t *tokenizer_eog(const struct tokenizer *t, size_t *n)
{
    *n = t->vocab.n_eog;
    return t->vocab.eog;
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    assert(id >= 0 && id < t->vocab.n);
    return t->vocab.type[id] == TOKEN_CONTROL;
}

static bool ends_generation(const struct vocab *v, int32_t id)
{
    for (size_t i = 0; i < v->n_eog; i++)
        if (v->eog[i] == id)
            return true;
    return false;
}

bool tokenizer_is_text(const struct tokenizer *t, int32_t id)
{
    assert(id >= 0 && id < t->vocab.n);
    switch ((enum token_type)t->vocab.type[id]) {
    case TOKEN_NORMAL:
    case TOKEN_USER_DEFINED:
    case TOKEN_BYTE:
        return !ends_generation(&t->vocab, id);
    case TOKEN_UNKNOWN:
    case TOKEN_CONTROL:
    case TOKEN_UNUSED:
        break;
    }
    return false;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n)
{
    assert(id >= 0 && id < t->vocab.n);
    return vocab_piece(&t->vocab, id, n);
}

const struct infill_tokens *tokenizer_infill(const struct tokenizer *t)
{
    return &t->vocab.infill;
}

const char *tokenizer_chat_template(const struct tokenizer *t, size_t i, const char **name)
{
    const struct vocab *v = &t->vocab;

    *name = i < v->n_chat_templates ? v->chat_templates[i].name : NULL;
    return *name != NULL ? v->chat_templates[i].text : NULL;
}

const struct text_prompt *tokenizer_prompts(const struct tokenizer *t, size_t *n)
{
    *n = t->vocab.n_prompts;
    return t->vocab.prompts;
}

const char *tokenizer_rerank_template(const struct tokenizer *t)
{
    return t->vocab.rerank_template;
}
