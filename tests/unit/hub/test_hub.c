/* tests/unit/hub/test_hub.c - references, listings, the choice of files, heads of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/hub/ask.h"
#include "core/hub/choice.h"
#include "core/hub/download.h"
#include "core/hub/hash.h"
#include "core/hub/listing.h"
#include "core/hub/reference.h"
#include "core/hub/transfer.h"

static char err[512];

#define NONE "0000000000000000000000000000000000000001"

static void references(void **state)
{
    static const struct {
        const char *text, *repo, *revision, *want, *name;
    } cases[] = {
        {"hf:a/b", "a/b", "main", "", "b"},
        {"hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0", "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "main",
         "Q8_0", "Qwen2.5-0.5B-Instruct-GGUF"},
        {"hf:a/b@v1.0:x/y.gguf", "a/b", "v1.0", "x/y.gguf", "b"},
        {"hf:a/b@refs/pr/7", "a/b", "refs/pr/7", "", "b"},
        {"hf:a/b:with a blank.gguf", "a/b", "main", "with a blank.gguf", "b"},
        {"hf:a/b:a:b@c", "a/b", "main", "a:b@c", "b"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hub_reference r;
        const char *name;

        assert_int_equal(hub_reference_parse(&r, cases[i].text, err, sizeof(err)), 0);
        assert_string_equal(r.repo, cases[i].repo);
        assert_string_equal(r.revision, cases[i].revision);
        assert_string_equal(r.want, cases[i].want);
        assert_int_equal(hub_reference_name(cases[i].text, &name), strlen(cases[i].name));
        assert_memory_equal(name, cases[i].name, strlen(cases[i].name));
    }
}

static void bad_references(void **state)
{
    static const char *const bad[] = {
        "hf:",           "hf:a",        "hf:/",        "hf:a/",       "hf:/b",
        "hf:a/b/c",      "hf:a/b@",     "hf:a/b:",     "hf:a/..",     "hf:./b",
        "hf:a/b.",       "hf:-a/b",     "hf:a--b/c",   "hf:a/b..c",   "hf:a b/c",
        "hf:a/b@..",     "hf:a/b@a//b", "hf:a/b@a b",  "hf:a/b:..",   "hf:a/b:/x",
        "hf:a/b:x/../y", "hf:a/b:x\ny", "hf:a/b:x\\y", "hf:a/b:\xff", "a/b"};
    struct hub_reference r;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(hub_reference_parse(&r, bad[i], err, sizeof(err)), ERR_INVAL);
        assert_non_null(strstr(err, "models of the Hub are hf:OWNER/NAME"));
    }
    assert_false(hub_reference_is("./hf:a/b"));
    assert_true(hub_reference_is("hf:a/b"));
}

/* Files with commas between; the listing is released by the caller. */
static void list(struct hub_listing *l, const char *names)
{
    char path[HUB_MAX_PATH + 1];

    *l = (struct hub_listing){0};
    while (*names != '\0') {
        const size_t n = strcspn(names, ",");

        memcpy(path, names, n);
        path[n] = '\0';
        assert_int_equal(hub_listing_add(l, path, 7, NONE, err, sizeof(err)), 0);
        names += n + (names[n] == ',');
    }
    hub_listing_sort(l);
}

