/* tests/fuzz/fuzz_schema.c - libFuzzer: any bytes as a JSON Schema; behind a NUL, choices of
 * tokens.
 *
 * What is accepted is walked, and what may end is JSON.
 */
#include "core/grammar/json_schema.h"

#include "tests/fuzz/walk.h"

static void check_json(const struct buf *text)
{
    const char *why = NULL;
    cJSON *json = NULL;

    require(json_parse(text->data, text->len, &json, &why) == 0 ||
            strcmp(why, "the body is nested too deeply") == 0 ||
            strcmp(why, "the body has a NUL character or a bad escape in a string") == 0);
    cJSON_Delete(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *nul = memchr(data, 0, n);
    const size_t n_text = nul != NULL ? (size_t)(nul - data) : n;
    struct budget budget = {.steps_left = WALK_STEPS};
    struct grammar *g = NULL;
    struct constraint *c;
    const char *why = NULL;
    cJSON *schema = NULL;
    struct buf text;
    char err[300] = "";
    int rc;

    if (json_parse((const char *)data, n_text, &schema, &why) < 0)
        return 0;
    rc = schema_to_grammar(&g, schema, &budget, err, sizeof(err));
    cJSON_Delete(schema);
    c = walk_constraint(rc, g, &budget, err);
    buf_init(&text, 1u << 20);
    if (c != NULL && walk_grow(c, data + n_text, n - n_text, &text))
        check_json(&text);
    buf_release(&text);
    constraint_unref(&c);
    return 0;
}
