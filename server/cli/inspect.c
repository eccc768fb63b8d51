/* server/cli/inspect.c - `quire inspect FILE`: shows the contents of a GGUF file, and checks that
 * it can be served.
 *
 * It prints the keys, values and tensors that the file's header lists. Texts come from the file, so
 * control bytes are replaced before they are printed.
 */
#include "server/cli/command.h"

#include "core/formats/gguf/gguf.h"
#include "core/hub/pull.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/api_request.h"
#include "server/api/chat/chat.h"
#include "server/api/response/response_writer.h"
#include "server/api/server_options.h"
#include "server/models/instance.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_ELEMENTS 4
#define SHOWN_BYTES 72

/* Print with dots for control bytes; long strings are cut. */
static void print_text(struct gguf_str s)
{
    const size_t n = s.len < SHOWN_BYTES ? s.len : SHOWN_BYTES;

    putchar('"');
    for (size_t i = 0; i < n; i++)
        putchar((unsigned char)s.data[i] < 0x20 ? '.' : s.data[i]);
    printf(s.len > n ? "…\" (%zu bytes)" : "\"", s.len);
}

static void print_element(const struct gguf_kv *kv, uint64_t i)
{
    switch (kv->elem) {
    case GGUF_STRING:
        print_text(gguf_array_str(kv, i));
        break;
    case GGUF_F32:
    case GGUF_F64:
        printf("%g", (double)gguf_array_f32(kv, i));
        break;
    default:
        printf("%" PRId64, gguf_array_int(kv, i));
        break;
    }
}

static void print_value(const struct gguf *g, const struct gguf_kv *kv)
{
    struct gguf_kv scalar = *kv;
    struct gguf_str text;
    char key[GGUF_MAX_NAME], err[8];

    if (kv->type == GGUF_ARRAY) {
        printf("%s[%" PRIu64 "] ", gguf_type_name(kv->elem), kv->count);
        for (uint64_t i = 0; i < kv->count && i < SHOWN_ELEMENTS; i++) {
            fputs(i > 0 ? ", " : "", stdout);
            print_element(kv, i);
        }
        fputs(kv->count > SHOWN_ELEMENTS ? ", …" : "", stdout);
    } else if (kv->type == GGUF_STRING) {
        snprintf(key, sizeof(key), "%.*s", (int)kv->key.len, kv->key.data);
        if (gguf_get_str(g, key, &text, err, sizeof(err)) == 0)
            print_text(text);
    } else {
        scalar.elem = kv->type;
        print_element(&scalar, 0);
    }
}

static uint64_t print_tensors(const struct gguf *g)
{
    uint64_t n_params = 0;

    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        uint64_t n = 1;

        printf("  %-36.*s %-5s", (int)t->name.len, t->name.data, block_format(t->type)->name);
        for (uint32_t d = 0; d < t->n_dims; d++) {
            printf("%s%" PRIu64, d > 0 ? " x " : " ", t->dims[d]);
            n *= t->dims[d];
        }
        printf("  (%" PRIu64 " bytes)\n", t->bytes);
        n_params += n;
    }
    return n_params;
}

/* Print the parts of a set, or the files with the tensors. */
static void print_files(const struct gguf *g)
{
    for (uint32_t i = 0; i < gguf_n_files(g) && gguf_n_files(g) > 1; i++) {
        const struct gguf_file f = gguf_file_at(g, i);

        printf("  %s: %" PRIu64 " bytes, %" PRIu64 " tensors\n", f.name, f.bytes, f.n_tensors);
    }
}

/* Print "chat templates: default, tool_use": the values of the setting chat_template_name. */
static void print_templates(const struct gguf *g)
{
    static const char key[] = "tokenizer.chat_template";
    uint32_t n_shown = 0;

    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_str s = gguf_kv_at(g, i)->key;
        const size_t n = strlen(key);
        const bool is_default = s.len == n && memcmp(s.data, key, n) == 0;

        if (!is_default && (s.len <= n + 1 || memcmp(s.data, key, n) != 0 || s.data[n] != '.'))
            continue;
        if (s.len == n + 7 && memcmp(s.data + n, ".rerank", 7) == 0) /* a template for reranking,
                                                                      * not for chats */
            continue;
        fputs(n_shown++ == 0 ? "chat templates: " : ", ", stdout);
        if (is_default)
            fputs("default", stdout);
        else
            printf("%.*s", (int)(s.len - n - 1), s.data + n + 1);
    }
    if (n_shown > 0)
        putchar('\n');
}

/* Print "tool_call_parser: qwen3_coder": the parser that the setting's value auto selects for the
 * model's own templates. */
static void print_parser(const struct chat *chat)
{
    const char *parser = chat_tool_parser(chat);

    printf("tool_call_parser: %s%s\n", parser,
           strcmp(parser, "none") == 0 ? " (tool calls are not parsed)" : "");
    if (chat_complaint(chat) != NULL)
        printf("chat template unusable: %s\n", chat_complaint(chat));
}

