/* tests/unit/formats/test_generation_config.c - what generation_config.json and general.sampling.*
 * say of sampling, and what of it is obeyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/generation_config.h"
#include "core/formats/hf_folder.h"
#include "core/model/sampling_defaults.h"

#include <string.h>

static char err[300];

/* A header with these keys, and what is read of it. */
static struct sampling_defaults read_header(struct gguf_writer *w)
{
    struct sampling_defaults d = {0};
    struct gguf *g;
    uint8_t *bytes;
    size_t n;

    assert_int_equal(gguf_writer_finish(w, &bytes, &n), 0);
    assert_int_equal(gguf_open_memory(&g, "test", bytes, n, err, sizeof(err)), 0);
    sampling_defaults_read(&d, g);
    gguf_close(&g);
    mem_free(bytes);
    return d;
}

static int take(const char *text, size_t n, struct sampling_defaults *d)
{
    struct hf_folder f = {.path = "folder", .forced_pre = "", .err = err, .err_len = sizeof(err)};
    int rc;

    err[0] = '\0';
    *d = (struct sampling_defaults){0};
    assert_int_equal(gguf_writer_create(&f.w), 0);
    rc = hf_generation_config_take(&f, text, n);
    if (rc == 0)
        *d = read_header(f.w);
    gguf_writer_destroy(&f.w);
    return rc;
}

static bool is(const struct sampling_defaults *d, enum sampling_default what, double value)
{
    return sampling_defaults_get(d, what, -77) == value;
}

static void reads_what_it_knows(void **state)
{
    static const char text[] =
        "{\"_from_model_config\":true,\"do_sample\":true,\"temperature\":0.5,\"top_p\":0.75,"
        "\"top_k\":20,\"min_p\":0,\"repetition_penalty\":1.25,\"presence_penalty\":-0.5,"
        "\"frequency_penalty\":0.25,\"max_new_tokens\":2147483647,\"eos_token_id\":[1,2],"
        "\"typical_p\":0.5}";
    struct sampling_defaults d;

    (void)state;
    assert_int_equal(take(text, sizeof(text) - 1, &d), 0);
    assert_true(is(&d, SAMPLING_TEMPERATURE, 0.5) && is(&d, SAMPLING_TOP_P, 0.75));
    assert_true(is(&d, SAMPLING_TOP_K, 20) && is(&d, SAMPLING_MIN_P, 0));
    assert_true(is(&d, SAMPLING_REPETITION_PENALTY, 1.25));
    assert_true(is(&d, SAMPLING_PRESENCE_PENALTY, -0.5));
    assert_true(is(&d, SAMPLING_FREQUENCY_PENALTY, 0.25));
    assert_true(is(&d, SAMPLING_MAX_TOKENS, 2147483647));
    assert_int_equal(d.has, (1u << (SAMPLING_MAX_TOKENS + 1)) - 1);
    assert_int_equal(take("{}", 2, &d), 0);
    assert_int_equal(d.has, 0);
    assert_int_equal(take("{\"temperature\":null}", 20, &d), 0);
    assert_int_equal(d.has, 0);
    assert_true(sampling_defaults_get(NULL, SAMPLING_TOP_K, 3) == 3);
}

static void refuses_what_is_no_number(void **state)
{
    static const char *const bad[] = {
        "",   "[]", "null", "7", "{", "{\"temperature\":\"0.5\"}", "{\"top_k\":[20]}",
        "{\"max_new_tokens\":true}", "{\"min_p\":1e999}", "{\"top_p\":{}}", "{\"top_p\":-1e300}",
    };
    struct sampling_defaults d;
    char deep[4096];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(take(bad[i], strlen(bad[i]), &d) < 0);
        assert_non_null(strstr(err, "folder/generation_config.json: "));
    }
    memset(deep, '[', sizeof(deep));
    assert_true(take(deep, sizeof(deep), &d) < 0);
    assert_true(take("{\"top_p\":1}\0", 12, &d) < 0);
}

/* What a request could not ask for either is as if it were not there. */
static void leaves_out_what_is_out_of_range(void **state)
{
    static const char *const cases[] = {
        "{\"temperature\":2.5}", "{\"temperature\":-1}", "{\"top_p\":0}", "{\"top_p\":1.5}",
        "{\"top_k\":2.5}", "{\"top_k\":1e20}", "{\"min_p\":-0.1}", "{\"repetition_penalty\":0}",
        "{\"presence_penalty\":3}", "{\"frequency_penalty\":-3}", "{\"max_new_tokens\":0}",
        "{\"max_new_tokens\":4294967295}", "{\"max_new_tokens\":-1}",
    };
    struct sampling_defaults d;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(take(cases[i], strlen(cases[i]), &d), 0);
        assert_int_equal(d.has, 0);
    }
    assert_int_equal(take("{\"top_k\":-1}", 12, &d), 0);
    assert_true(is(&d, SAMPLING_TOP_K, -1));
}

static void reads_the_keys_of_a_file(void **state)
{
    struct gguf_writer *w;
    struct sampling_defaults d;

    (void)state;
    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_f32(w, "general.sampling.temp", 0.5f);
    gguf_writer_u32(w, "general.sampling.mirostat", 2);
    gguf_writer_f32(w, "general.sampling.mirostat_tau", 4);
    gguf_writer_f32(w, "general.sampling.mirostat_eta", 0.25f);
    gguf_writer_f32(w, "general.sampling.xtc_probability", 0.5f);
    gguf_writer_f32(w, "general.sampling.xtc_threshold", 0.25f);
    gguf_writer_str(w, "general.sampling.top_k", "20");
    gguf_writer_bool(w, "general.sampling.top_p", true);
    gguf_writer_str(w, "general.sampling.sequence", "top_k;temperature");
    gguf_writer_u32(w, "general.sampling.", 1);
    gguf_writer_u32(w, "general.sampling.temperature", 1);
    d = read_header(w);
    gguf_writer_destroy(&w);
    assert_true(is(&d, SAMPLING_TEMPERATURE, 0.5) && is(&d, SAMPLING_MIROSTAT, 2));
    assert_true(is(&d, SAMPLING_MIROSTAT_TAU, 4) && is(&d, SAMPLING_MIROSTAT_ETA, 0.25));
    assert_true(is(&d, SAMPLING_XTC_PROBABILITY, 0.5) && is(&d, SAMPLING_XTC_THRESHOLD, 0.25));
    assert_true(is(&d, SAMPLING_TOP_K, -77) && is(&d, SAMPLING_TOP_P, -77));

    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_u32(w, "general.sampling.mirostat", 1); /* the first version */
    d = read_header(w);
    gguf_writer_destroy(&w);
    assert_int_equal(d.has, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_knows),
        cmocka_unit_test(refuses_what_is_no_number),
        cmocka_unit_test(leaves_out_what_is_out_of_range),
        cmocka_unit_test(reads_the_keys_of_a_file),
    };

    log_setup(LOG_OFF, false, 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
