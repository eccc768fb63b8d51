/* server/cli/machine.c - see machine.h.
 *
 * Each check reads one file of /sys or /proc, or the CPU's features, and adds one line to the
 * report: OK, a note (slower than it could be) or a problem, with the command that changes it. A
 * file that is missing is not a problem: virtual machines and containers have fewer of them.
 */
#include "server/cli/machine.h"

#include "config/config.h"
#include "core/base/cpus.h"
#include "kernels/kernels.h"
#include "server/cli/report.h"
#include "server/cli/system_file.h"
#include "server/http/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Descriptors besides those of connections: models, logs, stores, databases. */
#define OTHER_DESCRIPTORS 256
/* 2025-01-01: a clock before this date is wrong, because this code is newer. */
#define EARLIEST ((time_t)1735689600)

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* ---- CPUs ---- */

_Static_assert((int)CONFIG_ISA_I8MM - 1 == (int)KERN_ISA_I8MM, "levels are in the order of words");

static void check_kernels(struct doctor_report *r, const struct config *c)
{
    const enum kern_isa best = kern_isa_best();
    const enum kern_isa isa = c->isa == CONFIG_ISA_AUTO ? best : (enum kern_isa)((int)c->isa - 1);

    if (!kern_isa_exists(isa)) {
        doctor_add(r, DOCTOR_PROBLEM, "kernels", "isa = %s, which this CPU does not have",
                   kern_isa_name(isa));
        doctor_remedy(r, "isa = auto (here %s)", kern_isa_name(best));
    } else if (best == KERN_ISA_SCALAR) {
        doctor_add(r, DOCTOR_NOTE, "kernels",
                   "this CPU has no AVX2, so kernels do not use vector instructions");
        doctor_remedy(
            r, "use a CPU with AVX2 (x86-64 CPUs since 2013), which is about ten times as fast");
    } else if (isa < best) {
        doctor_add(r, DOCTOR_NOTE, "kernels",
                   "the setting isa limits kernels to %s, but this CPU has %s", kern_isa_name(isa),
                   kern_isa_name(best));
        doctor_remedy(r, "isa = auto");
    } else {
        doctor_add(r, DOCTOR_OK, "kernels", "%s", kern_isa_name(isa));
    }
}

static void check_threads(struct doctor_report *r, const struct config *c, const struct cpus *cpus)
{
    const uint32_t best = cpus_threads(cpus);
    const uint32_t n = c->threads > 0 ? (uint32_t)c->threads : best;

    if (cpus->quota > 0 && n > cpus->quota) {
        doctor_add(r, DOCTOR_PROBLEM, "threads",
                   "%u compute threads, but the control group grants the time of only %u CPUs, so "
                   "the kernel stops the process during steps",
                   n, cpus->quota);
        doctor_remedy(r, "threads = 0, or a larger quota (systemd: CPUQuota=; Docker: --cpus; "
                         "Kubernetes: limits.cpu)");
    } else if (n > cpus->n_cores) {
        doctor_add(r, DOCTOR_NOTE, "threads", "%u compute threads on %u cores wait for each other",
                   n, cpus->n_cores);
        doctor_remedy(r, "threads = 0 (here %u)", best);
    } else {
        doctor_add(r, DOCTOR_OK, "threads", "%u on %u cores%s", n, cpus->n_cores,
                   cpus->quota > 0 ? ", within the control group's quota" : "");
    }
}

/* Check the first CPU of each core; the first one with a slow governor is reported. */
static void check_governor(struct doctor_report *r, const struct cpus *cpus, const char *root)
{
    char path[100], governor[32], hint[64];
    bool is_there = false;

    for (uint32_t i = 0; i < cpus->n_cores; i++) {
        const unsigned id = cpus->cpu[i].id;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", id);
        if (!system_file_read(root, path, governor, sizeof(governor)))
            continue;
        is_there = true;
        snprintf(path, sizeof(path),
                 "/sys/devices/system/cpu/cpu%u/cpufreq/energy_performance_preference", id);
        (void)system_file_read(root, path, hint, sizeof(hint));
        if (strcmp(governor, "performance") == 0 || strcmp(hint, "performance") == 0 ||
            strcmp(governor, "schedutil") == 0)
            continue;
        doctor_add(
            r, DOCTOR_NOTE, "frequency",
            "CPU %u has the governor '%s', which raises its frequency too slowly for short steps",
            id, governor);
        doctor_remedy(r, "cpupower frequency-set -g performance");
        return;
    }
    doctor_add(r, DOCTOR_OK, "frequency", "%s",
               is_there ? "the frequency governors do not slow the CPUs down"
                        : "the system has no frequency governors, as is usual on virtual machines");
}

