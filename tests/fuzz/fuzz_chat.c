/* tests/fuzz/fuzz_chat.c - libFuzzer: any bytes as a chat template, and behind a NUL any bytes as
 * the body of a chat.
 *
 * When both are accepted, the chat is rendered within small limits, in one of the forms that
 * templates are given; the text is UTF-8, and keeping track of whose it is does not change it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/jinja/template.h"
#include "core/json/json.h"
#include "server/api/chat/chat_values.h"
#include "server/api/params/params.h"
#include "tests/fuzz/target.h"

#define MEMORY (4u << 20)
#define OUTPUT (256u << 10)
#define MAX_STEPS 200000

/* 0, or ERR_* without any text. */
static int render_into(const struct template *t, const struct params *p,
                       const struct chat_caps *caps, struct spans *own, struct buf *out)
{
    static const struct chat_tokens tokens = {{"<s>", 3}, {"</s>", 4}};
    struct budget budget = {.steps_left = MAX_STEPS};
    const struct template_options options = {.budget = &budget, .now = 1700000000, .own = own};
    struct value_pool pool;
    struct value globals;
    char err[200];
    int rc;

    value_pool_init(&pool, MEMORY);
    buf_init(out, OUTPUT);
    globals = chat_values(&pool, p, &tokens, caps);
    rc = pool.err;
    if (rc == 0) {
        rc = template_render(t, &pool, &globals, &options, out, err, sizeof(err));
        require(rc == 0 || (rc != ERR_CANCELED && out->len == 0 && strncmp(err, "line ", 5) == 0));
        require(json_is_utf8(out->data, out->len));
    }
    value_pool_release(&pool);
    return rc;
}

/* The spans are in order, apart and within the text, which is the same without them. */
static void render(const struct template *t, const struct params *p, uint8_t forms)
{
    const struct chat_caps caps = {.knows_system = forms & 1, .knows_developer = forms & 2,
                                   .typed_content = forms & 4, .string_arguments = forms & 8,
                                   .null_content = forms & 16, .full_tools = forms & 32,
                                   .late_system = forms & 64};
    struct spans own = {0};
    struct buf out, plain;
    const int rc = render_into(t, p, &caps, &own, &out);

    for (size_t i = 0; i < own.n; i++)
        require(own.at[i].from < own.at[i].to && own.at[i].to <= out.len &&
                (i == 0 || own.at[i - 1].to < own.at[i].from));
    if (render_into(t, p, &caps, NULL, &plain) == 0 && rc != ERR_LIMIT) /* it takes more memory */
        require(rc == 0 && plain.len == out.len &&
                (out.len == 0 || memcmp(plain.data, out.data, out.len) == 0));
    buf_release(&plain);
    buf_release(&out);
    spans_release(&own);
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
        render(t, &p, (uint8_t)(n % 64));
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
