/* tests/fuzz/fuzz_safetensors.c - libFuzzer: the safetensors files of a folder, and their index.
 *
 * The input is a list of files: which (1 byte: 0 model.safetensors, 1 the index, 2 and 3 the
 * shards; with FRAMED set, the length of the header is put in front and so many zeros as the next
 * byte says, times 8, behind), how long (2 bytes), and the bytes.
 *
 * Of what is accepted, each tensor lies in a file of the folder, behind the header and with all its
 * bytes, no name comes twice, and the index says the same.
 */
#include "tests/fuzz/scratch.h"

#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/formats/hf_folder.h"
#include "core/formats/safetensors/safetensors.h"

#define FRAMED 0x80
#define MAX_FILE 8192

static const char *const names[] = {SAFETENSORS_ONE, SAFETENSORS_INDEX, "a.safetensors",
                                    "b.safetensors"};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

static void put_file(const uint8_t **data, size_t *n)
{
    static uint8_t file[8 + MAX_FILE + 8 * 255];
    const uint32_t kind = scratch_number(data, n, 1);
    const size_t zeros = kind & FRAMED ? 8 * scratch_number(data, n, 1) : 0;
    size_t len = scratch_number(data, n, 2);

    len = len < *n ? len : *n;
    len = len < MAX_FILE ? len : MAX_FILE;
    memset(file, 0, sizeof(file));
    for (size_t i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)len >> 8 * i);
    memcpy(file + 8, *data, len);
    if (kind & FRAMED)
        scratch_write(names[kind % N_NAMES], file, 8 + len + zeros);
    else
        scratch_write(names[kind % N_NAMES], file + 8, len);
    *data += len;
    *n -= len;
}

static uint64_t type_bytes(const char *type)
{
    const size_t n = strlen(type);

    if (strcmp(type, "BOOL") == 0 || type[n - 1] == '8' || type[1] == '8')
        return 1;
    return type[n - 1] == '6' ? 2 : type[n - 1] == '2' ? 4 : 8;
}

/* Where the data of a file begins, and where it ends. */
static void span_of(const char *name, uint64_t *begin, uint64_t *end)
{
    const int fd = open(scratch_path(name), O_RDONLY | O_CLOEXEC);
    uint8_t length[8];
    struct stat st;

    require(fd >= 0 && fstat(fd, &st) == 0 && read(fd, length, 8) == 8);
    close(fd);
    *begin = 0;
    for (int i = 7; i >= 0; i--)
        *begin = *begin << 8 | length[i];
    *begin += 8;
    *end = (uint64_t)st.st_size;
    require(*begin <= *end);
}

static void check_tensor(const struct safetensors *s, const struct safetensor *t)
{
    uint64_t begin, end, bytes = type_bytes(t->type);

    require(t->file < s->n_files);
    span_of(s->files[t->file], &begin, &end);
    require(t->offset >= begin && t->offset <= end);
    if (t->n_dims == UINT32_MAX)
        return;
    require(t->n_dims <= SAFETENSORS_MAX_DIMS);
    for (uint32_t d = 0; d < t->n_dims; d++)
        require(!__builtin_mul_overflow(bytes, t->dims[d], &bytes));
    require(bytes <= end - t->offset);
}

static void check(const struct safetensors *s)
{
    const cJSON *map = s->index != NULL ? hf_member(s->index, "weight_map") : NULL, *m;
    size_t n = 0;

    require(s->n_files > 0);
    for (uint32_t i = 0; i < s->n_files; i++) {
        const char *dot = strrchr(s->files[i], '.');

        require(strchr(s->files[i], '/') == NULL && strcmp(dot, ".safetensors") == 0);
        require(i == 0 || strcmp(s->files[i - 1], s->files[i]) < 0);
    }
    for (size_t i = 0; i < s->n_items; i++) {
        check_tensor(s, &s->items[i]);
        require(i == 0 || strcmp(s->items[i - 1].name, s->items[i].name) < 0);
        m = map != NULL ? hf_member(map, s->items[i].name) : NULL;
        require(map == NULL || strcmp(m->valuestring, s->files[s->items[i].file]) == 0);
    }
    cJSON_ArrayForEach(m, map)
        n++;
    require(map == NULL || n == s->n_items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char err[300] = "";
    const struct hf_folder f = {.path = scratch_folder(), .forced_pre = "", .err = err,
                                .err_len = sizeof(err)};
    struct safetensors s;

    for (size_t i = 0; i < N_NAMES; i++)
        scratch_unlink(names[i]);
    for (size_t i = 0; i < N_NAMES && n > 0; i++)
        put_file(&data, &n);
    if (safetensors_read(&s, &f) == 0)
        check(&s);
    else
        require(strncmp(err, f.path, strlen(f.path)) == 0);
    safetensors_release(&s);
    return 0;
}
