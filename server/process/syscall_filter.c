/* server/process/syscall_filter.c - see syscall_filter.h.
 *
 * libseccomp builds the filter from four tables: allowed calls, hostile calls that kill the
 * process, calls that trap, and calls whose argument decides. A trapped call raises SIGSYS, whose
 * handler counts and logs it and puts -EPERM into the result's register, so that the caller sees an
 * ordinary error. All other calls fail with ENOSYS.
 */
#include "server/process/syscall_filter.h"

#include "core/base/err.h"
#include "core/base/log.h"

#include <stdatomic.h>

#define LOGGED_REFUSALS 16 /* further refusals are only counted */

static atomic_uint_fast64_t n_refused; /* relaxed: written by a signal handler */

uint64_t syscall_filter_n_refused(void)
{
    return atomic_load_explicit(&n_refused, memory_order_relaxed);
}

#ifdef QUIRE_SECCOMP
#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <ucontext.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const int allowed[] = {
    /* read and write open files */
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(pwrite64), SCMP_SYS(preadv), SCMP_SYS(pwritev), SCMP_SYS(preadv2),
    SCMP_SYS(pwritev2), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
    SCMP_SYS(sync_file_range), SCMP_SYS(fadvise64), SCMP_SYS(fallocate), SCMP_SYS(ftruncate),
    SCMP_SYS(flock), SCMP_SYS(fcntl), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
    /* files: Landlock decides which */
    SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(stat), SCMP_SYS(fstat), SCMP_SYS(lstat),
    SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64),
    SCMP_SYS(getcwd), SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
    SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(umask),
    SCMP_SYS(utimensat),
    /* accepted connections */
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(sendto),
    SCMP_SYS(sendmsg), SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
    SCMP_SYS(setsockopt), SCMP_SYS(getsockopt),
    /* waiting and waking */
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2), SCMP_SYS(eventfd2), SCMP_SYS(pipe2), SCMP_SYS(futex),
    SCMP_SYS(futex_waitv), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(restart_syscall), SCMP_SYS(pause),
    /* memory; mmap and mprotect are below */
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(mbind),
    SCMP_SYS(get_mempolicy), SCMP_SYS(membarrier), SCMP_SYS(mincore),
    /* threads; clone is below */
    SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(gettid),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setaffinity),
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(sched_get_priority_max), SCMP_SYS(getcpu), SCMP_SYS(arch_prctl),
    /* signals within the process */
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_sigpending), SCMP_SYS(sigaltstack), SCMP_SYS(tgkill),
    /* information about the process and the machine */
    SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
    SCMP_SYS(getegid), SCMP_SYS(getrandom), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(times), SCMP_SYS(capget),
};

static const int hostile[] = {
    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(init_module), SCMP_SYS(finit_module),
    SCMP_SYS(delete_module), SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd),
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns),
    SCMP_SYS(unshare), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(keyctl),
    SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(personality), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(open_by_handle_at),
    SCMP_SYS(memfd_create), SCMP_SYS(setuid), SCMP_SYS(setgid),
};

/* Calls that change something outside of the process, and that no library makes by itself. mmap,
 * mprotect, prlimit64, setpriority, socket and connect are below. */
static const int told[] = {
    SCMP_SYS(socketpair), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(kill), SCMP_SYS(tkill),
    SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal), SCMP_SYS(setrlimit), SCMP_SYS(creat),
    SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(mknod), SCMP_SYS(mknodat),
    SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(truncate),
    SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown),
    SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr), SCMP_SYS(removexattr), SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr),
    SCMP_SYS(utime), SCMP_SYS(utimes), SCMP_SYS(futimesat), SCMP_SYS(chdir), SCMP_SYS(fchdir),
    SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid), SCMP_SYS(setresgid),
    SCMP_SYS(setfsuid), SCMP_SYS(setfsgid), SCMP_SYS(setgroups), SCMP_SYS(capset),
    SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(syslog),
};

/* The operations of prctl and ioctl that the C library and libuv use. */
static const unsigned long allowed_prctl[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA,
                                              PR_GET_DUMPABLE};
static const unsigned long allowed_ioctl[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX};

/* Write a system call's result to its register. */
static void set_result(ucontext_t *c, long result)
{
#if defined(__x86_64__)
    c->uc_mcontext.gregs[REG_RAX] = result;
#else /* aarch64 */
    c->uc_mcontext.regs[0] = (unsigned long)result;
#endif
}

/* The handler of a trapped call. It runs like a function called there: it may log, because logging
 * makes only allowed calls, so that the log's lock is never held here. */
static void on_refused(int number, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    const int saved = errno;
    const uint64_t n = atomic_fetch_add_explicit(&n_refused, 1, memory_order_relaxed);

    (void)number;
    set_result(c, -EPERM);
    if (n < LOGGED_REFUSALS)
        log_warn("sandbox", "event=refused syscall=%d", info->si_syscall);
    errno = saved;
}

/* Add the same action for each call of a list. */
static int add_call_list(scmp_filter_ctx f, uint32_t action, const int *calls, size_t n)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = seccomp_rule_add(f, action, calls[i], 0);
    return rc;
}

