/* tests/tools/splits.c - cuts texts by the rules of a family, for tests that compare with others.
 *
 * splits: prints the name that stands for each list of rules. splits NAME: reads texts from
 * standard input, each ended by a NUL byte, and prints for each the bytes of its words, a line a
 * text, then on a last line how many characters were looked at.
 */
#include "core/base/buf.h"
#include "core/tokenizer/pretokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_names(void)
{
    for (size_t i = 0; pretokenizer_name(i) != NULL; i++) {
        bool is_new = true;

        for (size_t k = 0; k < i; k++)
            is_new = is_new && !pretokenizer_same_rules((int)k, (int)i);
        if (is_new)
            puts(pretokenizer_name(i));
    }
}

static void print_words(struct pretokenizer_run *run, const char *text, size_t n)
{
    pretokenizer_begin(run, text, n);
    for (size_t at = 0; at < n;) {
        const size_t end = pretokenizer_next(run);

        printf(at > 0 ? " %zu" : "%zu", end - at);
        at = end;
    }
    putchar('\n');
}

static int cut_all(struct pretokenizer_run *run)
{
    struct buf in;
    char chunk[65536];

    buf_init(&in, (size_t)1 << 28);
    for (size_t n; (n = fread(chunk, 1, sizeof(chunk), stdin)) > 0;)
        buf_add(&in, chunk, n);
    for (size_t at = 0; in.err == 0 && at < in.len;) {
        const size_t n = strnlen(in.data + at, in.len - at);

        print_words(run, in.data + at, n);
        at += n + 1;
    }
    buf_release(&in);
    printf("%" PRIu64 "\n", pretokenizer_steps(run));
    return in.err == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct pretokenizer *p;
    struct pretokenizer_run *run;
    int number, code;

    if (argc < 2) {
        print_names();
        return 0;
    }
    number = pretokenizer_find(argv[1], strlen(argv[1]));
    if (number < 0 || pretokenizer_create(&p, number) != 0 ||
        pretokenizer_run_create(&run, p) != 0) {
        fprintf(stderr, "no rules are called %s\n", argv[1]);
        return 2;
    }
    code = cut_all(run);
    pretokenizer_run_destroy(&run);
    pretokenizer_destroy(&p);
    return code;
}
