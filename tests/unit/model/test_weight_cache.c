/* tests/unit/model/test_weight_cache.c - the file of packed weights: whole, or refused with a
 * reason. */
#include "tests/fixtures/random.h"
#include "tests/unit/model/model_file.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/model/load.h"
#include "core/model/weight_cache.h"
#include "core/model/weight_cache_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (2 * WEIGHT_CACHE_CHUNK + 12345) /* three chunks, the last one ragged */

static char folder[64], path[WEIGHT_CACHE_MAX_PATH], new_path[WEIGHT_CACHE_MAX_PATH + 8];
static char cause[WEIGHT_CACHE_MAX_CAUSE];
static uint8_t *panels, *got;
static const struct weight_cache_id id = {1, 2, {3, 4}, {5, 6}, {7, 8}};

static uint64_t rng;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

static int setup(void **state)
{
    (void)state;
    log_setup(LOG_OFF, false, STDERR_FILENO);
    snprintf(folder, sizeof(folder), "/tmp/quire-cache-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/weights", folder);
    snprintf(new_path, sizeof(new_path), "%s.new", path);
    panels = mem_map(BYTES);
    got = mem_map(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        panels[i] = (uint8_t)below(256);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_unmap(panels, BYTES);
    mem_unmap(got, BYTES);
    return rmdir(folder); /* nothing may be left */
}

static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* Wait for the end of the writer: a file, or the name that it was to have gone. */
static bool written(struct weight_cache_writer *w)
{
    const uint64_t end = clock_ms() + 30000;

    assert_non_null(w);
    while (!is_there(path) && clock_ms() < end)
        usleep(1000);
    weight_cache_writer_destroy(&w);
    assert_null(w);
    assert_false(is_there(new_path));
    return is_there(path);
}

static void write_whole(void)
{
    assert_true(written(weight_cache_write(path, &id, panels, BYTES)));
}

static int load_as(const struct weight_cache_id *as, uint64_t bytes)
{
    memset(got, 0, BYTES);
    return weight_cache_load(path, as, got, bytes, 2, cause);
}

static void assert_refused_for(const char *why)
{
    assert_true(load_as(&id, BYTES) < 0);
    if (strstr(cause, why) == NULL)
        fail_msg("'%s' is not in: %s", why, cause);
}

static void assert_good(void)
{
    assert_int_equal(load_as(&id, BYTES), 0);
    assert_memory_equal(got, panels, BYTES);
    assert_string_equal(cause, "");
}

/* Change bytes of the file; what was there is in `old`. */
static void poke(const void *bytes, size_t n, uint64_t at, void *old)
{
    const int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, old, n, (off_t)at), n);
    assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
    close(fd);
}

/* One bit; returns the byte that was there. */
static uint8_t flip(uint64_t at)
{
    uint8_t byte = 0, old, zero;

    poke(&byte, 1, at, &old);
    byte = old ^ (uint8_t)(1u << below(8));
    poke(&byte, 1, at, &zero);
    return old;
}

/* ---- tests ---- */

static void what_is_written_is_read(void **state)
{
    static const uint64_t sizes[] = {1, 4096, WEIGHT_CACHE_CHUNK, WEIGHT_CACHE_CHUNK + 1, BYTES};
    (void)state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_true(written(weight_cache_write(path, &id, panels, sizes[i])));
        for (uint32_t threads = 1; threads <= 4; threads++) {
            memset(got, 0, BYTES);
            assert_int_equal(weight_cache_load(path, &id, got, sizes[i], threads, cause), 0);
            assert_memory_equal(got, panels, sizes[i]);
        }
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(load_as(&id, BYTES), ERR_NOENT);
}

