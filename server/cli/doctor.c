/* server/cli/doctor.c - `quire doctor`: checks that the machine and the settings are ready for a
 * server, and prints what to change.
 *
 * The checks are in server/cli/; this file reads the settings, plans each model's memory with
 * plan_total(), which does everything of a load but reading weights, and prints the report.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "config/models.h"
#include "server/cli/plan.h"
#include "server/cli/files.h"
#include "server/cli/machine.h"
#include "server/cli/network.h"
#include "server/cli/report.h"
#include "server/models/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_doctor_help(void)
{
    fputs("quire doctor [--json] [settings]   check whether this machine is ready for these "
          "settings\n"
          "\n"
          "Checks CPUs, memory, limits, files, the port and the certificate, and says what to\n"
          "change. Run it as the user of the server, with all settings of 'quire serve'.\n"
          "\n"
          "  --json         print JSON, for programs\n"
          "  --root FOLDER  read /sys and /proc below this folder\n"
          "\n"
          "The exit status is 0 without a problem, 1 with one; notes do not count.\n",
          stdout);
}

/* The last file of settings on the command line, else the one of the environment. */
static const char *settings_file(int argc, char **argv)
{
    const char *file = getenv("QUIRE_CONFIG");

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0)
            file = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            file = argv[++i];
    }
    return file;
}

/* Check the models by doing everything of a load but reading the weights. */
static void check_models(struct doctor_report *r, const struct config *c, const char *root)
{
    struct plan_total total;
    struct model_item item;
    char err[300];

    if (plan_total(c, &total, err, sizeof(err)) == EXIT_OK) {
        doctor_add(r, DOCTOR_OK, "models", "%u models can be served", total.n_models);
        doctor_check_memory(r, total.bytes, total.more_bytes, root);
        return;
    }
    models_get(c->model, total.n_models, &item);
    doctor_add(r, DOCTOR_PROBLEM, "models", "the model '%s': %s", item.name, err);
    doctor_remedy(r, "quire inspect FILE shows what is in a file; quire pull downloads one");
}

int cmd_doctor(int argc, char **argv)
{
    static struct doctor_report report;
    const bool json = command_take_switch(&argc, argv, "--json");
    const char *root = "", *file;
    struct config config;
    bool done;
    int code;

    if (!command_take_value(&argc, argv, "--root", &root))
        return EXIT_USAGE;
    file = settings_file(argc, argv);
    code = command_config(&config, argc, argv, print_doctor_help, &done);
    if (done)
        return code;
    doctor_check_machine(&report, &config, root);
    check_models(&report, &config, root);
    doctor_check_descriptors(&report, &config);
    doctor_check_files(&report, &config, file);
    doctor_check_network(&report, &config, root);
    if (json)
        doctor_print_json(&report, stdout);
    else
        doctor_print(&report, stdout);
    config_release(&config);
    return report.count[DOCTOR_PROBLEM] == 0 ? EXIT_OK : EXIT_FAILED;
}