/* ---- memory's ways ---- */

static void check_huge_pages(struct doctor_report *r, const char *root)
{
    char mode[64];

    if (!system_file_choice(root, "/sys/kernel/mm/transparent_hugepage/enabled", mode,
                            sizeof(mode)))
        doctor_add(r, DOCTOR_NOTE, "huge_pages",
                   "the kernel has no transparent huge pages, so weights are read more slowly");
    else if (strcmp(mode, "never") == 0)
        doctor_add(r, DOCTOR_NOTE, "huge_pages",
                   "transparent huge pages are off, so weights are read more slowly");
    else {
        doctor_add(r, DOCTOR_OK, "huge_pages", "transparent huge pages are '%s'", mode);
        return;
    }
    doctor_remedy(r, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

static void check_swap(struct doctor_report *r, const char *root)
{
    char text[4096];
    uint64_t swappiness = 60;

    /* No second line: the first line of the file is a heading. */
    if (!system_file_read(root, "/proc/swaps", text, sizeof(text)) || strchr(text, '\n') == NULL) {
        doctor_add(r, DOCTOR_OK, "swap",
                   "the system has no swap, so weights and the KV cache stay in memory");
        return;
    }
    (void)system_file_number(root, "/proc/sys/vm/swappiness", &swappiness);
    if (swappiness <= 10) {
        doctor_add(r, DOCTOR_OK, "swap",
                   "the system swaps only when memory is short (vm.swappiness %" PRIu64 ")",
                   swappiness);
        return;
    }
    doctor_add(r, DOCTOR_NOTE, "swap",
               "with vm.swappiness %" PRIu64
               " the system may swap out weights, and read them again during a step",
               swappiness);
    doctor_remedy(r, "sysctl vm.swappiness=1, or MemorySwapMax=0 in the systemd unit");
}

static void check_numa(struct doctor_report *r, const struct cpus *cpus, const char *root)
{
    uint64_t is_on = 0;

    if (cpus_n_nodes(cpus) < 2) {
        doctor_add(r, DOCTOR_OK, "numa", "the machine has one NUMA node");
        return;
    }
    (void)system_file_number(root, "/proc/sys/kernel/numa_balancing", &is_on);
    if (is_on == 0) {
        doctor_add(r, DOCTOR_OK, "numa",
                   "the machine has %u NUMA nodes, and the kernel does not move pages between them",
                   cpus_n_nodes(cpus));
        return;
    }
    doctor_add(r, DOCTOR_NOTE, "numa",
               "the machine has %u NUMA nodes, and the kernel moves pages away from where the "
               "setting numa placed them",
               cpus_n_nodes(cpus));
    doctor_remedy(r, "sysctl kernel.numa_balancing=0");
}

static void check_overcommit(struct doctor_report *r, const char *root)
{
    uint64_t mode = 0;

    if (!system_file_number(root, "/proc/sys/vm/overcommit_memory", &mode) || mode != 2)
        return;
    doctor_add(r, DOCTOR_NOTE, "overcommit",
               "vm.overcommit_memory is 2, so memory that is reserved but not used counts against "
               "the limit");
    doctor_remedy(r, "sysctl vm.overcommit_memory=0");
}

static void check_clocks(struct doctor_report *r, const char *root)
{
    static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    char source[64];

    if (time(NULL) < EARLIEST) {
        doctor_add(
            r, DOCTOR_PROBLEM, "clock",
            "the clock shows a time before 2025, so certificates and daily quotas do not work");
        doctor_remedy(r, "timedatectl set-ntp true");
    } else if (system_file_read(root, path, source, sizeof(source)) &&
               (strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0 ||
                strcmp(source, "jiffies") == 0)) {
        doctor_add(r, DOCTOR_NOTE, "clock",
                   "the kernel's clock source is '%s', which takes a microsecond for each reading",
                   source);
        doctor_remedy(r, "find out why the kernel does not use tsc: dmesg | grep -i clocksource");
    } else {
        doctor_add(r, DOCTOR_OK, "clock", "%s", source[0] != '\0' ? source : "the clock works");
    }
}

void doctor_check_machine(struct doctor_report *r, const struct config *c, const char *root)
{
    struct cpus cpus;

    cpus_read(&cpus, root);
    check_kernels(r, c);
    check_threads(r, c, &cpus);
    check_governor(r, &cpus, root);
    check_huge_pages(r, root);
    check_swap(r, root);
    check_numa(r, &cpus, root);
    check_overcommit(r, root);
    check_clocks(r, root);
}

/* ---- how much there is ---- */

/* Read a line like "MemAvailable: 123 kB". */
static uint64_t read_memory(const char *root, const char *name)
{
    char text[4096];
    const char *line;

    if (!system_file_read(root, "/proc/meminfo", text, sizeof(text)))
        return UINT64_MAX;
    line = strstr(text, name);
    return line == NULL ? UINT64_MAX : strtoull(line + strlen(name), NULL, 10) * 1024;
}

void doctor_check_memory(struct doctor_report *r, uint64_t bytes, uint64_t more, const char *root)
{
    const uint64_t total = read_memory(root, "MemTotal:"),
                   free = read_memory(root, "MemAvailable:");
    const uint64_t group = system_file_memory_limit(root);
    const uint64_t limit = group < total ? group : total;
    const char *whose = group < total ? "the control group grants" : "the machine has";

    if (bytes > limit) {
        doctor_add(r, DOCTOR_PROBLEM, "memory",
                   "the settings need %.2f GiB, but %s %.2f: the server would be killed",
                   gib(bytes), whose, gib(limit));
        doctor_remedy(r, "set a smaller kv_memory, kv_type = q8_0 or load_type = q4_0, or use a "
                         "smaller model; quire plan lists what needs how much");
    } else if (bytes + more > limit) {
        doctor_add(r, DOCTOR_NOTE, "memory",
                   "the settings need %.2f GiB and up to %.2f more under load, but %s %.2f",
                   gib(bytes), gib(more), whose, gib(limit));
        doctor_remedy(r, "set a smaller swap_ram, request_memory or kv_memory");
    } else if (bytes > free) {
        doctor_add(r, DOCTOR_NOTE, "memory",
                   "the settings need %.2f GiB, but only %.2f are free now", gib(bytes), gib(free));
        doctor_remedy(r, "see what else uses memory: ps -eo rss,args --sort=-rss | head");
    } else {
        doctor_add(r, DOCTOR_OK, "memory",
                   "the settings need %.2f GiB, and up to %.2f more under load; %s %.2f",
                   gib(bytes), gib(more), whose, gib(limit));
    }
}

void doctor_check_descriptors(struct doctor_report *r, const struct config *c)
{
    const uint64_t needed = OTHER_DESCRIPTORS + limits_wanted((uint32_t)c->max_connections,
                                                 (uint32_t)(c->queue_limit + c->max_sequences));
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_max >= needed) {
        doctor_add(r, DOCTOR_OK, "descriptors",
                   "%" PRIu64 " may be open, at most %" PRIu64 " are needed",
                   (uint64_t)limit.rlim_max, needed);
        return;
    }
    doctor_add(r, DOCTOR_NOTE, "descriptors",
               "%" PRIu64 " files and connections may be open, but %" PRIu64
               " are needed, so the server accepts fewer clients",
               (uint64_t)limit.rlim_max, needed);
    doctor_remedy(r, "LimitNOFILE=65536 in the systemd unit, ulimit -Hn 65536 in a shell");
}