/* Every bit of the header counts, and damage anywhere in the sums and the panels is found. */
static void damage_is_found(void **state)
{
    const uint64_t n_chunks = weight_cache_n_chunks(BYTES);
    struct weight_cache_header h;
    (void)state;

    write_whole();
    for (uint64_t at = 0; at < sizeof(h); at++) {
        const uint8_t old = flip(at);
        uint8_t flipped;

        assert_true(load_as(&id, BYTES) < 0);
        assert_true(cause[0] != '\0');
        poke(&old, 1, at, &flipped);
        assert_true(old != flipped);
    }
    assert_good();
    flip(sizeof(h) + below((uint32_t)n_chunks * 8));
    assert_refused_for("its checksums are damaged");
    for (int i = 0; i < 20; i++) {
        const uint64_t at = below(BYTES);
        char why[64];

        unlink(path);
        write_whole();
        flip(4096 + at);
        snprintf(why, sizeof(why), "chunk %llu is damaged",
                 (unsigned long long)(at / WEIGHT_CACHE_CHUNK));
        assert_refused_for(why);
    }
    unlink(path);
    write_whole();
    assert_good();
    unlink(path);
}

/* A header that is right in itself, but not ours. */
static void poke_header(void (*change)(struct weight_cache_header *h), const char *why)
{
    struct weight_cache_header h, old;
    const int fd = open(path, O_RDONLY);

    assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
    close(fd);
    change(&h);
    h.header_sum = weight_cache_header_sum(&h);
    poke(&h, sizeof(h), 0, &old);
    assert_refused_for(why);
    poke(&old, sizeof(old), 0, &h);
}

#define CHANGE(name, field)                                                                        \
    static void name(struct weight_cache_header *h)                                                \
    {                                                                                              \
        h->field ^= 1;                                                                             \
    }
CHANGE(change_magic, magic[3])
CHANGE(change_order, order)
CHANGE(change_format, format)
CHANGE(change_panels_at, panels_at)
CHANGE(change_panel_bytes, panel_bytes)
CHANGE(change_chunk_bytes, chunk_bytes)
CHANGE(change_size, id.model_bytes)
CHANGE(change_time, id.model_mtime_ns)
CHANGE(change_directory, id.directory[1])
CHANGE(change_samples, id.samples[0])
CHANGE(change_layout, id.layout[1])
CHANGE(change_sums, sums_sum)

static void another_header_is_refused(void **state)
{
    static const struct {
        void (*change)(struct weight_cache_header *h);
        const char *why;
    } cases[] = {
        {change_magic, "not a weight cache"},   {change_order, "another byte order"},
        {change_format, "another format"},      {change_panels_at, "another size"},
        {change_panel_bytes, "another size"},   {change_chunk_bytes, "another size"},
        {change_size, "file has another size"}, {change_time, "another modification time"},
        {change_directory, "another header"},   {change_samples, "other data"},
        {change_layout, "another layout"},      {change_sums, "checksums are damaged"},
    };
    (void)state;

    write_whole();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        poke_header(cases[i].change, cases[i].why);
    assert_good();
    assert_int_equal(load_as(&id, BYTES - 1), ERR_FORMAT);
    assert_string_equal(cause, "the panels have another size");
    unlink(path);
}

static void a_file_of_another_length_is_refused(void **state)
{
    const uint64_t whole = 4096 + BYTES;
    static const uint64_t fixed[] = {0, 1, 119, 120, 121, 143, 144, 4095, 4096, 4097};
    struct stat st;
    (void)state;

    for (size_t i = 0; i < 10 + sizeof(fixed) / sizeof(fixed[0]); i++) {
        write_whole();
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, whole);
        assert_int_equal(st.st_mode & 077, 0);
        assert_int_equal(
            truncate(path, (off_t)(i < 10 ? fixed[i] : below((uint32_t)whole))), 0);
        assert_refused_for("it is truncated");
        unlink(path);
    }
    write_whole();
    assert_int_equal(truncate(path, (off_t)whole + 1), 0);
    assert_refused_for("it is truncated");
    unlink(path);
}

static void other_things_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused_for("not a regular file");
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused_for("not a regular file");
    unlink(path);
    write_whole();
    assert_int_equal(chmod(path, 0660), 0);
    assert_refused_for("other users can write to it");
    assert_int_equal(chmod(path, 0602), 0);
    assert_refused_for("other users can write to it");
    if (geteuid() != 0) { /* root reads everything */
        assert_int_equal(chmod(path, 0), 0);
        assert_refused_for("Permission denied");
    } else {
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_refused_for("other users can write to it");
    }
    unlink(path);
}

