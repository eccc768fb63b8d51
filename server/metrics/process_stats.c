/* server/metrics/process_stats.c - see process_stats.h.
 *
 * One read of /proc/self/stat gives CPU times, start and memory; limits and descriptors come from
 * getrlimit() and /proc/self/fd. Called once for each GET /metrics, also on a pool thread; a value
 * that cannot be read stays 0.
 */
#include "server/metrics/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Read /proc/self/stat: the fields after the command's name, which may itself have blanks. */
static void read_stat(struct process_stats *out)
{
    const double hz = (double)sysconf(_SC_CLK_TCK);
    unsigned long utime = 0, stime = 0, vsize = 0;
    unsigned long long start = 0;
    struct timespec up, now;
    char text[1024];
    const char *rest;
    long rss = 0;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n;

    if (f == NULL)
        return;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    rest = strrchr(text, ')');
    /* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt, utime stime, cutime
     * cstime priority nice threads itrealvalue, starttime vsize rss */
    if (rest == NULL || sscanf(rest + 1,
                               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d "
                               "%*d %*d %*d %llu %lu %ld",
                               &utime, &stime, &start, &vsize, &rss) != 5)
        return;
    clock_gettime(CLOCK_BOOTTIME, &up);
    clock_gettime(CLOCK_REALTIME, &now);
    out->cpu_seconds = (double)(utime + stime) / hz;
    out->start_time_seconds = (double)now.tv_sec - (double)up.tv_sec + (double)start / hz;
    out->virtual_bytes = vsize;
    out->resident_bytes = (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Count open descriptors: Linux reports them as the folder's size from 6.2 on; before, the folder
 * is read, which takes about a microsecond for each. The directory stream that counts is itself one
 * of those counted. */
static uint64_t count_fds(void)
{
    struct stat st;
    uint64_t n = 0;
    DIR *d;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size;
    d = opendir("/proc/self/fd");
    if (d == NULL)
        return 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n > 0 ? n - 1 : 0;
}

void process_read(struct process_stats *out)
{
    struct rlimit r;

    *out = (struct process_stats){0};
    read_stat(out);
    out->open_fds = count_fds();
    if (getrlimit(RLIMIT_NOFILE, &r) == 0)
        out->max_fds = r.rlim_cur;
}
