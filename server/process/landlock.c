/* server/process/landlock.c - see landlock.h.
 *
 * It has the system calls and their constants. The ruleset handles every right that the kernel's
 * version knows, so that each right that is not granted is refused; older kernels know fewer
 * rights. A path is opened with O_PATH to name it in a rule.
 */
#include "server/process/landlock.h"

#include "core/base/err.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/landlock.h, which on Debian 12 has only versions 1 and 2. */
#define FS_EXECUTE (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_REG (1ull << 8)
#define FS_TRUNCATE (1ull << 14)
#define NET_ALL 3ull   /* bind and connect */
#define SCOPE_ALL 3ull /* abstract Unix sockets and signals of other processes */

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2
#define NET_CONNECT 2ull

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

struct path_attr {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

struct port_attr {
    uint64_t access, port;
};

/* Return the rights that a kernel with that version knows; it refuses rulesets with others. */
static uint64_t known_fs(int abi)
{
    static const int n_rights[] = {0, 13, 14, 15, 15, 16};
    const int last = (int)(sizeof(n_rights) / sizeof(n_rights[0])) - 1;

    return (1ull << n_rights[abi < last ? abi : last]) - 1;
}

void landlock_begin(struct landlock *l)
{
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    struct ruleset_attr attr = {0};
    size_t size = sizeof(attr.fs);

    *l = (struct landlock){.fd = -1, .abi = abi > 0 ? (int)abi : 0};
    if (l->abi == 0)
        return;
    attr.fs = known_fs(l->abi);
    if (l->abi >= 4) {
        attr.net = NET_ALL;
        size = offsetof(struct ruleset_attr, scoped);
    }
    if (l->abi >= 6) {
        attr.scoped = SCOPE_ALL;
        size = sizeof(attr);
    }
    l->fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0u);
    if (l->fd < 0)
        l->abi = 0;
}

static uint64_t rights_of(unsigned access)
{
    uint64_t rights = 0;

    if ((access & LANDLOCK_READ) != 0)
        rights |= FS_READ_FILE | FS_READ_DIR;
    if ((access & (LANDLOCK_APPEND | LANDLOCK_CHANGE)) != 0)
        rights |= FS_WRITE_FILE | FS_MAKE_REG;
    if ((access & LANDLOCK_CHANGE) != 0)
        rights |= FS_READ_FILE | FS_READ_DIR | FS_TRUNCATE | FS_REMOVE_FILE;
    if ((access & LANDLOCK_REMOVE) != 0)
        rights |= FS_REMOVE_FILE;
    return rights;
}

void landlock_allow(const struct landlock *l, const char *path, unsigned access)
{
    struct path_attr attr = {.access = rights_of(access) & known_fs(l->abi)};
    struct stat st;

    attr.fd = l->fd >= 0 ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (attr.fd < 0)
        return;
    if (fstat(attr.fd, &st) == 0 && !S_ISDIR(st.st_mode)) /* other rights are refused for files */
        attr.access &= FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
    if (attr.access != 0)
        (void)syscall(SYS_landlock_add_rule, l->fd, RULE_PATH_BENEATH, &attr, 0u);
    close(attr.fd);
}

void landlock_connect(const struct landlock *l, uint16_t port)
{
    const struct port_attr attr = {.access = NET_CONNECT, .port = port};

    if (l->fd >= 0 && l->abi >= 4)
        (void)syscall(SYS_landlock_add_rule, l->fd, RULE_NET_PORT, &attr, 0u);
}

int landlock_restrict(struct landlock *l)
{
    int rc = ERR_UNSUPPORTED;

    if (l->fd >= 0 && syscall(SYS_landlock_restrict_self, l->fd, 0u) == 0)
        rc = 0;
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    return rc;
}
