/* tests/unit/config/test_models.c - lists of models, and the sections of the settings file. */
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/files.h"
#include "tests/unit/config/settings.h"

#include "config/models.h"
#include "core/base/mem.h"

/* ---- the list */

static void assert_item(const char **text, const char *name, const char *path)
{
    struct model_item item;

    if (models_next(text, &item, err, sizeof(err)) != 1)
        fail_msg("%s: %s", path, err);
    assert_string_equal(item.name, name);
    assert_string_equal(item.path, path);
}

static void assert_end(const char *text)
{
    struct model_item item;

    assert_null(text);
    assert_int_equal(models_next(&text, &item, err, sizeof(err)), 0);
}

static void reads_paths_and_names(void **state)
{
    const char *text = " chat=/m/a.gguf , /m/b-00001-of-00003.gguf,e@1:2/x.gguf,\tc = d e/ ";

    (void)state;
    assert_item(&text, "chat", "/m/a.gguf");
    assert_item(&text, "b", "/m/b-00001-of-00003.gguf");
    assert_item(&text, "x", "e@1:2/x.gguf");
    assert_item(&text, "c", "d e/");
    assert_end(text);
    /* A model of the Hub is called after its repository. */
    text = "hf:owner/x-GGUF@v1:Q8_0,me=hf:owner/x-GGUF:sub/y.gguf";
    assert_item(&text, "x-GGUF", "hf:owner/x-GGUF@v1:Q8_0");
    assert_item(&text, "me", "hf:owner/x-GGUF:sub/y.gguf");
    assert_end(text);
    /* A name ends at the first '=', unless it begins as a path. */
    text = "Qwen/Qwen3-0.6B=/m/q.gguf, a/b/c=x,a/b=hf:owner/x-GGUF:Q8_0,../a=b,~/a=b";
    assert_item(&text, "Qwen/Qwen3-0.6B", "/m/q.gguf");
    assert_item(&text, "a/b/c", "x");
    assert_item(&text, "a/b", "hf:owner/x-GGUF:Q8_0");
    assert_item(&text, "a=b", "../a=b");
    assert_item(&text, "a=b", "~/a=b");
    text = "a=b=c,./a=b.gguf,/x=y/z,~{|}!=/t";
    assert_item(&text, "a", "b=c");
    assert_item(&text, "a=b", "./a=b.gguf");
    assert_item(&text, "z", "/x=y/z");
    assert_item(&text, "~{|}!", "/t");
    assert_end(text);
}

static void an_empty_path_is_the_demo(void **state)
{
    const char *text = "";

    (void)state;
    assert_item(&text, MODELS_DEMO, "");
    assert_end(text);
    text = " \t";
    assert_item(&text, MODELS_DEMO, "");
    assert_end(text);
    text = "a=,b= ";
    assert_item(&text, "a", "");
    assert_item(&text, "b", "");
    assert_end(text);
}

static void refuses_slips(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {",", "empty item"},     {"a,", "empty item"},     {"a, ", "empty item"},
        {",a", "empty item"},    {"a,,b", "empty item"},   {"a, ,b", "empty item"},
        {"a//b=c", "'a//b=c'"},  {"a/=c", "'a/=c'"},
        {"=a", "'=a'"},          {" = a", "'= a'"},        {"a b=c", "'a b=c'"},
        {"a]=c", "'a]=c'"},      {"[a=c", "'[a=c'"},       {"a\"=c", "'a\"=c'"},
        {"a'=c", "'a'=c'"},      {"a\\=c", "'a\\=c'"},     {"a`=c", "'a`=c'"},
        {"\xc3\xa4=c", "ASCII"}, {"a\x7f=c", "ASCII"},     {"a\tb=c", "ASCII"},
        {"x,a b=c", "'a b=c'"},  {"a=x,a=y", "'a'"},       {"a=x,/m/a.gguf", "'a'"},
        {"/m/a.gguf,/n/a", "NAME=PATH"}, {",,", "empty item"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(models_check(cases[i].text, err, sizeof(err)), ERR_INVAL);
        if (strstr(err, "'model'") == NULL || strstr(err, cases[i].word) == NULL)
            fail_msg("'%s' is not in: %s", cases[i].word, err);
    }
}