static int add_lists(scmp_filter_ctx f)
{
    int rc = add_call_list(f, SCMP_ACT_ALLOW, allowed, N(allowed));

    if (rc == 0)
        rc = add_call_list(f, SCMP_ACT_KILL_PROCESS, hostile, N(hostile));
    if (rc == 0)
        rc = add_call_list(f, SCMP_ACT_TRAP, told, N(told));
    for (size_t i = 0; i < N(allowed_prctl) && rc == 0; i++)
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                              SCMP_A0(SCMP_CMP_EQ, allowed_prctl[i]));
    for (size_t i = 0; i < N(allowed_ioctl) && rc == 0; i++)
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                              SCMP_A1(SCMP_CMP_EQ, allowed_ioctl[i]));
    return rc;
}

/* A call of which one argument decides: `good` allows the call, `bad` refuses it. */
struct condition {
    int call;
    uint32_t action; /* when the argument is bad */
    struct scmp_arg_cmp good, bad;
};

static int add_conditions(scmp_filter_ctx f)
{
    const struct condition list[] = {
        {SCMP_SYS(mmap), SCMP_ACT_TRAP, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
         SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)},
        {SCMP_SYS(mprotect), SCMP_ACT_TRAP, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
         SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)},
        /* Threads can be created, processes cannot. */
        {SCMP_SYS(clone), SCMP_ACT_KILL_PROCESS,
         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD),
         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)},
        /* Limits can be read, but not set. */
        {SCMP_SYS(prlimit64), SCMP_ACT_TRAP, SCMP_A2(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_NE, 0)},
    };
    int rc = 0;

    for (size_t i = 0; i < N(list) && rc == 0; i++) {
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, list[i].call, 1, list[i].good);
        if (rc == 0)
            rc = seccomp_rule_add(f, list[i].action, list[i].call, 1, list[i].bad);
    }
    return rc;
}

/* Allow a thread to lower its own scheduling class or priority. */
static int add_places(scmp_filter_ctx f)
{
    static const int modest[] = {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE};
    int rc = 0;

    /* A thread may choose an ordinary or lower scheduling class, also the one that it has if the
     * process was started with less (chrt --idle): ZeroMQ's threads do. */
    for (size_t i = 0; i < N(modest) && rc == 0; i++)
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 1,
                              SCMP_A1(SCMP_CMP_EQ, modest[i]));
    /* A thread that packs weights while steps run lowers its priority. */
    if (rc == 0)
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 2,
                              SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS), SCMP_A1(SCMP_CMP_EQ, 0));
    return rc;
}

static int refuse_sockets(scmp_filter_ctx f, struct scmp_arg_cmp family)
{
    return seccomp_rule_add(f, SCMP_ACT_TRAP, SCMP_SYS(socket), 1, family);
}

static int add_connections(scmp_filter_ctx f)
{
    static const unsigned families[] = {AF_INET, AF_INET6};
    static const unsigned others[] = {SOCK_DGRAM, SOCK_RAW};
    int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(connect), 0);

    for (size_t i = 0; i < N(families) && rc == 0; i++) {
        rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                              SCMP_A0(SCMP_CMP_EQ, families[i]),
                              SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_STREAM));
        for (size_t k = 0; k < N(others) && rc == 0; k++)
            rc = seccomp_rule_add(f, SCMP_ACT_TRAP, SCMP_SYS(socket), 2,
                                  SCMP_A0(SCMP_CMP_EQ, families[i]),
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, others[k]));
    }
    if (rc == 0)
        rc = refuse_sockets(f, SCMP_A0(SCMP_CMP_LT, AF_INET));
    return rc == 0 ? refuse_sockets(f, SCMP_A0(SCMP_CMP_GT, AF_INET6)) : rc;
}

static int refuse_connections(scmp_filter_ctx f)
{
    static const int calls[] = {SCMP_SYS(socket), SCMP_SYS(connect)};

    return add_call_list(f, SCMP_ACT_TRAP, calls, N(calls));
}

/* Load the filter for all threads of the process. `rc`: the result of building it. */
static int load_and_release(scmp_filter_ctx f, int rc)
{
    if (rc == 0)
        rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rc == 0)
        rc = seccomp_load(f);
    if (f != NULL)
        seccomp_release(f);
    return rc == 0 ? 0 : ERR_UNSUPPORTED;
}

int syscall_filter_refuse_rings(void)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);

    return load_and_release(f, f == NULL ? -ENOMEM
                                         : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS),
                                                            SCMP_SYS(io_uring_setup), 0));
}

int syscall_filter_install(bool connects)
{
    struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_NODEFER};
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rc = f != NULL ? 0 : -ENOMEM;

    sigemptyset(&action.sa_mask);
    sigaction(SIGSYS, &action, NULL);
    if (rc == 0)
        rc = add_lists(f);
    if (rc == 0)
        rc = add_conditions(f);
    if (rc == 0)
        rc = add_places(f);
    if (rc == 0)
        rc = connects ? add_connections(f) : refuse_connections(f);
    return load_and_release(f, rc);
}
#else
int syscall_filter_refuse_rings(void)
{
    return ERR_UNSUPPORTED;
}

int syscall_filter_install(bool connects)
{
    (void)connects;
    return ERR_UNSUPPORTED;
}
#endif
