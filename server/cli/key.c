/* server/cli/key.c - `quire key`: makes an API key, and its entry for the file of keys.
 *
 * The key is printed once and stored nowhere; the entry has only its hash. The entry is checked
 * with the parser of the file (key_file.h) before it is printed.
 */
#include "server/cli/command.h"

#include "core/base/err.h"
#include "server/auth/key_file.h"
#include "server/models/instance.h"

#include <stdio.h>
#include <string.h>

/* The options of the command have the names of the file's fields, with dashes. */
static const char *const fields[] = {
    "tenant",         "weight", "max_priority", "requests_per_minute", "tokens_per_minute",
    "tokens_per_day", "tokens_per_month", "max_concurrent",
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

struct wanted {
    const char *name;
    const char *value[N_FIELDS];
    bool is_admin;
};

static void print_key_help(void)
{
    fputs("quire key --name NAME [options] >> FILE\n"
          "\n"
          "Makes an API key. The key is printed once, on standard error, and is not stored.\n"
          "Its entry for the file of keys (setting api_keys) is printed on standard output.\n"
          "\n"
          "  --name                 the key's name, for logs\n"
          "  --tenant               the tenant of requests with this key [the key's name]\n"
          "  --weight               the tenant's share, from 1 to 1000 [as in tenant_weights]\n"
          "  --max-priority         highest priority; higher ones are lowered to it [critical]\n"
          "  --requests-per-minute  most requests per minute; 0: no limit [0]\n"
          "  --tokens-per-minute    most tokens per minute; 0: no limit [0]\n"
          "  --tokens-per-day       most tokens per calendar day (UTC); 0: no limit [0]\n"
          "  --tokens-per-month     most tokens per calendar month (UTC); 0: no limit [0]\n"
          "  --max-concurrent       most requests at a time; each choice counts; 0: no limit [0]\n"
          "  --admin                the key may also read /debug, /metrics and the like\n",
          stdout);
}

static bool take_fields(struct wanted *w, int *argc, char **argv)
{
    bool ok = command_take_value(argc, argv, "--name", &w->name);

    for (size_t i = 0; ok && i < N_FIELDS; i++) {
        char flag[40];

        snprintf(flag, sizeof(flag), "--%s", fields[i]);
        for (char *p = flag + 2; *p != '\0'; p++)
            *p = *p == '_' ? '-' : *p;
        ok = command_take_value(argc, argv, flag, &w->value[i]);
    }
    w->is_admin = command_take_switch(argc, argv, "--admin");
    return ok;
}

/* Check the fields by the rules of the file, so that a server can read the entry. */
static int check_key_fields(const struct wanted *w)
{
    struct key_spec spec = {0};
    const char *allowed;

    if (w->name == NULL || !key_file_is_name(w->name, KEY_NAME_MAX))
        return command_fail(
            EXIT_USAGE,
            "--name must have 1 to %d visible characters other than []\";#,=", KEY_NAME_MAX);
    for (size_t i = 0; i < N_FIELDS; i++)
        if (w->value[i] != NULL && key_spec_set(&spec, fields[i], w->value[i], &allowed) < 0)
            return command_fail(EXIT_USAGE, "the key's %s must be %s, got '%s'", fields[i], allowed,
                                w->value[i]);
    return EXIT_OK;
}

static void print_entry(const struct wanted *w, const struct secret_hash *hash)
{
    char hex[SECRET_HEX];

    secret_to_hex(hash, hex);
    printf("[%s]\n", w->name);
    for (size_t i = 0; i < N_FIELDS; i++)
        if (w->value[i] != NULL)
            printf("%s = %s\n", fields[i], w->value[i]);
    if (w->is_admin)
        puts("admin = yes");
    printf("hash = %s\n", hex); /* last, so that a cut entry is invalid */
}

int cmd_key(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct secret_hash hash;
    char secret[SECRET_TEXT];
    int code;

    if (command_take_switch(&argc, argv, "--help") || command_take_switch(&argc, argv, "-h")) {
        print_key_help();
        return EXIT_OK;
    }
    if (!take_fields(&wanted, &argc, argv))
        return EXIT_USAGE;
    if (argc > 1)
        return command_fail(EXIT_USAGE, "unexpected argument '%s'; see quire key --help", argv[1]);
    code = check_key_fields(&wanted);
    if (code != EXIT_OK)
        return code;
    if (secret_make(secret) < 0 || secret_hash(secret, strlen(secret), &hash) < 0)
        return command_fail(EXIT_FAILED, "the system returned no random numbers");
    print_entry(&wanted, &hash);
    if (fflush(stdout) != 0 || ferror(stdout))
        return command_fail(EXIT_FAILED, "the entry could not be written: no key was made");
    fprintf(stderr, "%s\n", secret);
    return EXIT_OK;
}
