/* tests/fuzz/replay.c - a main for fuzz targets without libFuzzer: files through the target, once.
 *
 *     build/debug/replay/fuzz_gbnf [FILE or FOLDER]...
 *
 * Without arguments: tests/fuzz/corpus/NAME, NAME being the program's own. An input that takes more
 * than MAX_S seconds ends the program by SIGALRM.
 */
#include <dirent.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/target.h"

#define MAX_PATH 4096
#define MAX_S 60 /* 2 s are the bound under libFuzzer; sanitizers and loaded machines take longer */

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static int replay_file(const char *path, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    FILE *f = fopen(path, "rb");
    size_t n = 0;

    if (f != NULL && bytes != NULL) {
        n = fread(bytes, 1, size, f);
        printf("%s\n", path); /* the last one printed is the one that failed */
        fflush(stdout);
        alarm(MAX_S);
        LLVMFuzzerTestOneInput(bytes, n);
        alarm(0);
    }
    if (f == NULL || n != size)
        fprintf(stderr, "%s: cannot be read\n", path);
    if (f != NULL)
        fclose(f);
    free(bytes);
    return n == size ? 1 : -1;
}

/* How many inputs, or -1. */
static int replay(const char *path)
{
    struct dirent **names;
    struct stat st;
    int n_names, n = 0;

    if (stat(path, &st) < 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t)st.st_size);
    n_names = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n_names; i++) {
        char below[MAX_PATH];
        int more = 0;

        snprintf(below, sizeof(below), "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            more = replay(below);
        n = more < 0 || n < 0 ? -1 : n + more;
        free(names[i]);
    }
    if (n_names >= 0)
        free(names);
    return n_names < 0 ? -1 : n;
}

int main(int argc, char **argv)
{
    char own[MAX_PATH];
    int sum = 0;

    if (LLVMFuzzerInitialize != NULL)
        LLVMFuzzerInitialize(&argc, &argv);
    snprintf(own, sizeof(own), "tests/fuzz/corpus/%s", basename(argv[0]));
    for (int i = argc > 1 ? 1 : 0; i < argc; i++) {
        const int n = replay(i == 0 ? own : argv[i]);

        if (n <= 0) {
            fprintf(stderr, "%s: no input, or not readable\n", i == 0 ? own : argv[i]);
            return 1;
        }
        sum += n;
    }
    printf("%d inputs\n", sum);
    return 0;
}
