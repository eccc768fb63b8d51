/* core/base/cpus.c - see cpus.h.
 *
 * Everything is read once from text files under /sys and /proc, below a root that tests replace by
 * a folder. Of each core the first allowed CPU goes to the front of the list, its siblings after
 * all cores; both halves are then sorted by node, cache and number, which is the order that threads
 * are placed in. The quota is the least of the process's control group and all groups above it.
 */
#include "core/base/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MASK_CPUS 8192 /* bits of the kernel's largest mask */
#define PATH_BYTES 512

struct mask {
    unsigned long bits[MASK_CPUS / (8 * sizeof(unsigned long))];
};

static bool mask_has(const struct mask *m, uint32_t cpu)
{
    return CPU_ISSET_S(cpu, sizeof(*m), (const cpu_set_t *)(const void *)m);
}

/* Read a small file as text; false when it is not there. */
static bool read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Read the next range of a list like "0-3,8"; false at its end. */
static bool next_range(const char **list, uint32_t *from, uint32_t *to)
{
    const char *p = *list;
    char *end;

    if (*p < '0' || *p > '9')
        return false;
    *from = (uint32_t)strtoul(p, &end, 10);
    *to = *end == '-' ? (uint32_t)strtoul(end + 1, &end, 10) : *from;
    *list = *end == ',' ? end + 1 : end;
    return true;
}

/* True: the list has a CPU of the mask that is below `limit`. */
static bool list_meets(const char *list, const struct mask *m, uint32_t limit)
{
    uint32_t from, to;

    while (next_range(&list, &from, &to))
        for (uint32_t cpu = from; cpu <= to && cpu < limit; cpu++)
            if (mask_has(m, cpu))
                return true;
    return false;
}

static bool list_has(const char *list, uint32_t cpu)
{
    uint32_t from, to;

    while (next_range(&list, &from, &to))
        if (from <= cpu && cpu <= to)
            return true;
    return false;
}

/* Read a file of a CPU's folder. */
static bool read_of_cpu(const char *root, uint32_t cpu, const char *file, char *text, size_t size)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%u/%s", root, cpu, file);
    return read_text(path, text, size);
}

/* True: an earlier CPU of the mask is on the same core. */
static bool is_sibling(const char *root, const struct mask *m, uint32_t cpu)
{
    char list[4096];

    return read_of_cpu(root, cpu, "topology/thread_siblings_list", list, sizeof(list)) &&
           list_meets(list, m, cpu);
}

/* Return the lowest CPU that shares the CPU's cache of the highest level. */
static uint16_t cache_of(const char *root, uint32_t cpu)
{
    char file[64], text[4096];
    unsigned long level, highest = 0, first = 0;

    for (int i = 0; i < 16; i++) {
        snprintf(file, sizeof(file), "cache/index%d/level", i);
        level = read_of_cpu(root, cpu, file, text, sizeof(text)) ? strtoul(text, NULL, 10) : 0;
        if (level == 0)
            break;
        snprintf(file, sizeof(file), "cache/index%d/shared_cpu_list", i);
        if (level > highest && read_of_cpu(root, cpu, file, text, sizeof(text))) {
            highest = level;
            first = strtoul(text, NULL, 10);
        }
    }
    return (uint16_t)first;
}

static void read_cores(struct cpus *c, const struct mask *m, const char *root)
{
    struct cpu others[CPUS_MAX] = {0};
    uint32_t n_others = 0;

    for (uint32_t id = 0; id < MASK_CPUS && c->n_cores + n_others < CPUS_MAX; id++) {
        if (!mask_has(m, id))
            continue;
        const struct cpu cpu = {.id = (uint16_t)id, .cache = cache_of(root, id)};

        if (is_sibling(root, m, id))
            others[n_others++] = cpu;
        else
            c->cpu[c->n_cores++] = cpu;
    }
    memcpy(c->cpu + c->n_cores, others, n_others * sizeof(*others));
    c->n = c->n_cores + n_others;
}

