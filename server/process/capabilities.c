/* server/process/capabilities.c - see capabilities.h.
 *
 * It uses system calls, because libcap would be a library for only two of them. Three sets are
 * tried without giving a capability up permanently (only the effective set changes), from none to
 * both that open files against their permissions; the first with which all files can be opened
 * becomes the permitted set, which can never grow again.
 */
#include "server/process/capabilities.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sets { /* in the kernel's form: two halves of 32 bits */
    struct __user_cap_data_struct half[2];
};

static bool get(struct sets *s)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};

    return syscall(SYS_capget, &header, s->half) == 0;
}

static bool set(const struct sets *s)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};

    return syscall(SYS_capset, &header, s->half) == 0;
}

/* Keep the permitted capabilities in `keep` (a bit mask of the first 32), and no others. */
static bool reduce(const struct sets *before, uint32_t keep)
{
    struct sets s = {0};

    s.half[0].permitted = s.half[0].effective = before->half[0].permitted & keep;
    return set(&s);
}

/* Make only the capabilities in `mask` effective until the next call; the permitted set does not
 * change. */
static bool use(const struct sets *before, uint32_t mask)
{
    struct sets s = *before;

    s.half[0].effective = s.half[0].permitted & mask;
    s.half[1].effective = 0;
    return set(&s);
}

const char *capabilities_drop(bool (*still_works)(const void *ud), const void *ud)
{
    static const struct {
        uint32_t mask;
        const char *name;
    } trials[] = {
        {0, "dropped"},
        {1u << CAP_DAC_READ_SEARCH, "kept-dac_read_search"},
        {1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH, "kept-dac_override"},
    };
    const int last = (int)(sizeof(trials) / sizeof(trials[0])) - 1;
    struct sets before;
    int i = 0;

    if (!get(&before))
        return "failed";
    if (before.half[0].permitted == 0 && before.half[1].permitted == 0)
        return "none";
    while (i < last && use(&before, trials[i].mask) && !still_works(ud))
        i++;
    return reduce(&before, trials[i].mask) ? trials[i].name : "failed";
}
