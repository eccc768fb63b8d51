/* tests/tools/ends.c - which tokens end a generation: `ends FILE ...`, GGUF files or model folders.
 *
 * Prints one line for each: the ids, ascending, as a JSON list; or the sentence why there are none.
 */
#include "server/models/instance.h"

#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/tokenizer.h"

#include <stdio.h>

static void print_ends(const char *path)
{
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    const int32_t *ids;
    char err[512];
    size_t n;

    if (instance_open_gguf(&g, path, "", err, sizeof(err)) < 0 ||
        tokenizer_create(&t, g, err, sizeof(err)) < 0) {
        puts(err);
    } else {
        ids = tokenizer_eog(t, &n);
        putchar('[');
        for (size_t i = 0; i < n; i++)
            printf(i > 0 ? ", %d" : "%d", ids[i]);
        puts("]");
    }
    tokenizer_destroy(&t);
    gguf_close(&g);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        print_ends(argv[i]);
    return 0;
}
