/* tests/fuzz/fuzz_chat.c - libFuzzer: any bytes as a chat template, and behind a NUL any bytes as
 * the body of a chat.
 *
 * When both are accepted, the chat is rendered within small limits; the text is UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/jinja/template.h"
#include "server/api/chat/chat_values.h"
#include "server/api/params/params.h"
#include "tests/fuzz/target.h"

#define MEMORY (4u << 20)
#define OUTPUT (256u << 10)
#define MAX_STEPS 200000

static void render(const struct template *t, const struct params *p)
{
    static const struct chat_tokens tokens = {{"<s>", 3}, {"</s>", 4}};
    struct budget budget = {.steps_left = MAX_STEPS};
    const struct template_options options = {.budget = &budget, .now = 1700000000};
    struct value_pool pool;
    struct value globals;
    struct buf out;
    char err[200];
    int rc;

    value_pool_init(&pool, MEMORY);
    buf_init(&out, OUTPUT);
    globals = chat_values(&pool, p, &tokens, true);
    if (pool.err == 0) {
        rc = template_render(t, &pool, &globals, &options, &out, err, sizeof(err));
        require(rc == 0 || (rc != ERR_CANCELED && out.len == 0 && strncmp(err, "line ", 5) == 0));
        require(json_is_utf8(out.data, out.len));
    }
    buf_release(&out);
    value_pool_release(&pool);
}

static void render_body(const struct template *t, const uint8_t *data, size_t n)
{
    const struct params_limits limits = {.model = "m", .n_vocab = 300, .n_embd = 8};
    struct api_error e = {0};
    struct params p = {0};
    const char *why = NULL;
    cJSON *body = NULL;

    if (json_parse((const char *)data, n, &body, &why) < 0)
        return;
    if (cJSON_IsObject(body) && params_parse(&p, PARAMS_CHAT, body, &limits, &e) == 0)
        render(t, &p);
    params_release(&p);
    cJSON_Delete(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *nul = memchr(data, 0, n);
    const size_t n_text = nul != NULL ? (size_t)(nul - data) : n;
    char *source = mem_dup(data, n_text);
    struct template *t;
    char err[200];

    if (nul != NULL && template_create(&t, source, n_text, err, sizeof(err)) == 0) {
        render_body(t, nul + 1, n - n_text - 1);
        template_destroy(&t);
    }
    mem_free(source);
    return 0;
}