static void keeps_to_its_limits(void **state)
{
    char text[2 * MODELS_MAX_PATH];
    struct model_item item;
    const char *rest = text;
    int n = 0;

    (void)state;
    snprintf(text, sizeof(text), "%0127d=p", 7);
    assert_int_equal(models_check(text, err, sizeof(err)), 1);
    snprintf(text, sizeof(text), "%0128d=p", 7);
    assert_int_equal(models_check(text, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, "1 to 127 bytes"));
    snprintf(text, sizeof(text), "a=/%04094d", 7);
    assert_int_equal(models_check(text, err, sizeof(err)), 1);
    assert_int_equal(models_next(&rest, &item, err, sizeof(err)), 1);
    assert_int_equal(strlen(item.path), MODELS_MAX_PATH);
    snprintf(text, sizeof(text), "a=/%04095d", 7);
    assert_int_equal(models_check(text, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, "4096"));
    /* The name of a file is cut to what names may have. */
    snprintf(text, sizeof(text), "/m/%0200d.gguf", 7);
    rest = text;
    assert_int_equal(models_next(&rest, &item, err, sizeof(err)), 1);
    assert_int_equal(strlen(item.name), MODELS_MAX_NAME);
    for (int i = 0; i < MODELS_MAX; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%sm%d", i > 0 ? "," : "", i);
    assert_int_equal(models_check(text, err, sizeof(err)), MODELS_MAX);
    snprintf(text + n, sizeof(text) - (size_t)n, ",m128");
    assert_int_equal(models_check(text, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, "more than 128"));
}

static void finds_and_names_items(void **state)
{
    static const char list[] = "a=/x, /m/b.gguf, c=";
    struct model_item item;
    char names[16];

    (void)state;
    assert_int_equal(models_find(list, "a"), 0);
    assert_int_equal(models_find(list, "b"), 1);
    assert_int_equal(models_find(list, "c"), 2);
    assert_int_equal(models_find(list, "x"), -1);
    assert_int_equal(models_find(NULL, "x"), -1);
    models_names(list, names, sizeof(names));
    assert_string_equal(names, "a, b, c");
    models_names(list, names, 5);
    assert_string_equal(names, "a, b");
    models_get(list, 1, &item);
    assert_string_equal(item.path, "/m/b.gguf");
}

static void an_item_is_a_list_of_its_own(void **state)
{
    static const char *const lists[] = {"",    "a=",          "a=b",      "/m/b.gguf",
                                        "a b", "./a=b.gguf", "a=./b=c", "/m/\xc3\xa4.gguf"};
    char text[MODELS_MAX_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const char *list = lists[i], *own = text;
        struct model_item item;

        assert_int_equal(models_next(&list, &item, err, sizeof(err)), 1);
        models_text(&item, text);
        assert_item(&own, item.name, item.path);
        assert_end(own);
    }
}

/* ---- sections */

static struct config own; /* of one model */

static void view(uint32_t i)
{
    config_release(&own);
    if (config_model(&own, &config, i, err, sizeof(err)) != 0)
        fail_msg("%s", err);
}

static void done(void)
{
    config_release(&own);
    config_release(&config);
}

static void one_model_has_all_settings(void **state)
{
    (void)state;
    assert_int_equal(LOAD("--kv-memory", "2g"), 0);
    assert_int_equal(config_n_models(&config), 1);
    view(0);
    assert_string_equal(own.model, "");
    assert_int_equal(own.kv_memory, (uint64_t)2 << 30);
    assert_int_equal(own.share, 1);
    assert_string_equal(own.host, "127.0.0.1");
    done();
    assert_int_equal(LOAD("--model", "/m/a.gguf"), 0);
    view(0);
    assert_string_equal(own.model, "a=/m/a.gguf");
    done();
}

static void sections_are_between_file_and_environment(void **state)
{
    (void)state;
    write_file("model = chat=/m/a.gguf, /m/embed.gguf\nkv_memory = 1g\ncontext = 100\nport = 81\n"
               "\n  [chat]   \nkv_memory = 8g\n share = 3\nkv_type = q8_0\nswap_file = /s/chat\n"
               "swap_file_size = 1m\nswap_file = /s/c\n; a comment\n"
               "[embed]\nmax_sequences = 64\ncontext: 7\naging=5\n");
    setenv("QUIRE_CONTEXT", "200", 1);
    assert_int_equal(LOAD("--config", file_path, "--kv-type", "bf16"), 0);
    unsetenv("QUIRE_CONTEXT");
    assert_int_equal(config_n_models(&config), 2);
    assert_int_equal(config.kv_memory, (uint64_t)1 << 30);
    assert_int_equal(config.max_sequences, 256);
    assert_int_equal(config.share, 1);
    view(0);
    assert_string_equal(own.model, "chat=/m/a.gguf");
    assert_int_equal(own.kv_memory, (uint64_t)8 << 30);
    assert_int_equal(own.share, 3);
    assert_int_equal(own.context, 200);
    assert_int_equal(own.kv_type, CONFIG_KV_BF16);
    assert_string_equal(own.swap_file, "/s/c");
    assert_int_equal(own.max_sequences, 256);
    assert_int_equal(own.port, 81);
    assert_int_equal(config_n_models(&own), 1);
    view(1);
    assert_string_equal(own.model, "embed=/m/embed.gguf");
    assert_int_equal(own.kv_memory, (uint64_t)1 << 30);
    assert_int_equal(own.max_sequences, 64);
    assert_int_equal(own.aging, 5);
    assert_int_equal(own.context, 200);
    assert_string_equal(own.swap_file, "");
    done();
}

/* What is printed behind the list, blanks squeezed and the path of the file taken out. */
static void printed_sections(char *out, size_t size)
{
    char *text = NULL;
    size_t bytes, n = 0;
    FILE *f = open_memstream(&text, &bytes);

    assert_non_null(f);
    config_print(&config, f);
    fclose(f);
    assert_non_null(strstr(text, "\n\n["));
    for (const char *p = strstr(text, "\n\n[") + 1; *p != '\0' && n + 1 < size; p++) {
        const size_t len = strlen(file_path);

        if (strncmp(p, file_path, len) == 0)
            p += len - 1;
        else if (*p != ' ' || p[-1] != ' ')
            out[n++] = *p;
    }
    out[n] = '\0';
    free(text);
}

static void prints_sections_with_what_is_in_force(void **state)
{
    char text[512];

    (void)state;
    write_file("model = a=,b=,c=\n[c]\nshare = 3\npolicy = sjf\n[a]\nkv_memory = 8g\n");
    assert_int_equal(LOAD("--config", file_path, "--policy", "fcfs"), 0);
    assert_printed("share", "share = 1 # default");
    printed_sections(text, sizeof(text));
    assert_string_equal(text, "\n[a]\nkv_memory = 8g # :6\n"
                              "\n[c]\nshare = 3 # :3\npolicy = fcfs # command line\n");
    done();
}

static void only_settings_of_a_model_stand_in_sections(void **state)
{
    char text[128], quoted[40];
    size_t n_own = 0;

    (void)state;
    for (size_t i = 0; i < N_SETTINGS; i++) {
        snprintf(quoted, sizeof(quoted), "'%s'", setting_names[i].name);
        snprintf(text, sizeof(text), "model = a=,b=\n[b]\n%s = 1\n", setting_names[i].name);
        write_file(text);
        if (strcmp(setting_names[i].name, "model") == 0) {
            assert_refused(LOAD("--config", file_path), file_path, ":3: ", quoted, "[b]",
                           "already");
        } else if (strcmp(setting_names[i].scope, "SERVER") == 0) {
            assert_refused(LOAD("--config", file_path), file_path, ":3: ", quoted, "[b]",
                           "above the first section");
        } else { /* refused for its value, if at all */
            if (LOAD("--config", file_path) == 0)
                config_release(&config);
            else if (strstr(err, " must ") == NULL || strstr(err, quoted) == NULL)
                fail_msg("%s: %s", setting_names[i].name, err);
            n_own++;
        }
    }
    assert_true(n_own >= 25);
}

static void sections_belong_to_models(void **state)
{
    char text[4096];

    (void)state;
    write_file("model = a=,b=\n\n[c]\n");
    assert_refused(LOAD("--config", file_path), file_path, ":3: ", "[c]", "a, b");
    write_file("model = a=,b=\n[]\nshare = 1\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[]", "a, b");
    write_file("model = a=,b=\n[b]\nshare = 1\n[a]\n[b]\nshare = 2\n");
    assert_refused(LOAD("--config", file_path), file_path, ":5: ", "[b]", "occurs twice", ":2");
    write_file("model = a=,b=\n[b]\nsharre = 1\n");
    assert_refused(LOAD("--config", file_path), file_path, ":3: ", "'sharre'", "unknown setting");
    write_file("model = a=,b=\n[b\nshare = 1\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "name = value");
    write_file("\xEF\xBB\xBF[c]\nshare = 1\n");
    assert_refused(LOAD("--config", file_path), file_path, ":1: ", "[c]", "quire-demo");
    /* Sections of models that the file lists may stay when others are served. */
    write_file("model = a=,b=\n[b]\nshare = 2\n");
    assert_int_equal(LOAD("--config", file_path, "--model", "b=,x="), 0);
    view(0);
    assert_int_equal(own.share, 2);
    view(1);
    assert_int_equal(own.share, 1);
    done();
    assert_ok(LOAD("--config", file_path, "--model", "x="));
    write_file("[b]\nshare = 2\n");
    assert_ok(LOAD("--config", file_path, "--model", "b="));
    /* Names of any length that a model may have; inih would cut them at 49 bytes. */
    snprintf(text, sizeof(text), "model = %0120d=\n[%0120d]\nshare = 4\n", 7, 7);
    write_file(text);
    assert_int_equal(LOAD("--config", file_path), 0);
    view(0);
    assert_int_equal(own.share, 4);
    done();
    snprintf(text, sizeof(text), "share = 2\n[%0128d]\nshare = 4\n", 7);
    write_file(text);
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "128 bytes", "NAME=PATH");
    for (int i = 0, n = 0; i < MODELS_MAX + 1; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "[m%d]\n", i);
    write_file(text);
    assert_refused(LOAD("--config", file_path), file_path, ":129: ", "[m128]", "at most 128");
}

static void sections_may_bring_their_models(void **state)
{
    (void)state;
    write_file("share = 2\n[chat]\nmodel = /m/chat=1.gguf\nshare = 3\n[embed]\nmodel = e.gguf\n");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_int_equal(config_n_models(&config), 2);
    view(0);
    assert_string_equal(own.model, "chat=/m/chat=1.gguf");
    assert_int_equal(own.share, 3);
    view(1);
    assert_string_equal(own.model, "embed=e.gguf");
    assert_int_equal(own.share, 2);
    done();
    /* A flag lists all there are; the sections of the others may stay. */
    assert_int_equal(LOAD("--config", file_path, "--model", "chat=x"), 0);
    assert_int_equal(config_n_models(&config), 1);
    view(0);
    assert_string_equal(own.model, "chat=x");
    assert_int_equal(own.share, 3);
    done();
    write_file("model = a=x\n[b]\nmodel =\n[c]\nmodel = y\n");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_string_equal(config.model, "a=x,b=,c=y");
    done();
    write_file("model =\n[b]\nmodel = y\n");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_string_equal(config.model, "quire-demo=,b=y");
    done();
    write_file("[b]\nmodel = y\nmodel = z\n");
    assert_refused(LOAD("--config", file_path), file_path, ":3: ", "'model'", "[b]", "already");
    write_file("[b]\nmodel = y,z\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[b]", "comma");
    write_file("[b c]\nmodel = y\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[b c]", "name");
    write_file("[b,c]\nmodel = y\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[b,c]", "name");
    write_file("[b//c]\nmodel = y\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[b//c]", "name");
    write_file("[]\nmodel = y\n");
    assert_refused(LOAD("--config", file_path), file_path, ":2: ", "[]", "name");
    write_file("[b] model = y\n");
    assert_refused(LOAD("--config", file_path), file_path, ":1: ", "text after", "]");
    write_file("[b] ; a comment\nmodel = y\n[c] \r\nmodel = z\r\n");
    assert_int_equal(LOAD("--config", file_path), 0);
    assert_string_equal(config.model, "b=y,c=z");
    done();
}

static void the_models_must_fit_together(void **state)
{
    (void)state;
    assert_refused(LOAD("--model", "a=x,a=y"), "'model'", "'a'", "NAME=PATH");
    assert_refused(LOAD("--model", "a,,b"), "'model'", "empty item", "',b'");
    /* What does not fit is told of the model that it is about. */
    write_file("model = a=,b=\n[b]\nmax_sequences = 2000\n");
    assert_refused(LOAD("--config", file_path), "model 'b'", "max_batch_tokens", "2000");
    write_file("model = a=,b=\n[b]\nkv_low_percent = 5\n[a]\nkv_low_percent = 50\n");
    assert_refused(LOAD("--config", file_path), "model 'b'", "'kv_low_percent' (5)");
    /* Outside the sections there may stand what each section completes. */
    write_file("model = a=,b=\nmax_sequences = 2000\n[a]\nmax_batch_tokens = 4096\n[b]\n"
               "max_sequences = 10\n");
    assert_ok(LOAD("--config", file_path));
    write_file("model = a=,b=\nswap_file = /s/x\nswap_file_size = 1m\n");
    assert_refused(LOAD("--config", file_path), "two models cannot share", "'swap_file'",
                   "'a' and 'b'", "/s/x", "[b]");
    assert_refused(LOAD("--model", "a=,b=,c=", "--journal", "/j"), "two models cannot share",
                   "'journal'", "/j");
    write_file("model = a=,b=,c=\njournal = /j\n[a]\njournal = /k\n");
    assert_refused(LOAD("--config", file_path), "'journal'", "'b' and 'c'");
    write_file("model = a=,b=,c=\n[c]\njournal = /k\n[a]\njournal = /j\n");
    assert_ok(LOAD("--config", file_path));
    write_file("model = a=,b=\nswap_file_size = 1m\n[a]\nswap_file = /s/a\n[b]\n"
               "swap_file = /s/b\n");
    assert_ok(LOAD("--config", file_path));
}

static void the_sample_names_what_sections_hold(void **state)
{
    size_t n;
    char *text = read_whole("config/quire.conf", &n), name[64];
    char *list, *end;

    (void)state;
    list = strstr(text, "# A section holds these");
    assert_non_null(list);
    end = strchr(list + 30, '.');
    assert_non_null(end);
    *end = '\0';
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const bool is_own = strcmp(setting_names[i].scope, "MODEL") == 0 ||
                            strcmp(setting_names[i].name, "model") == 0;

        snprintf(name, sizeof(name), " %s", setting_names[i].name);
        if ((strstr(list, name) != NULL) != is_own)
            fail_msg("%s: what config/quire.conf says of sections is not so",
                     setting_names[i].name);
    }
    free(text);
}

