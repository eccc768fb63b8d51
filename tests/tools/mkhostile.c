/* tests/tools/mkhostile.c - write the broken model files of hostile.h into a folder.
 *
 *   mkhostile FOLDER
 *
 * They are called 0000.gguf upwards. Each line of the file `index` is about one of them: its name,
 * who has to refuse it (`reader` or, as it is a well-formed file, `loader`), and what is wrong.
 */
#include "tests/tools/hostile.h"

#include <stdio.h>

struct folder {
    const char *path;
    FILE *index;
    int n;
    bool failed;
};

/* Does the reader refuse it already? */
static bool is_malformed(const uint8_t *bytes, size_t n)
{
    uint8_t *aligned = mem_dup(bytes, n);
    struct gguf *g = NULL;
    char err[256];
    const bool refused =
        aligned != NULL && gguf_open_memory(&g, "", aligned, n, err, sizeof(err)) < 0;

    gguf_close(&g);
    mem_free(aligned);
    return refused;
}

static void save(void *ud, const char *what, const uint8_t *bytes, size_t n)
{
    struct folder *f = ud;
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%04d.gguf", f->path, f->n);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, n, file) != n)
        f->failed = true;
    if (file != NULL && fclose(file) != 0)
        f->failed = true;
    if (fprintf(f->index, "%04d.gguf %s %s\n", f->n, is_malformed(bytes, n) ? "reader" : "loader",
                what) < 0)
        f->failed = true;
    f->n++;
}

int main(int argc, char **argv)
{
    struct folder f = {0};
    char path[4096];

    if (argc != 2) {
        fputs("usage: mkhostile FOLDER\n", stderr);
        return 2;
    }
    f.path = argv[1];
    snprintf(path, sizeof(path), "%s/index", f.path);
    f.index = fopen(path, "w");
    if (f.index == NULL) {
        perror(path);
        return 1;
    }
    if (hostile_each(save, &f) < 0)
        f.failed = true;
    if (fclose(f.index) != 0)
        f.failed = true;
    if (f.failed)
        fprintf(stderr, "mkhostile: cannot write into %s\n", f.path);
    return f.failed;
}
