/* server/cli/tokenize.c - `quire tokenize`: prints the tokens of standard input. */
#include "server/cli/command.h"

#include "config/models.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/formats/gguf/gguf.h"
#include "core/hub/pull.h"
#include "core/tokenizer/tokenizer.h"
#include "server/models/instance.h"

#include <stdio.h>
#include <string.h>

#define MAX_INPUT ((size_t)1 << 30)

static void print_tokens(const struct tokenizer *t, const struct token_list *list, bool only_ids)
{
    for (size_t i = 0; i < list->n; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, list->ids[i], &n);

        if (only_ids)
            printf(i > 0 ? " %d" : "%d", list->ids[i]);
        else
            printf("%8d  '%.*s'\n", list->ids[i], (int)n, piece);
    }
    if (only_ids)
        putchar('\n');
}

static int tokenize(const char *path, const char *pre, bool only_ids, unsigned flags)
{
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    struct token_list list = {0};
    struct buf text;
    char err[512];
    int rc, code = EXIT_FAILED;

    buf_init(&text, MAX_INPUT);
    rc = instance_open_gguf(&g, path, pre, err, sizeof(err));
    if (rc == 0)
        rc = tokenizer_create_as(&t, g, pre, err, sizeof(err));
    if (g != NULL && gguf_check_unchanged(g, err, sizeof(err)) < 0)
        rc = ERR_IO;
    if (rc < 0) {
        command_fail(EXIT_FAILED, "%s", err);
        goto done;
    }
    rc = file_read_stream(stdin, &text);
    if (rc == 0)
        rc = tokenizer_encode(t, text.data != NULL ? text.data : "", text.len, flags, SIZE_MAX,
                              NULL, &list);
    if (rc < 0) {
        command_fail(EXIT_FAILED, "standard input: %s", err_text(rc));
        goto done;
    }
    print_tokens(t, &list, only_ids);
    code = EXIT_OK;

done:
    token_list_release(&list);
    buf_release(&text);
    tokenizer_destroy(&t);
    gguf_close(&g);
    return code;
}

int cmd_tokenize(int argc, char **argv)
{
    const char *model = "", *pre = "";
    bool only_ids, no_special;
    struct model_item item;
    char err[1024];
    int code;

    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h")) {
        puts("quire tokenize [--model FILE] [--tokenizer-pre NAME] [--ids] [--no-special] < TEXT\n"
             "Splits standard input into tokens, and prints each with its id.\n"
             "  --model FILE          GGUF file with a vocabulary; it needs no tensors [the demo]\n"
             "  --tokenizer-pre NAME  pre-tokenizer instead of the file's, such as gpt-2\n"
             "  --ids                 print only the ids, separated by spaces\n"
             "  --no-special          add no BOS or EOS, and treat special tokens as plain text");
        return EXIT_OK;
    }
    only_ids = command_take_switch(&argc, argv, "--ids");
    no_special = command_take_switch(&argc, argv, "--no-special");
    if (!command_take_value(&argc, argv, "--model", &model) ||
        !command_take_value(&argc, argv, "--tokenizer-pre", &pre))
        return EXIT_USAGE;
    if (argc != 1)
        return command_fail(EXIT_USAGE, "unexpected argument '%s'; see quire tokenize --help",
                            argv[1]);
    if (instance_one_model(&item, model, err, sizeof(err)) != EXIT_OK)
        return command_fail(EXIT_USAGE, "%s", err);
    code = command_model_path(item.path, hub_pull, item.path, sizeof(item.path));
    if (code != EXIT_OK)
        return code;
    return tokenize(item.path, pre, only_ids,
                    no_special ? 0 : TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL);
}
