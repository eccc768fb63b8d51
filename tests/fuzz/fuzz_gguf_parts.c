/* tests/fuzz/fuzz_gguf_parts.c - libFuzzer: a split model, of which any part may be anything.
 *
 * The input is a list of parts: which (1 byte), how long (2 bytes), and the bytes. All parts are
 * tried as the one that is given. What opens is the same set from whichever part: each tensor lies
 * in one of the files, once, and the files' counts add up.
 */
#include "tests/fuzz/scratch.h"

#include "core/formats/gguf/gguf.h"

#define MOST 4 /* parts; names are those of sets of 1 to 3 */

static const char *const names[] = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf",
                                    "m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                    "m-00003-of-00003.gguf", "m-00001-of-00001.gguf"};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

static void put_part(const uint8_t **data, size_t *n)
{
    const uint32_t which = scratch_number(data, n, 1) % N_NAMES;
    size_t len = scratch_number(data, n, 2);

    len = len < *n ? len : *n;
    scratch_write(names[which], *data, len);
    *data += len;
    *n -= len;
}

static bool is_inside(const struct gguf *g, const struct gguf_tensor *t)
{
    for (uint32_t i = 0; i < gguf_n_files(g); i++) {
        const struct gguf_file f = gguf_file_at(g, i);
        const uint64_t at = (uint64_t)((uintptr_t)t->data - (uintptr_t)f.data);

        if (at <= f.bytes && t->bytes <= f.bytes - at)
            return at >= f.data_at;
    }
    return false;
}

static void check(const struct gguf *g)
{
    uint64_t n = 0, bytes = 0;

    for (uint32_t i = 0; i < gguf_n_files(g); i++) {
        n += gguf_file_at(g, i).n_tensors;
        bytes += gguf_file_at(g, i).bytes;
    }
    require(n == gguf_n_tensors(g) && bytes == gguf_file_bytes(g));
    for (uint64_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        static volatile uint8_t sum;
        char name[128];

        require(t->name.len < sizeof(name) && is_inside(g, t));
        memcpy(name, t->name.data, t->name.len);
        name[t->name.len] = '\0';
        require(strlen(name) != t->name.len || gguf_tensor_find(g, name) == t);
        for (uint64_t at = 0; at < t->bytes; at++)
            sum = (uint8_t)(sum + ((const uint8_t *)t->data)[at]);
    }
}

/* What opens from one part opens from each. */
static void check_others(const struct gguf *g)
{
    char err[600] = "";

    for (uint32_t i = 0; i < gguf_n_files(g); i++) {
        struct gguf *other;

        require(gguf_open(&other, gguf_file_at(g, i).name, err, sizeof(err)) == 0);
        require(strcmp(gguf_name(other), gguf_name(g)) == 0);
        require(gguf_n_files(other) == gguf_n_files(g));
        require(gguf_n_tensors(other) == gguf_n_tensors(g));
        gguf_close(&other);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char err[600];

    for (int i = 0; i < N_NAMES; i++)
        scratch_unlink(names[i]);
    for (int i = 0; i < MOST && n > 0; i++)
        put_part(&data, &n);
    for (int i = 0; i < N_NAMES; i++) {
        const char *path = scratch_path(names[i]);
        struct gguf *g;

        if (gguf_open(&g, path, err, sizeof(err)) == 0) {
            check(g);
            check_others(g);
        } else {
            require(g == NULL && strncmp(err, scratch_folder(), strlen(scratch_folder())) == 0);
        }
        gguf_close(&g);
    }
    return 0;
}