static void write_in_vain(void)
{
    struct weight_cache_writer *w = weight_cache_write(path, &id, panels, BYTES);

    assert_non_null(w);
    usleep(50000);
    weight_cache_writer_destroy(&w);
    assert_false(is_there(path));
}

/* Somebody else's lock on the new file: nothing is written, nothing removed. */
static void one_writer_at_a_time(void **state)
{
    const int fd = open(new_path, O_RDWR | O_CREAT, 0600);
    (void)state;

    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    write_in_vain();
    assert_true(is_there(new_path));
    close(fd); /* what a crash leaves behind is written over */
    write_whole();
    assert_good();
    unlink(path);
}

static void not_through_what_others_left(void **state)
{
    char other[128];
    (void)state;

    snprintf(other, sizeof(other), "%s/other", folder);
    assert_int_equal(close(open(other, O_RDWR | O_CREAT, 0600)), 0);
    assert_int_equal(symlink(other, new_path), 0);
    write_in_vain();
    unlink(new_path);
    assert_int_equal(link(other, new_path), 0);
    write_in_vain();
    unlink(new_path);
    unlink(other);
}

/* A file that may not grow stands for a full disk: no cache, no leftovers, and no signal. */
static void a_full_disk_is_survived(void **state)
{
    const struct rlimit small = {1 << 20, RLIM_INFINITY};
    struct rlimit before;
    struct weight_cache_writer *w;
    uint64_t end;
    (void)state;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    w = weight_cache_write(path, &id, panels, BYTES);
    assert_non_null(w);
    usleep(20000);
    for (end = clock_ms() + 30000; is_there(new_path) && clock_ms() < end;)
        usleep(1000);
    assert_false(is_there(new_path));
    weight_cache_writer_destroy(&w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_false(is_there(path));
    snprintf(new_path, sizeof(new_path), "%s/none/weights", folder); /* and a folder that is not */
    w = weight_cache_write(new_path, &id, panels, BYTES);
    weight_cache_writer_destroy(&w);
    snprintf(new_path, sizeof(new_path), "%s.new", path);
}

/* Given up at any moment: all or nothing under the cache's name, nothing under the other. */
static void giving_up_leaves_all_or_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        struct weight_cache_writer *w = weight_cache_write(path, &id, panels, BYTES);

        assert_non_null(w);
        usleep(below(20000));
        weight_cache_writer_destroy(&w);
        assert_false(is_there(new_path));
        if (is_there(path))
            assert_good();
        unlink(path);
    }
    weight_cache_writer_destroy(NULL);
}

static void lack_of_memory_is_survived(void **state)
{
    int64_t n;
    (void)state;

    write_whole();
    for (n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_true((load_as(&id, BYTES) < 0) == (mem_has_failed() != 0));
        mem_fail_after(n);
        if (n == 0)
            assert_null(weight_cache_write(path, &id, panels, BYTES));
        mem_fail_after(-1);
    }
    assert_good();
    unlink(path);
}

static void paths_tell_models_apart(void **state)
{
    char a[WEIGHT_CACHE_MAX_PATH], b[WEIGHT_CACHE_MAX_PATH], *longer;
    (void)state;

    assert_int_equal(weight_cache_path(a, NULL, "/x/model.gguf"), 0);
    assert_string_equal(a, "/x/model.gguf.quire-cache");
    assert_int_equal(weight_cache_path(a, "", "model.gguf"), 0);
    assert_string_equal(a, "model.gguf.quire-cache");
    assert_int_equal(weight_cache_path(a, "/c", "/bin/sh"), 0);
    assert_int_equal(weight_cache_path(b, "/c", "/../bin/sh"), 0);
    assert_string_equal(a, b);
    assert_int_equal(strncmp(a, "/c/sh.", 6), 0);
    longer = calloc(1, WEIGHT_CACHE_MAX_PATH);
    memset(longer, 'x', WEIGHT_CACHE_MAX_PATH - 10);
    assert_int_equal(weight_cache_path(a, NULL, longer), ERR_LIMIT);
    free(longer);
}

