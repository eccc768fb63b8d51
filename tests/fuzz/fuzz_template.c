/* tests/fuzz/fuzz_template.c - libFuzzer: any bytes as a chat template.
 *
 * What is accepted is rendered for a chat, under small limits, so that the fuzzer gets on. Whatever
 * happens the text must be UTF-8, an error must have a sentence with a line, and what is refused
 * must leave the output as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/jinja/template.h"
#include "tests/fuzz/target.h"

#define MEMORY (4u << 20)
#define OUTPUT (64u << 10)
#define MAX_STEPS 100000

static void check_text(const char *text, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = utf8_len((const uint8_t *)text + i, n - i);
        require(len > 0);
    }
}

static void check_error(int rc, const char *err)
{
    require(rc == ERR_FORMAT || rc == ERR_INVAL || rc == ERR_LIMIT || rc == ERR_NOMEM);
    require(strncmp(err, "line ", 5) == 0);
    check_text(err, strlen(err));
}

static struct value chat(struct value_pool *pool)
{
    const struct value globals = value_dict(pool), messages = value_list(pool);

    for (int i = 0; i < 3; i++) {
        const struct value m = value_dict(pool);

        value_dict_set(pool, m, "role", value_text(i % 2 == 0 ? "user" : "assistant"));
        value_dict_set(pool, m, "content", value_text("h\xc3\xa9llo <b> 12"));
        value_list_add(pool, messages, m);
    }
    value_dict_set(pool, globals, "messages", messages);
    value_dict_set(pool, globals, "a", value_int(7));
    value_dict_set(pool, globals, "b", value_float(-2.5));
    value_dict_set(pool, globals, "c", value_text("text"));
    return globals;
}

static void render(const struct template *t)
{
    struct budget budget = {.steps_left = MAX_STEPS};
    const struct template_options options = {.budget = &budget};
    struct value_pool pool;
    struct value globals;
    struct buf out;
    char err[200];
    int rc;

    value_pool_init(&pool, MEMORY);
    buf_init(&out, OUTPUT);
    buf_add_str(&out, "x");
    globals = chat(&pool);
    rc = template_render(t, &pool, &globals, &options, &out, err, sizeof(err));
    if (rc < 0) {
        check_error(rc, err);
        require(out.len == 1);
    }
    check_text(out.data, out.len);
    buf_release(&out);
    value_pool_release(&pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *source = mem_dup(data, n); /* its own block: the sanitizer sees a read past the end */
    struct template *t;
    char err[200];
    int rc;

    rc = template_create(&t, source, n, err, sizeof(err));
    mem_free(source); /* the template must have copied it */
    if (rc < 0)
        check_error(rc, err);
    else
        render(t);
    template_destroy(&t);
    return 0;
}
