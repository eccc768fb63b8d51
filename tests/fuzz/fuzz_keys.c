/* tests/fuzz/fuzz_keys.c - libFuzzer: any bytes as the file of API keys.
 *
 * What is accepted has the sections that a plain look at its lines shows, in their order, each once
 * and with all values in range, and written again it reads the same. What is refused is so with a
 * sentence that names the file and shows no hash.
 */
#include "tests/fuzz/scratch.h"

#include <ctype.h>

#include "core/base/buf.h"
#include "server/auth/key_file.h"
#include "server/auth/rate_limit.h"

#define MAX_TEXT ((size_t)1 << 20)

static const char *const priorities[] = {"low", "normal", "high", "critical"};

static void check_sections(const struct key_list *l, const char *text)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const size_t len = strlen(l->keys[i].name);
        const char *name = scratch_section(&text);

        require(name != NULL && strncmp(name, l->keys[i].name, len) == 0 && name[len] == ']');
    }
    require(scratch_section(&text) == NULL);
}

static void check_key(const struct key_list *l, uint32_t i)
{
    const struct key_spec *k = &l->keys[i];

    require(k->has_hash && key_file_is_name(k->name, KEY_NAME_MAX));
    require(key_file_is_name(k->tenant, KEY_TENANT_MAX));
    require(k->weight <= WEIGHTS_MAX_VALUE && k->max_priority < PRIORITY_COUNT);
    require(k->requests_per_minute <= RATE_LIMIT_MAX && k->tokens_per_minute <= RATE_LIMIT_MAX);
    require(k->max_concurrent <= 1000000);
    for (uint32_t j = 0; j < i; j++) {
        const struct key_spec *o = &l->keys[j];

        require(strcmp(o->name, k->name) != 0 && !secret_is_equal(&o->hash, &k->hash));
        require(strcmp(o->tenant, k->tenant) != 0 || o->weight == 0 || k->weight == 0 ||
                o->weight == k->weight);
    }
}

static void print(const struct key_list *l, struct buf *out)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const struct key_spec *k = &l->keys[i];
        char hex[SECRET_HEX];

        secret_to_hex(&k->hash, hex);
        buf_printf(out, "[%s]\nhash=%s\ntenant=%s\nmax_priority=%s\n", k->name, hex, k->tenant,
                   priorities[k->max_priority]);
        buf_printf(out, "requests_per_minute=%u\ntokens_per_minute=%u\nmax_concurrent=%u\n",
                   k->requests_per_minute, k->tokens_per_minute, k->max_concurrent);
        buf_printf(out, "admin=%s\n", k->is_admin ? "yes" : "no");
        if (k->weight > 0)
            buf_printf(out, "weight=%u\n", k->weight);
    }
    require(out->err == 0);
}

static void check_again(const struct key_list *l)
{
    struct key_list again;
    struct buf first, second;
    char err[300];

    buf_init(&first, MAX_TEXT);
    buf_init(&second, MAX_TEXT);
    print(l, &first);
    require(key_file_read(&again, scratch_write("again", first.data, first.len), err,
                          sizeof(err)) == 0);
    print(&again, &second);
    require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    key_list_release(&again);
    buf_release(&second);
    buf_release(&first);
}

static bool shows_hash(const char *err)
{
    size_t run = 0;

    for (; *err != '\0' && run < SECRET_HEX - 1; err++)
        run = isxdigit((unsigned char)*err) ? run + 1 : 0;
    return run == SECRET_HEX - 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = scratch_write("keys", data, n);
    char err[300] = "", *text = calloc(1, n + 1);
    struct key_list list;

    require(text != NULL);
    memcpy(text, data, n);
    if (key_file_read(&list, path, err, sizeof(err)) == 0) {
        require(list.n > 0 && memchr(data, '\0', n) == NULL);
        check_sections(&list, text);
        for (uint32_t i = 0; i < list.n; i++)
            check_key(&list, i);
        check_again(&list);
    } else {
        require(list.n == 0 && list.keys == NULL && !shows_hash(err));
        require(strncmp(err, scratch_folder(), strlen(scratch_folder())) == 0);
    }
    key_list_release(&list);
    free(text);
    return 0;
}
