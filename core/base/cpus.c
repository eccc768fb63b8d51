/* core/base/cpus.c - see cpus.h. */
#include "core/base/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MASK_CPUS 8192 /* the kernel's largest mask */
#define PATH_BYTES 512

struct mask {
    unsigned long bits[MASK_CPUS / (8 * sizeof(unsigned long))];
};

static bool has(const struct mask *m, uint32_t cpu)
{
    return CPU_ISSET_S(cpu, sizeof(*m), (const cpu_set_t *)(const void *)m);
}

/* A small file as text; false when it is not there. */
static bool read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Does a list like "0-3,8" hold a CPU of the mask that is below `limit`? */
static bool list_meets(const char *list, const struct mask *m, uint32_t limit)
{
    char *end;

    for (const char *p = list; *p >= '0' && *p <= '9'; p = *end == ',' ? end + 1 : end) {
        const unsigned long from = strtoul(p, &end, 10);
        const unsigned long to = *end == '-' ? strtoul(end + 1, &end, 10) : from;

        for (unsigned long cpu = from; cpu <= to && cpu < limit; cpu++)
            if (has(m, (uint32_t)cpu))
                return true;
    }
    return false;
}

/* Is there an earlier CPU of the mask on the same core? */
static bool is_sibling(const char *root, const struct mask *m, uint32_t cpu)
{
    char path[PATH_BYTES], list[4096];

    snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
             root, cpu);
    return read_text(path, list, sizeof(list)) && list_meets(list, m, cpu);
}

static void read_cores(struct cpus *c, const struct mask *m, const char *root)
{
    uint16_t others[CPUS_MAX] = {0};
    uint32_t n_others = 0;

    for (uint32_t cpu = 0; cpu < MASK_CPUS && c->n_cores + n_others < CPUS_MAX; cpu++) {
        if (!has(m, cpu))
            continue;
        if (is_sibling(root, m, cpu))
            others[n_others++] = (uint16_t)cpu;
        else
            c->id[c->n_cores++] = (uint16_t)cpu;
    }
    memcpy(c->id + c->n_cores, others, n_others * sizeof(*others));
    c->n = c->n_cores + n_others;
}

static void read_nodes(struct cpus *c, const struct mask *m, const char *root)
{
    char path[PATH_BYTES], list[4096];

    for (uint32_t node = 0; node < 64; node++) {
        snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%u/cpulist", root, node);
        if (read_text(path, list, sizeof(list)) && list_meets(list, m, MASK_CPUS))
            c->nodes |= (uint64_t)1 << node;
    }
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

/* "max 100000" or "150000 100000". */
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

/* The process's own group and all above it: the least counts. In a container's namespace the
 * group is "/". */
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

void cpus_read(struct cpus *c, const char *root)
{
    struct mask m;

    memset(c, 0, sizeof(*c));
    memset(&m, 0, sizeof(m));
    if (sched_getaffinity(0, sizeof(m), (cpu_set_t *)(void *)&m) < 0)
        m.bits[0] = 1;
    read_cores(c, &m, root);
    read_nodes(c, &m, root);
    read_quota(c, root);
}

uint32_t cpus_threads(const struct cpus *c)
{
    const uint32_t n = c->n == c->n_cores && c->n > 32 ? c->n - 1 : c->n_cores;

    return c->quota > 0 && c->quota < n ? c->quota : n;
}