static void read_nodes(struct cpus *c, const struct mask *m, const char *root)
{
    char path[PATH_BYTES], list[4096];

    for (uint32_t node = 0; node < 64; node++) {
        snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%u/cpulist", root, node);
        if (!read_text(path, list, sizeof(list)) || !list_meets(list, m, MASK_CPUS))
            continue;
        c->nodes |= (uint64_t)1 << node;
        for (uint32_t i = 0; i < c->n; i++)
            if (list_has(list, c->cpu[i].id))
                c->cpu[i].node = (uint16_t)node;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct cpu *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->cache != y->cache)
        return x->cache < y->cache ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void put_in_order(struct cpus *c)
{
    qsort(c->cpu, c->n_cores, sizeof(*c->cpu), by_place);
    qsort(c->cpu + c->n_cores, c->n - c->n_cores, sizeof(*c->cpu), by_place);
}

/* ---- quota ---- */

static void grant(struct cpus *c, long long quota, long long period)
{
    uint32_t whole;

    if (quota <= 0 || period <= 0)
        return;
    whole = quota / period > CPUS_MAX ? CPUS_MAX : (uint32_t)(quota / period);
    whole = whole > 0 ? whole : 1;
    if (c->quota == 0 || whole < c->quota)
        c->quota = whole;
}

/* Read a quota: "max 100000" or "150000 100000". */
static void read_cpu_max(struct cpus *c, const char *root, const char *group)
{
    char path[2 * PATH_BYTES], text[64], *end;
    long long quota;

    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/cpu.max", root, group);
    if (!read_text(path, text, sizeof(text)))
        return;
    quota = strtoll(text, &end, 10); /* 0 for "max" */
    grant(c, quota, strtoll(end, NULL, 10));
}

static void read_cfs_quota(struct cpus *c, const char *root)
{
    char path[PATH_BYTES], quota[64], period[64];

    snprintf(path, sizeof(path), "%s/sys/fs/cgroup/cpu/cpu.cfs_quota_us", root);
    if (!read_text(path, quota, sizeof(quota)))
        return;
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup/cpu/cpu.cfs_period_us", root);
    if (read_text(path, period, sizeof(period)))
        grant(c, strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/* Read the quotas of the process's own group and of all above it: the least counts. In a
 * container's namespace the group is "/". */
static void read_quota(struct cpus *c, const char *root)
{
    char path[PATH_BYTES], text[4096], group[PATH_BYTES] = "";
    const char *line;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    line = read_text(path, text, sizeof(text)) ? strstr(text, "0::/") : NULL;
    if (line != NULL)
        snprintf(group, sizeof(group), "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    for (char *slash; (slash = strrchr(group, '/')) != NULL; *slash = '\0')
        read_cpu_max(c, root, group);
    read_cpu_max(c, root, "");
    read_cfs_quota(c, root);
}

/* Read the CPUs that a test's folder lists in place of the affinity mask. */
static bool read_list_of(const char *root, struct mask *m)
{
    char path[PATH_BYTES], text[8192];
    const char *list;
    uint32_t from, to;

    snprintf(path, sizeof(path), "%s/proc/self/status", root);
    if (root[0] == '\0' || !read_text(path, text, sizeof(text)))
        return false;
    list = strstr(text, "Cpus_allowed_list:");
    if (list == NULL)
        return false;
    list += strcspn(list, "0123456789");
    while (next_range(&list, &from, &to))
        for (uint32_t cpu = from; cpu <= to && cpu < MASK_CPUS; cpu++)
            CPU_SET_S(cpu, sizeof(*m), (cpu_set_t *)(void *)m);
    return true;
}

/* Debug build: the folder that stands for the machine. */
static const char *machine_root(void)
{
#ifdef QUIRE_DEBUG
    if (getenv("QUIRE_DEBUG_MACHINE") != NULL)
        return getenv("QUIRE_DEBUG_MACHINE");
#endif
    return "";
}

void cpus_read(struct cpus *c, const char *root)
{
    struct mask m;

    root = root[0] != '\0' ? root : machine_root();
    memset(c, 0, sizeof(*c));
    memset(&m, 0, sizeof(m));
    if (!read_list_of(root, &m) && sched_getaffinity(0, sizeof(m), (cpu_set_t *)(void *)&m) < 0)
        m.bits[0] = 1;
    read_cores(c, &m, root);
    read_nodes(c, &m, root);
    put_in_order(c);
    read_quota(c, root);
}

uint32_t cpus_threads(const struct cpus *c)
{
    const uint32_t n = c->n == c->n_cores && c->n > CPUS_SHARED ? c->n - 1 : c->n_cores;

    return c->quota > 0 && c->quota < n ? c->quota : n;
}

uint32_t cpus_n_nodes(const struct cpus *c)
{
    return c->nodes != 0 ? (uint32_t)__builtin_popcountll(c->nodes) : 1;
}

/* Return the number of caches: CPUs of one cache are neighbours among the cores. */
uint32_t cpus_n_caches(const struct cpus *c)
{
    uint32_t n = 1;

    for (uint32_t i = 1; i < c->n_cores; i++)
        n += c->cpu[i].node != c->cpu[i - 1].node || c->cpu[i].cache != c->cpu[i - 1].cache;
    return n;
}
