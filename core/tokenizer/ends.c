/* core/tokenizer/ends.c - which tokens end a generation.
 *
 * A token is an end if any key of the file names it, or if it has one of the names below, because
 * most files name one end and models have several. The names are those of llama.cpp's llama_vocab
 * (its list of end-of-generation texts as of August 2026, with its exceptions), and four more that
 * published vocabularies have: <|eos|>, <|end_of_turn|>, <|END_OF_TURN_TOKEN|> and <|EOT|>.
 */
#include "core/tokenizer/vocab.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"

#include <string.h>

#define NAMED_IDS "tokenizer.ggml.eos_token_ids" /* the key in Ollama's files; hf/eos.c makes it
                                                  * too */
#define LONGEST 27                                /* most bytes of a name below */

/* A NAME_MARK is an end whatever its type in the file, because no ordinary text contains it; the
 * other names could be pieces of text, and are ends only if they are special tokens. */
enum name_kind { NAME_MARK = 0, NAME_IF_SPECIAL, NAME_IF_CONTROL };

static const struct {
    const char *name;
    enum name_kind kind;
} end_names[] = {
    {"<|eot_id|>", NAME_MARK},
    {"<|eom_id|>", NAME_MARK},
    {"<|im_end|>", NAME_MARK},
    {"<|end|>", NAME_MARK},
    {"<|return|>", NAME_MARK}, /* harmony */
    {"<|call|>", NAME_MARK},
    {"<|flush|>", NAME_MARK}, /* Solar Open */
    {"<|calls|>", NAME_MARK},
    {"<|endoftext|>", NAME_MARK},
    {"<|end_of_text|>", NAME_MARK},
    {"<end_of_turn>", NAME_MARK}, /* Gemma 2 and 3 */
    {"<turn|>", NAME_MARK},       /* Gemma 4; <|tool_response> below ends its tool calls */
    {"<|tool_response>", NAME_MARK},
    {"<end_of_utterance>", NAME_MARK}, /* SmolVLM */
    {"_<EOT>", NAME_MARK},
    {"[e~[", NAME_MARK}, /* MiniMax M2; the next one is DeepSeek's: */
    {"<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>", NAME_MARK},
    {"<EOT>", NAME_IF_SPECIAL},
    {"<|EOT|>", NAME_IF_SPECIAL},
    {"[EOT]", NAME_IF_SPECIAL}, /* Kimi K2 */
    {"[EOS]", NAME_IF_SPECIAL},
    {"<eos>", NAME_IF_SPECIAL},
    {"<|eos|>", NAME_IF_SPECIAL},
    {"<|end_of_turn|>", NAME_IF_SPECIAL},
    {"<|END_OF_TURN_TOKEN|>", NAME_IF_SPECIAL}, /* Command R */
    {"</s>", NAME_IF_CONTROL},
};

struct search {
    const struct vocab *v;
    const struct gguf_kv *tokens;
    bool spares_end;    /* <|end|> closes each message of an answer, so it is not an end */
    bool spares_struck; /* </s> is a piece of text: in Gemma it is the HTML tag */
};

static bool is_named(const struct search *s, int32_t id, const char *name)
{
    const struct gguf_str text = gguf_array_str(s->tokens, (uint64_t)id);

    return text.len == strlen(name) && memcmp(text.data, name, text.len) == 0;
}

static bool vocab_has(const struct search *s, const char *name)
{
    for (int32_t id = 0; id < s->v->n; id++)
        if (is_named(s, id, name))
            return true;
    return false;
}

/* Find the families with exceptions. In OpenAI's "harmony" an answer is several messages: "<|end|>"
 * closes each, "<|return|>" the last, and "<|call|>" hands over to a tool; Solar Open has other
 * names for these. Gemma has the tags of HTML as tokens, and PLaMo </s> as a piece of text. */
static void look_at_families(struct search *s)
{
    const bool calls = vocab_has(s, "<|call|>") || vocab_has(s, "<|calls|>");

    s->spares_end = calls && (vocab_has(s, "<|return|>") || vocab_has(s, "<|flush|>"));
    s->spares_struck =
        vocab_has(s, "<eos>") || vocab_has(s, "<|tool_response>") || vocab_has(s, "<|plamo:eos|>");
}

static bool has_kind(const struct search *s, int32_t id, enum name_kind kind)
{
    const uint8_t type = s->v->type[id];

    return kind == NAME_MARK || type == TOKEN_CONTROL ||
           (kind == NAME_IF_SPECIAL && type == TOKEN_USER_DEFINED);
}

static bool has_end_name(const struct search *s, int32_t id)
{
    if (gguf_array_str(s->tokens, (uint64_t)id).len > LONGEST)
        return false;
    for (size_t i = 0; i < sizeof(end_names) / sizeof(end_names[0]); i++)
        if (is_named(s, id, end_names[i].name))
            return has_kind(s, id, end_names[i].kind) &&
                   !(s->spares_struck && is_named(s, id, "</s>"));
    return false;
}

/* True: the token ends a generation. Some files name <|end|> in their keys where it does not. */
static bool is_end_token(const struct search *s, int32_t id, bool is_in_keys)
{
    if (s->spares_end && is_named(s, id, "<|end|>"))
        return false;
    return is_in_keys || has_end_name(s, id);
}

static int mark_listed(const struct vocab *v, const struct gguf *g, bool *marks, char *err,
                       size_t err_len)
{
    const struct gguf_kv *list = gguf_find(g, NAMED_IDS);

    if (list == NULL)
        return 0;
    if (list->type != GGUF_ARRAY || list->elem == GGUF_STRING || list->elem == GGUF_F32 ||
        list->elem == GGUF_F64)
        return text_fail(g, ERR_FORMAT, err, err_len, "%s is not a list of integers", NAMED_IDS);
    for (uint64_t i = 0; i < list->count; i++) {
        const int64_t id = gguf_array_int(list, i);

        if (vocab_has_id(v, g, NAMED_IDS, id))
            marks[id] = true;
    }
    return 0;
}

static int collect_ends(struct vocab *v, const struct search *s, const bool *marks)
{
    size_t n = 0;

    for (int32_t id = 0; id < v->n; id++)
        n += is_end_token(s, id, marks[id]);
    v->eog = mem_calloc(n + 1, sizeof(*v->eog));
    if (v->eog == NULL)
        return ERR_NOMEM;
    for (int32_t id = 0; id < v->n; id++)
        if (is_end_token(s, id, marks[id]))
            v->eog[v->n_eog++] = id;
    for (size_t i = 0; i < v->n_eog; i++)
        v->type[v->eog[i]] = TOKEN_CONTROL;
    return 0;
}

int vocab_load_ends(struct vocab *v, const struct gguf *g, const int32_t *named, size_t n_named,
                    char *err, size_t err_len)
{
    struct search s = {.v = v, .tokens = gguf_find(g, "tokenizer.ggml.tokens")};
    bool *marks = mem_calloc((size_t)v->n + 1, sizeof(*marks));
    int rc;

    if (marks == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for the tokens' roles");
    for (size_t i = 0; i < n_named; i++)
        if (named[i] != TOKEN_NONE)
            marks[named[i]] = true;
    look_at_families(&s);
    rc = mark_listed(v, g, marks, err, err_len);
    if (rc == 0 && collect_ends(v, &s, marks) < 0)
        rc = text_fail(g, ERR_NOMEM, err, err_len, "no memory for the tokens' roles");
    mem_free(marks);
    return rc;
}
