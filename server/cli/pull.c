/* server/cli/pull.c - `quire pull`: fetches models of the Hugging Face Hub, and prints their
 * paths. */
#include "server/cli/command.h"

#include "core/hub/pull.h"
#include "core/hub/reference.h"
#include "server/models/instance.h"

#include <stdio.h>
#include <string.h>

static void print_pull_help(void)
{
    fputs(
        "quire pull [--offline] hf:OWNER/NAME[@REVISION][:QUANT|FILE] ...\n"
        "\n"
        "Downloads the missing files of a model of the Hugging Face Hub into the cache of the\n"
        "Hub's own clients, checks them, and prints the path: a GGUF file, or a folder. The same\n"
        "name is accepted wherever a model is (--model hf:OWNER/NAME:QUANT), and an adapter's in\n"
        "--adapters NAME=hf:OWNER/NAME.\n"
        "\n"
        "  @REVISION   a branch, a tag or a commit [main]\n"
        "  :QUANT      the GGUF file of this quantization, such as Q8_0, if there are several\n"
        "              [Q4_K_M, else Q8_0, else the first]\n"
        "  :FILE       the path of a GGUF file in the repository\n"
        "  :safetensors the folder of weights, if there are GGUF files too\n"
        "  --offline   do not use the network: only files that were downloaded before\n"
        "\n"
        "Environment, as for the Hub's own clients: HF_TOKEN (else the file of `hf auth login`),\n"
        "HF_HUB_CACHE, HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE; https_proxy and no_proxy;\n"
        "CURL_CA_BUNDLE or SSL_CERT_FILE, a file of certificates to trust.\n",
        stdout);
}

int cmd_pull(int argc, char **argv)
{
    const bool is_question =
        command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h");
    const bool is_offline = command_take_switch(&argc, argv, "--offline");
    char path[HUB_MAX_FOUND];
    int code = EXIT_OK;

    if (is_question)
        return print_pull_help(), EXIT_OK;
    if (argc < 2)
        return command_fail(EXIT_USAGE, "usage: quire pull [--offline] hf:OWNER/NAME[:QUANT]");
    for (int i = 1; i < argc && code == EXIT_OK; i++) {
        if (!hub_reference_is(argv[i]))
            return command_fail(EXIT_USAGE,
                                "'%s' is not a model of the Hub, which is hf:OWNER/NAME[:QUANT]",
                                argv[i]);
        code = command_model_path(argv[i], is_offline ? hub_cached : hub_pull, path, sizeof(path));
        if (code == EXIT_OK)
            puts(path);
    }
    return code;
}
