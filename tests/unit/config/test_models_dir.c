/* tests/unit/config/test_models_dir.c - the models of a folder, and where two settings differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/models_dir.h"
#include "core/base/buf.h"
#include "core/base/err.h"

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void put(const char *name)
{
    FILE *f = fopen(path_of(name), "w");

    assert_non_null(f);
    fclose(f);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/quire-models-dir-%d", (int)getpid());
    return mkdir(folder, 0700);
}

static int remove_folder(void **state)
{
    static const char *const made[] = {"b.gguf", "a.gguf", "mmproj-a.gguf", ".c.gguf",
                                       "notes.txt", "c,d.gguf", "s-00001-of-00002.gguf",
                                       "s-00002-of-00002.gguf", "hf/config.json", "hf",
                                       "none/readme.md", "none", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        (void)remove(path_of(made[i]));
    return access(folder, F_OK) == 0 ? -1 : 0;
}

static void expect(const char *before, const char *after)
{
    char wanted[1024] = "", err[200];
    struct buf list;

    buf_init(&list, 4096);
    buf_add_str(&list, before);
    assert_int_equal(models_dir_add(folder, &list, err, sizeof(err)), 0);
    for (const char *at = after; *at != '\0'; at++) { /* % is the folder */
        const size_t n = strlen(wanted);

        snprintf(wanted + n, sizeof(wanted) - n, *at == '%' ? "%s/" : "%.1s",
                 *at == '%' ? folder : at);
    }
    assert_string_equal(list.len > 0 ? list.data : "", wanted);
    buf_release(&list);
}

static void finds_files_and_folders_by_name(void **state)
{
    (void)state;
    expect("", "");
    put("b.gguf");
    put("a.gguf");
    put("mmproj-a.gguf");
    put(".c.gguf");
    put("notes.txt");
    put("c,d.gguf");
    put("s-00001-of-00002.gguf");
    put("s-00002-of-00002.gguf");
    assert_int_equal(mkdir(path_of("hf"), 0700), 0);
    put("hf/config.json");
    assert_int_equal(mkdir(path_of("none"), 0700), 0);
    put("none/readme.md");
    expect("", "%a.gguf,%b.gguf,%hf,%s-00001-of-00002.gguf");
    expect("b=/x.gguf", "b=/x.gguf,%a.gguf,%hf,%s-00001-of-00002.gguf");
}

static void knows_its_own_paths(void **state)
{
    (void)state;
    assert_true(models_dir_has("/m", "/m/a.gguf"));
    assert_true(models_dir_has("/m//", "/m/a.gguf"));
    assert_false(models_dir_has("/m", "/m/x/a.gguf"));
    assert_false(models_dir_has("/m", "/mm/a.gguf"));
    assert_false(models_dir_has("", "/a.gguf"));
    assert_false(models_dir_has("/m", ""));
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    char err[200] = "";
    struct buf list;
    (void)state;

    buf_init(&list, 64);
    assert_int_equal(models_dir_add("/nowhere/at/all", &list, err, sizeof(err)), ERR_INVAL);
    assert_non_null(strstr(err, "/nowhere/at/all"));
    buf_release(&list);
}

static void load(struct config *c, char *flag, char *value)
{
    char *argv[] = {"quire", flag, value, NULL};
    enum config_action action;
    char err[300];

    assert_int_equal(config_load(c, 3, argv, &action, err, sizeof(err)), 0);
}

static void tells_where_settings_differ(void **state)
{
    struct config a, b;
    uint32_t at = 0;
    (void)state;

    load(&a, "--share", "1");
    load(&b, "--share", "7");
    assert_null(config_differs(&a, &b, false, &at));
    at = 0;
    assert_string_equal(config_differs(&a, &b, true, &at), "share");
    assert_null(config_differs(&a, &b, true, &at));
    assert_int_equal(config_take(&a, &b, "share"), 0);
    assert_int_equal(a.share, 7);
    assert_null(config_path(&a));
    config_release(&b);
    load(&b, "--memory-limit", "3g");
    at = 0;
    assert_string_equal(config_differs(&a, &b, false, &at), "memory_limit");
    config_release(&a);
    config_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_files_and_folders_by_name, make_folder,
                                        remove_folder),
        cmocka_unit_test(knows_its_own_paths),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
        cmocka_unit_test(tells_where_settings_differ),
    };

    return cmocka_run_group_tests_name("models_dir", tests, NULL, NULL);
}