static void choices(void **state)
{
    static const struct {
        const char *files, *want, *first, *chosen; /* chosen: in the listing's order */
    } cases[] = {
        {"b-Q8_0.gguf,a-Q2_K.gguf", "", "b-Q8_0.gguf", "b-Q8_0.gguf"},
        {"b-Q8_0.gguf,a.q4_k_m.gguf", "", "a.q4_k_m.gguf", "a.q4_k_m.gguf"},
        {"b-F16.gguf,a-BF16.gguf", "", "a-BF16.gguf", "a-BF16.gguf"},
        {"b-F16.gguf,a-BF16.gguf", "f16", "b-F16.gguf", "b-F16.gguf"},
        {"x-Q4_K_M.gguf,x-Q4_K.gguf", "Q4_K", "x-Q4_K.gguf", "x-Q4_K.gguf"},
        {"x.Q8_0.gguf,mmproj-Q8_0.gguf,m-imatrix.gguf", "q8_0", "x.Q8_0.gguf", "x.Q8_0.gguf"},
        {"long-Q8_0.gguf,x-Q8_0.gguf", "Q8_0", "x-Q8_0.gguf", "x-Q8_0.gguf"},
        {"Q8_0/m-00001-of-00002.gguf,Q8_0/m-00002-of-00002.gguf,m-Q4_0.gguf", "Q8_0",
         "Q8_0/m-00001-of-00002.gguf", "Q8_0/m-00001-of-00002.gguf,Q8_0/m-00002-of-00002.gguf"},
        {"X.GGUF", "", "X.GGUF", "X.GGUF"},
        {"config.json,model.safetensors,pytorch_model.bin,model.fp16.safetensors,vocab.txt", "", "",
         "config.json,model.safetensors,vocab.txt"},
        {"config.json,model-00001-of-00001.safetensors,model.safetensors.index.json,consolidated."
         "safetensors",
         "", "", "config.json,model-00001-of-00001.safetensors,model.safetensors.index.json"},
        {"config.json,weights.safetensors,sub/config.json,sub/model.safetensors,1_Pooling/config."
         "json,x_Pooling/config.json,1_Pooling/a/config.json",
         "", "", "1_Pooling/config.json,config.json,weights.safetensors"},
        {"config.json,model.safetensors,sparse_linear.safetensors,sparse_linear.pt,1_Dense/model."
         "safetensors",
         "", "",
         "1_Dense/model.safetensors,config.json,model.safetensors,sparse_linear.safetensors"},
        {"config.json,model.safetensors,x.gguf", "SafeTensors", "",
         "config.json,model.safetensors"},
        {"README.md,adapter_config.json,adapter_model.safetensors,tokenizer.json", "", "",
         "adapter_config.json,adapter_model.safetensors"},
        {"adapter_config.json,adapter_model.safetensors,config.json,model.safetensors", "", "",
         "config.json,model.safetensors"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hub_listing l;
        const char *first;
        char chosen[400] = "";

        list(&l, cases[i].files);
        assert_int_equal(hub_choose(&l, cases[i].want, &first, err, sizeof(err)), 0);
        assert_string_equal(first, cases[i].first);
        for (size_t k = 0; k < l.n; k++)
            if (l.files[k].is_chosen)
                snprintf(chosen + strlen(chosen), sizeof(chosen) - strlen(chosen), "%s%s",
                         chosen[0] != '\0' ? "," : "", l.files[k].path);
        assert_string_equal(chosen, cases[i].chosen);
        hub_listing_release(&l);
    }
}

static void no_choice(void **state)
{
    static const struct {
        const char *files, *want, *said;
    } cases[] = {
        {"x-Q8_0.gguf,mmproj.gguf", "Q4_0", "file 'Q4_0'; its GGUF files are: x-Q8_0.gguf"},
        {"x.txt", "Q4_0", "files are: none"},
        {"x-Q8_0.gguf", "y.gguf", "no GGUF file 'y.gguf'"},
        {"x-00001-of-00002.gguf", "", "the part 'x-00002-of-00002.gguf' is missing"},
        {"x-00000-of-00002.gguf", "x-00000-of-00002.gguf", "is not a valid part of"},
        {"x-00001-of-99999.gguf", "", "which has at most 1024 parts"},
        {"config.json,pytorch_model.bin", "", "neither a GGUF file nor config.json"},
        {"model.safetensors", "", "neither a GGUF file nor config.json"},
        {"mmproj-F16.gguf", "", "neither a GGUF file nor config.json"},
        {"adapter_config.json,adapter_model.bin", "", "neither a GGUF file nor config.json"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hub_listing l;
        const char *first;

        list(&l, cases[i].files);
        assert_true(hub_choose(&l, cases[i].want, &first, err, sizeof(err)) < 0);
        assert_non_null(strstr(err, cases[i].said));
        hub_listing_release(&l);
    }
}

static void pages(void **state)
{
    static const char page[] =
        "[{\"type\":\"directory\",\"path\":\"d\",\"oid\":\"x\",\"size\":0},"
        "{\"type\":\"file\",\"path\":\"d/\\u00e9.gguf\",\"size\":130,\"oid\":\"" NONE "\",\"lfs\":"
        "{\"oid\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
        "\"size\":5000000000,\"pointerSize\":130}},"
        "{\"type\":\"file\",\"path\":\"a\",\"size\":0,\"oid\":\"" NONE "\",\"xetHash\":null}]";
    struct hub_listing l = {0};

    (void)state;
    assert_int_equal(hub_listing_add_page(&l, page, strlen(page), err, sizeof(err)), 0);
    assert_int_equal(hub_listing_add_page(&l, "[]", 2, err, sizeof(err)), 0);
    hub_listing_sort(&l);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.files[0].path, "a");
    assert_string_equal(l.files[0].hash, NONE);
    assert_true(l.files[1].size == 5000000000 && strlen(l.files[1].hash) == 64);
    assert_true(hub_listing_find(&l, "d/\xc3\xa9.gguf") == &l.files[1]);
    assert_null(hub_listing_find(&l, "b"));
    for (size_t n = 0; n < strlen(page); n++) {
        struct hub_listing cut = {0};

        assert_true(hub_listing_add_page(&cut, page, n, err, sizeof(err)) < 0);
        hub_listing_release(&cut);
    }
    hub_listing_release(&l);
}

static void list_without_memory(void **state)
{
    static const char page[] =
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":0,\"oid\":\"" NONE "\"}]";

    (void)state;
    for (int64_t i = 0;; i++) {
        struct hub_listing l = {0};
        int rc;

        mem_fail_after(i);
        rc = hub_listing_add_page(&l, page, strlen(page), err, sizeof(err));
        hub_listing_release(&l);
        if (!mem_has_failed())
            break;
        assert_true(rc < 0);
    }
    mem_fail_after(-1);
}

static void head(struct hub_answer *a, const char *const *lines)
{
    *a = (struct hub_answer){.size = UINT64_MAX, .range_start = UINT64_MAX};
    for (; *lines != NULL; lines++)
        hub_answer_take_line(a, *lines, strlen(*lines));
}

static void heads(void **state)
{
    static const char *const redirect[] = {"HTTP/1.1 302 Found\r\n",
                                           "content-length: 1057\r\n",
                                           "x-repo-commit: " NONE "\r\n",
                                           "etag: \"of the answer\"\r\n",
                                           "X-Linked-ETag: W/\"abc\"\r\n",
                                           "x-linked-size: 42\r\n",
                                           "location: https://cdn/x?a=b\r\n",
                                           "Content-Length: 7\r\n",
                                           "ETag: \"late\"\r\n",
                                           NULL};
    static const char *const paged[] = {
        "HTTP/2 200\r\n",
        "link: <https://h/first>; rel=\"first\", <https://h/2?c=x,y>; rel=\"next\"\r\n",
        "Content-Range: bytes 5-9/10\r\n", "ratelimit: \"api\";r=0;t=55\r\n", NULL};
    static const char *const again[] = {"HTTP/1.1 302 Found\r\n",
                                        "X-Linked-Size: 42\r\n",
                                        "Location: /x\r\n",
                                        "Retry-After: 9\r\n",
                                        "HTTP/1.1 429 Too Many\r\n",
                                        "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n",
                                        "X-Error-Code: GatedRepo\r\n",
                                        "Content-Length: 0\r\n",
                                        "Nonsense\r\n",
                                        ":\r\n",
                                        "",
                                        NULL};
    struct hub_answer a;

    (void)state;
    head(&a, redirect);
    assert_string_equal(a.commit, NONE);
    assert_string_equal(a.etag, "abc");
    assert_true(a.size == 42);
    assert_string_equal(a.location, "https://cdn/x?a=b");
    head(&a, paged);
    assert_string_equal(a.next, "https://h/2?c=x,y");
    assert_true(a.range_start == 5 && a.retry_after == 56);
    head(&a, again);
    assert_string_equal(a.location, "");
    assert_string_equal(a.error_code, "GatedRepo");
    assert_true(a.size == 42 && a.retry_after == 0);
}

static void waits(void **state)
{
    struct hub_answer a = {0};
    unsigned long last = 0;

    (void)state;
    for (unsigned n = 1; n < 5; n++) {
        assert_true(hub_wait_ms(&a, n) > last);
        last = hub_wait_ms(&a, n);
    }
    assert_true(hub_wait_ms(&a, 5) == ULONG_MAX);
    a.retry_after = 3;
    assert_true(hub_wait_ms(&a, 1) == 3000);
    a.retry_after = 100000;
    assert_true(hub_wait_ms(&a, 1) == ULONG_MAX);
}

static void urls(void **state)
{
    char url[64];

    (void)state;
    assert_int_equal(
        hub_url(url, sizeof(url), "http://h", "a/b/resolve", "refs/pr/1", "d e/\xc3\xa9?#%.gguf"),
        0);
    assert_string_equal(url, "http://h/a/b/resolve/refs%2Fpr%2F1/d%20e/%C3%A9%3F%23%25.gguf");
    assert_int_equal(
        hub_url(url, 61, "http://h", "a/b/resolve", "refs/pr/1", "d e/\xc3\xa9?#%.gguf"),
        ERR_LIMIT);
}

/* git hash-object and sha256sum of "hello\n". */
static void hashes(void **state)
{
    static const char git[] = "ce013625030ba8dba906f756967f9e9ca394464a";
    static const char sha[] = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    char found[HUB_HASH_TEXT];
    struct hub_hash h;

    (void)state;
    assert_int_equal(hub_hash_begin(&h, git, 6), 0);
    hub_hash_add(&h, "hel", 3);
    hub_hash_add(&h, "lo\n", 3);
    hub_hash_finish(&h, found);
    assert_string_equal(found, git);
    assert_int_equal(hub_hash_begin(&h, sha, 6), 0);
    hub_hash_add(&h, "hello\n", 6);
    hub_hash_finish(&h, found);
    assert_string_equal(found, sha);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references), cmocka_unit_test(bad_references),
        cmocka_unit_test(choices),    cmocka_unit_test(no_choice),
        cmocka_unit_test(pages),      cmocka_unit_test(list_without_memory),
        cmocka_unit_test(heads),      cmocka_unit_test(waits),
        cmocka_unit_test(urls),       cmocka_unit_test(hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
