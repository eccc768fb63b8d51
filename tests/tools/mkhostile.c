/* tests/tools/mkhostile.c - write the broken model files of hostile.h into a folder.
 *
 *   mkhostile FOLDER
 *
 * They are called 0000.gguf upwards; the file `index` says in each line what is wrong with one.
 */
#include "tests/tools/hostile.h"

#include <stdio.h>

struct folder {
    const char *path;
    FILE *index;
    int n;
    bool failed;
};

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
    if (fprintf(f->index, "%04d.gguf %s\n", f->n, what) < 0)
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