/* Print "decisions: through the chat template", or why the template cannot ask one: a question is
 * parsed as the server would parse it. */
static void print_decisions(const struct tokenizer *t, const struct chat *chat)
{
    static char question[] = "{\"input\":\"x\",\"questions\":[{\"type\":\"predicate\","
                             "\"instructions\":\"x\"}]}";
    const struct server_model model = {.id = "this model",
                                       .max_context = INT32_MAX,
                                       .max_kv_tokens = INT32_MAX,
                                       .n_vocab = tokenizer_n_vocab(t),
                                       .tokenizer = t,
                                       .chat = chat};
    const struct buf body = {.data = question, .len = sizeof(question) - 1};
    struct api_request p = {0};

    api_request_parse(&p, &model, &wire_openai_decisions, &body, NULL, NULL);
    printf("decisions: %s\n", p.error.status == 0 ? "through the chat template" : p.error.message);
    api_request_release(&p);
}

/* Print the type of a model that was trained for decisions. False: it was not. */
static bool print_trained(const struct gguf *g)
{
    struct gguf_str arch, type;
    char key[GGUF_MAX_NAME], err[8];

    if (gguf_get_str(g, "general.architecture", &arch, err, sizeof(err)) < 0)
        return false;
    snprintf(key, sizeof(key), "%.*s.decision.type", (int)arch.len, arch.data);
    if (gguf_get_str(g, key, &type, err, sizeof(err)) < 0)
        return false;
    fputs("decisions: trained, of the type ", stdout);
    print_text(type);
    putchar('\n');
    return true;
}

/* Print what follows from the model's own chat template. Nothing is printed for a model without
 * one. */
static void print_chat(const struct gguf *g)
{
    const bool is_trained = print_trained(g);
    const struct chat_options options = {.template = "", .name = ""};
    struct tokenizer *t;
    struct chat *chat = NULL;
    const char *name;
    char err[512];

    if (tokenizer_create(&t, g, err, sizeof(err)) < 0)
        return;
    if (tokenizer_chat_template(t, 0, &name) != NULL &&
        chat_create(&chat, &options, t, err, sizeof(err)) == 0) {
        print_parser(chat);
        if (!is_trained && chat_complaint(chat) == NULL)
            print_decisions(t, chat);
    }
    chat_destroy(&chat);
    tokenizer_destroy(&t);
}

static void print_verdict(size_t state_bytes)
{
    puts("can be served");
    if (state_bytes > 0)
        printf("recurrent layers: a sequence's state takes %zu bytes, whatever its length\n",
               state_bytes);
}

int cmd_inspect(int argc, char **argv)
{
    struct gguf *g;
    char err[512];
    char path[HUB_MAX_FOUND];
    uint64_t n_params;
    size_t state_bytes;
    int code;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        puts("quire inspect FILE   check a model, and print its keys and tensors and whether it "
             "can\n"
             "                     be served\n"
             "FILE is a GGUF file, the folder of a model, hf:OWNER/NAME:QUANT for a model of the\n"
             "Hugging Face Hub, or '' for the built-in demo model. The weights are not read. If "
             "the\n"
             "model cannot be served, the key, tensor or type that is the reason is printed, and "
             "the\n"
             "exit code is 1.");
        return EXIT_OK;
    }
    if (argc != 2)
        return command_fail(EXIT_USAGE, "usage: quire inspect FILE");
    code = command_model_path(argv[1], hub_pull, path, sizeof(path));
    if (code != EXIT_OK)
        return code;
    if (instance_open_gguf(&g, path, "", err, sizeof(err)) < 0)
        return command_fail(EXIT_FAILED, "%s", err);
    printf("%s: GGUF version %u, %" PRIu64 " bytes\n", gguf_name(g), gguf_version(g),
           gguf_file_bytes(g));
    print_files(g);
    printf("%" PRIu64 " keys\n", gguf_n_kv(g));
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);

        printf("  %-36.*s ", (int)kv->key.len, kv->key.data);
        print_value(g, kv);
        putchar('\n');
    }
    printf("%" PRIu64 " tensors\n", gguf_n_tensors(g));
    n_params = print_tensors(g);
    printf("%" PRIu64 " parameters\n", n_params);
    print_templates(g);
    fflush(stdout);
    if (gguf_check_unchanged(g, err, sizeof(err)) < 0)
        code = command_fail(EXIT_FAILED, "%s", err);
    else if (instance_check_model(g, &state_bytes, err, sizeof(err)) < 0)
        code = command_fail(EXIT_FAILED, "cannot be served: %s", err);
    else {
        print_chat(g);
        print_verdict(state_bytes);
    }
    gguf_close(&g);
    return code;
}