/* ---- a model ---- */

static char model_path[128], cache_path[WEIGHT_CACHE_MAX_PATH];

/* A fixture as a file, with a time of our own. */
static void write_model(struct fixture f, int64_t seconds)
{
    const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    struct file file;
    FILE *out = fopen(model_path, "w");

    build(&file, f, NULL);
    assert_non_null(out);
    assert_int_equal(fwrite(file.data, 1, file.bytes, out), file.bytes);
    assert_int_equal(fclose(out), 0);
    drop(&file);
    assert_int_equal(utimensat(AT_FDCWD, model_path, times, 0), 0);
}

static ino_t cache_inode(void)
{
    struct stat st;

    return stat(cache_path, &st) == 0 ? st.st_ino : 0;
}

/* Load it with a cache; was the cache used? The panels are compared with those packed afresh. */
static bool load_cached(void)
{
    const struct model_options cached = {.threads = 2, .weight_cache = folder};
    const uint64_t end = clock_ms() + 30000;
    const ino_t before = cache_inode();
    struct gguf *g;
    struct model *m, *fresh;
    bool is_cached;

    assert_int_equal(gguf_open(&g, model_path, err, sizeof(err)), 0);
    fresh = load(g, &plain);
    m = load(g, &cached);
    gguf_close(&g);
    is_cached = m->is_cached;
    assert_false(fresh->is_cached);
    for (uint32_t i = 0; i < m->shape.n_layer; i++) {
        const struct matrix *a = &m->layers[i].ffn.down, *b = &fresh->layers[i].ffn.down;

        assert_memory_equal(a->data, b->data, a->n_panels * a->panel_bytes);
    }
    assert_memory_equal(m->embed.data, fresh->embed.data, m->embed.n_panels * m->embed.panel_bytes);
    assert_memory_equal(m->output_norm.weight, fresh->output_norm.weight,
                        m->shape.n_embd * sizeof(float));
    while (!is_cached && clock_ms() < end && cache_inode() == before) /* renamed when done */
        usleep(1000);
    model_destroy(&fresh);
    model_destroy(&m);
    return is_cached;
}

static void change_data(uint64_t from_end)
{
    const struct timespec times[2] = {{1000, 0}, {1000, 0}};
    const int fd = open(model_path, O_RDWR);
    const off_t at = lseek(fd, 0, SEEK_END) - (off_t)from_end;
    uint8_t byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, model_path, times, 0), 0);
}

static void a_model_is_packed_once(void **state)
{
    struct fixture f = fixture_small(), other = fixture_small();
    (void)state;

    snprintf(model_path, sizeof(model_path), "%s/model.gguf", folder);
    f.type = BLOCK_Q8_0;
    write_model(f, 1000);
    assert_int_equal(weight_cache_path(cache_path, folder, model_path), 0);
    assert_false(load_cached());
    assert_true(load_cached());
    assert_true(load_cached());
    change_data(100); /* in the last sample, size and time as they were */
    unlink(cache_path);
    assert_false(load_cached());
    change_data(100);
    assert_false(load_cached());
    assert_true(load_cached());
    write_model(f, 2000); /* the same model at another time */
    assert_false(load_cached());
    assert_true(load_cached());
    other.type = BLOCK_F16; /* another model by the same name */
    write_model(other, 2000);
    assert_false(load_cached());
    assert_true(load_cached());
    assert_int_equal(truncate(cache_path, 10000), 0);
    assert_false(load_cached());
    assert_true(load_cached());
    unlink(cache_path);
    unlink(model_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(another_header_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_of_another_length_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(other_things_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(one_writer_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(not_through_what_others_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(giving_up_leaves_all_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(lack_of_memory_is_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(paths_tell_models_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_model_is_packed_once, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
