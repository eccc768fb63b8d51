/* tests/tools/schema.c - what JSON Schemas allow, for the tests that compare with validators.
 *
 * Reads one JSON object a line: {"schema": ..., "texts": ["...", ...], "samples": 3, "seed": 1},
 * or in place of the schema "calls": {"family": "...", "max": 2, "tools": [...]} for tool calls as
 * a family of models writes them (constraint_calls.h, but for the family's name). "endings" are
 * texts that a sample is rather given where it may have them: what ends a raw text is seldom hit.
 * Prints one line for each: {"taken": [true, ...], "samples": ["...", ...]}, whether the grammar of
 * the schema has each text, and texts grown from it at random; or {"error": "...", "code": "..."}.
 * A schema has the steps of a request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/constraint.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/token_trie.h"
#include "server/api/chat/family.h"
#include "server/api/constraint/constraint_calls.h"
#include "tests/fixtures/random.h"

#define LONG_ENOUGH 40 /* bytes; from then on a sample ends where it can */
#define TOO_LONG 20000

struct tool {
    struct token_trie *bytes; /* token b is the byte b */
    struct constraint_scratch *scratch;
    struct constraint_state *state, *saved;
};

static void tool_init(struct tool *t)
{
    static char all[256];
    struct trie_text texts[256];

    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        texts[i] = (struct trie_text){all + i, 1, i, false};
    }
    t->state = malloc(constraint_state_bytes());
    t->saved = malloc(constraint_state_bytes());
    if (t->state == NULL || t->saved == NULL || token_trie_create(&t->bytes, texts, 256, 256) < 0 ||
        constraint_scratch_create(&t->scratch) < 0)
        abort();
}

static bool takes(struct tool *t, const struct constraint *c, const char *text)
{
    constraint_state_init(t->state, c);
    if (constraint_advance(t->state, t->scratch, text, strlen(text)) == CONSTRAINT_BROKEN)
        return false;
    return constraint_may_end(t->state, t->scratch);
}

static bool has(const uint32_t *bits, int byte)
{
    return bits[byte >> 5] >> (byte & 31) & 1;
}

/* One of the allowed bytes: rather one that is easily read, and in the end one that ends. */
static int pick(const uint32_t *bits, bool ending, uint64_t *rng)
{
    static const char ends[] = "\"}]0a";
    const int from = random_below(rng, 8) > 0 ? 0x20 : 0, to = from > 0 ? 0x7F : 0x100;
    int n = 0, nth;

    for (int i = 0; ending && ends[i] != '\0'; i++)
        if (has(bits, ends[i]) && random_below(rng, 8) > 0)
            return ends[i];
    for (int i = from; i < to; i++)
        n += has(bits, i);
    if (n == 0 && from > 0)
        return pick(bits, false, rng);
    if (n == 0)
        return -1;
    nth = (int)random_below(rng, (uint32_t)n);
    for (int i = from;; i++)
        if (has(bits, i) && nth-- == 0)
            return i;
}

/* Append one of the endings, a list of texts, where the grammar has it. */
static bool grow_ending(struct tool *t, const cJSON *endings, uint64_t *rng, struct buf *text)
{
    const int n = cJSON_GetArraySize(endings);
    const char *end;

    if (n == 0)
        return false;
    end = cJSON_GetArrayItem(endings, (int)random_below(rng, (uint32_t)n))->valuestring;
    memcpy(t->saved, t->state, constraint_state_bytes());
    if (constraint_advance(t->state, t->scratch, end, strlen(end)) == CONSTRAINT_BROKEN) {
        memcpy(t->state, t->saved, constraint_state_bytes());
        return false;
    }
    buf_add_str(text, end);
    return true;
}

/* A text of the grammar; false: it did not come to an end. */
static bool grow(struct tool *t, const struct constraint *c, const cJSON *endings, uint64_t *rng,
                 struct buf *text)
{
    constraint_state_init(t->state, c);
    for (uint32_t n = 0; n < TOO_LONG; n++) {
        uint32_t bits[9];
        const bool may_end = constraint_mask(t->state, t->scratch, bits, 256);
        const bool ending = n > LONG_ENOUGH + random_below(rng, 80);
        int byte;

        if (may_end && (ending || random_below(rng, 6) == 0))
            return true;
        if (random_below(rng, ending ? 2 : 16) == 0 && grow_ending(t, endings, rng, text))
            continue;
        byte = pick(bits, ending, rng);
        if (byte < 0)
            return may_end;
        if (constraint_take(t->state, t->scratch, byte) == CONSTRAINT_BROKEN)
            abort(); /* the mask allowed it */
        buf_add(text, &(char){(char)byte}, 1);
    }
    return false;
}

