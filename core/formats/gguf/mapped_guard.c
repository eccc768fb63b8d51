/* core/formats/gguf/mapped_guard.c - see mapped_guard.h.
 *
 * The table of mappings is global, fixed in size and written with atomics, because the signal
 * handler scans it without a lock; only adding and removing guards takes the mutex. The handler is
 * installed while at least one guard is on. It maps zeros over the rest of the file and returns, so
 * the faulting instruction simply runs again.
 */
#include "core/formats/gguf/mapped_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* `base` is stored last (release) and cleared first, so that the handler sees only whole slots. */
struct guarded {
    _Atomic uintptr_t base; /* 0: free */
    _Atomic size_t bytes;
    atomic_bool has_holes;
};

/* global, because a signal handler uses it */
static struct {
    struct guarded slots[MAPPED_GUARD_MAX];
    atomic_uint end; /* index after the last slot that was ever used */
    uintptr_t page;
    struct sigaction before; /* the previous handler; written while no slot is in use */
    unsigned n_on;
} guards;

/* protects taking and freeing slots, and installing and removing the handler */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct guarded *find_guarded(uintptr_t at)
{
    const unsigned end = atomic_load_explicit(&guards.end, memory_order_acquire);

    for (unsigned i = 0; i < end; i++) {
        struct guarded *g = &guards.slots[i];
        const uintptr_t base = atomic_load_explicit(&g->base, memory_order_acquire);

        if (base != 0 && at >= base &&
            at - base < atomic_load_explicit(&g->bytes, memory_order_relaxed))
            return g;
    }
    return NULL;
}

/* Uses only mmap() and atomics, since it may interrupt any code. If the address is in no guarded
 * mapping, or there is no memory for zeros, the previous handler is restored and the instruction
 * faults again. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr & ~(guards.page - 1);
    struct guarded *g = find_guarded((uintptr_t)info->si_addr);
    const int saved = errno;

    (void)context;
    if (g != NULL) {
        const uintptr_t end = atomic_load_explicit(&g->base, memory_order_relaxed) +
                              atomic_load_explicit(&g->bytes, memory_order_relaxed);

        atomic_store(&g->has_holes, true);
        if (mmap((void *)at, end - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            g = NULL;
    }
    if (g == NULL)
        sigaction(number, &guards.before, NULL);
    errno = saved;
}

/* Install the handler. A blocked SIGBUS would end the process; threads inherit their creator's
 * mask. */
static void take_signal(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t bus;

    guards.page = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &guards.before);
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

int mapped_guard_on(void *base, size_t bytes)
{
    unsigned i = 0;

    pthread_mutex_lock(&lock);
    while (i < MAPPED_GUARD_MAX && atomic_load(&guards.slots[i].base) != 0)
        i++;
    if (i < MAPPED_GUARD_MAX) {
        if (guards.n_on++ == 0)
            take_signal();
        atomic_store(&guards.slots[i].has_holes, false);
        atomic_store(&guards.slots[i].bytes, bytes);
        atomic_store_explicit(&guards.slots[i].base, (uintptr_t)base, memory_order_release);
        if (i >= atomic_load(&guards.end))
            atomic_store_explicit(&guards.end, i + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return i < MAPPED_GUARD_MAX ? (int)i : -1;
}

void mapped_guard_off(int guard)
{
    pthread_mutex_lock(&lock);
    atomic_store(&guards.slots[guard].base, 0);
    if (--guards.n_on == 0)
        sigaction(SIGBUS, &guards.before, NULL);
    pthread_mutex_unlock(&lock);
}

bool mapped_guard_has_holes(int guard)
{
    return atomic_load(&guards.slots[guard].has_holes);
}