static void survives_a_failure_of_any_allocation(void **state)
{
    int64_t n = 0;

    (void)state;
    write_file("model = a=,b=\n[a]\nkv_type = q8_0\nswap_file = /s\nswap_file_size = 1g\n[b]\n"
               "journal = /j\n");
    while (each_failure(&n))
        assert_loads_or_lacks_memory(LOAD("--config", file_path));
    assert_true(n > 51);
    for (n = 0;; n++) {
        mem_fail_after(n);
        if (config_model(&own, &config, 0, err, sizeof(err)) == 0)
            break;
        mem_fail_after(-1);
        assert_non_null(strstr(err, "no memory"));
        assert_null(own.source);
        assert_null(own.model);
    }
    mem_fail_after(-1);
    assert_true(n > 10);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_paths_and_names),
        cmocka_unit_test(an_empty_path_is_the_demo),
        cmocka_unit_test(refuses_slips),
        cmocka_unit_test(keeps_to_its_limits),
        cmocka_unit_test(finds_and_names_items),
        cmocka_unit_test(an_item_is_a_list_of_its_own),
        cmocka_unit_test(one_model_has_all_settings),
        cmocka_unit_test(sections_are_between_file_and_environment),
        cmocka_unit_test(prints_sections_with_what_is_in_force),
        cmocka_unit_test(only_settings_of_a_model_stand_in_sections),
        cmocka_unit_test(sections_belong_to_models),
        cmocka_unit_test(sections_may_bring_their_models),
        cmocka_unit_test(the_models_must_fit_together),
        cmocka_unit_test(the_sample_names_what_sections_hold),
        cmocka_unit_test(survives_a_failure_of_any_allocation),
    };

    return cmocka_run_group_tests(tests, clean_environment, remove_file);
}