/* The family's name gives way to its description. */
static int calls_to_grammar(struct grammar **out, cJSON *calls, struct budget *budget, char *err,
                            size_t size)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(calls, "family"));
    struct grammar_builder *b;
    uint32_t root;
    int rc;

    if (family_find(name) == NULL || grammar_builder_create(&b, budget) < 0)
        abort();
    cJSON_ReplaceItemInObject(calls, "family", cJSON_CreateString(family_find(name)->source));
    root = grammar_rule(b, "calls");
    grammar_define(b, root, constraint_calls_piece(b, calls, NULL));
    rc = grammar_builder_finish(b, out, err, size);
    grammar_builder_destroy(&b);
    return rc;
}

static struct constraint *compile(struct tool *t, const cJSON *line, char *err, size_t size,
                                  int *rc)
{
    struct budget budget = {.steps_left = BUDGET_REQUEST_STEPS};
    cJSON *calls = cJSON_GetObjectItem(line, "calls");
    struct constraint *c = NULL;
    struct grammar *g = NULL;

    *rc = calls != NULL
              ? calls_to_grammar(&g, calls, &budget, err, size)
              : schema_to_grammar(&g, cJSON_GetObjectItem(line, "schema"), &budget, err, size);
    if (*rc == 0)
        *rc = constraint_create(&c, g, t->bytes, &budget, err, size);
    if (*rc < 0)
        grammar_destroy(&g);
    return c;
}

static void answer(struct tool *t, const cJSON *line, cJSON *reply)
{
    const cJSON *n = cJSON_GetObjectItem(line, "samples");
    const cJSON *seed = cJSON_GetObjectItem(line, "seed");
    uint64_t rng = cJSON_IsNumber(seed) ? (uint64_t)seed->valuedouble : 1;
    struct constraint *c;
    const cJSON *it;
    char err[300] = "";
    cJSON *list;
    int rc;

    c = compile(t, line, err, sizeof(err), &rc);
    if (c == NULL) {
        cJSON_AddStringToObject(reply, "error", err);
        cJSON_AddStringToObject(reply, "code", err_name(rc));
        return;
    }
    list = cJSON_AddArrayToObject(reply, "taken");
    cJSON_ArrayForEach(it, cJSON_GetObjectItem(line, "texts"))
        cJSON_AddItemToArray(list, cJSON_CreateBool(takes(t, c, it->valuestring)));
    list = cJSON_AddArrayToObject(reply, "samples");
    for (int i = 0; cJSON_IsNumber(n) && i < n->valueint; i++) {
        struct buf text;

        buf_init(&text, 1u << 20);
        if (grow(t, c, cJSON_GetObjectItem(line, "endings"), &rng, &text) &&
            buf_add(&text, "", 1) == 0)
            cJSON_AddItemToArray(list, cJSON_CreateString(text.data));
        buf_release(&text);
    }
    constraint_unref(&c);
}

int main(void)
{
    struct tool t = {.bytes = NULL};
    char *line = NULL;
    size_t size = 0;

    tool_init(&t);
    while (getline(&line, &size, stdin) > 0) {
        cJSON *request = NULL, *reply = cJSON_CreateObject();
        const char *why = NULL;
        char *text;

        if (json_parse(line, strlen(line), &request, &why) < 0)
            cJSON_AddStringToObject(reply, "error", why);
        else
            answer(&t, request, reply);
        text = cJSON_PrintUnformatted(reply);
        puts(text != NULL ? text : "{}");
        fflush(stdout);
        cJSON_free(text);
        cJSON_Delete(reply);
        cJSON_Delete(request);
    }
    free(line);
    free(t.state);
    free(t.saved);
    constraint_scratch_destroy(&t.scratch);
    token_trie_destroy(&t.bytes);
    return 0;
}
