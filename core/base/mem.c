/* core/base/mem.c - see mem.h.
 *
 * Thin wrappers around malloc, each of which first asks whether a test wants it to fail. The debug
 * build also defines malloc and its family themselves, to count and to abort inside a guard. Large
 * zeroed memory is returned to the kernel instead of being cleared, so it costs RAM only once it is
 * written; big arenas are mapped with room to align them to huge pages.
 */
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_BYTES (256 << 10) /* blocks of at least so many bytes are mapped one by one */
#define LAZY_BYTES ((size_t)1 << 20) /* for blocks of at least so many bytes, returning pages is
                                      * faster than clearing them */

/* Allocations still allowed before failing on purpose; negative = no failure wanted. */
static atomic_int_fast64_t fail_countdown = -1;
static atomic_int has_failed;

void mem_fail_after(int64_t n)
{
    atomic_store(&has_failed, 0);
    atomic_store(&fail_countdown, n);
}

int mem_has_failed(void)
{
    return atomic_load(&has_failed);
}

#ifdef QUIRE_DEBUG
static struct mem_torture *torture; /* set before there are other threads */

void mem_torture_attach(void)
{
    const char *path = getenv("QUIRE_DEBUG_TORTURE");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p;

    if (fd < 0)
        return;
    p = mmap(NULL, sizeof(*torture), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    torture = p != MAP_FAILED ? p : NULL;
}

/* True: this allocation must fail. Each thread takes one number, so exactly n_to_fail of them
 * fail. */
static int is_tortured(bool of_process)
{
    int64_t left;

    if (torture == NULL || (torture->of_process != 0) != of_process)
        return 0;
    __atomic_fetch_add(&torture->n_seen, 1, __ATOMIC_RELAXED);
    left = __atomic_load_n(&torture->countdown, __ATOMIC_RELAXED);
    do {
        if (left < 0)
            return 0;
    } while (!__atomic_compare_exchange_n(&torture->countdown, &left, left > 0 ? left - 1 : 0,
                                          false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (left > 0)
        return 0;
    if (__atomic_sub_fetch(&torture->n_to_fail, 1, __ATOMIC_RELAXED) <= 0)
        __atomic_store_n(&torture->countdown, -1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&torture->n_failed, 1, __ATOMIC_RELAXED);
    errno = ENOMEM; /* as malloc() does: the C library reads it */
    return 1;
}
#else
void mem_torture_attach(void)
{
}

static int is_tortured(bool of_process)
{
    (void)of_process;
    return 0;
}
#endif

static int must_fail(void)
{
    if (is_tortured(false))
        return 1;
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0)
        return 0;
    if (atomic_fetch_sub(&fail_countdown, 1) > 0)
        return 0;
    atomic_store(&fail_countdown, 0);
    atomic_store(&has_failed, 1);
    return 1;
}

/* Fix the threshold. glibc would raise it each time a large block is freed, and serve the next ones
 * from heaps that never shrink. */
void mem_tune(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 4 * LARGE_BYTES);
}

void mem_trim(void)
{
    malloc_trim(0);
}

void *mem_alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes > 0 ? bytes : 1);
}

void *mem_calloc(size_t count, size_t bytes)
{
    return must_fail() ? NULL : calloc(count > 0 ? count : 1, bytes > 0 ? bytes : 1);
}

void *mem_realloc(void *p, size_t bytes)
{
    return must_fail() ? NULL : realloc(p, bytes > 0 ? bytes : 1);
}

void mem_free(void *p)
{
    free(p);
}

void *mem_dup(const void *p, size_t bytes)
{
    void *copy = mem_alloc(bytes);

    if (copy != NULL && bytes > 0)
        memcpy(copy, p, bytes);
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_dup(s, strlen(s) + 1);
}

/* Zero a block. The whole pages of a large one are returned to the kernel: they read as zero, and
 * cost memory only once they are written. */
static void *zero(void *p, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
    const uintptr_t from = (at + page - 1) & ~(page - 1), to = (at + bytes) & ~(page - 1);

    if (bytes < LAZY_BYTES || madvise((void *)from, to - from, MADV_DONTNEED) != 0)
        return memset(p, 0, bytes);
    memset(p, 0, from - at);
    memset((void *)to, 0, at + bytes - to);
    return p;
}

void *mem_aligned(size_t count, size_t bytes)
{
    size_t total;
    void *p = NULL;

    if (must_fail() || __builtin_mul_overflow(count, bytes, &total))
        return NULL;
    if (posix_memalign(&p, 64, total > 0 ? total : 64) != 0)
        return NULL;
    return zero(p, total);
}

/* Map one huge page more than asked for and give the unaligned ends back. */
void *mem_map(size_t bytes)
{
    size_t size, head;
    char *p;

    if (must_fail() || bytes == 0 || bytes > SIZE_MAX - 2 * MEM_HUGE_PAGE)
        return NULL;
    size = (bytes + MEM_HUGE_PAGE - 1) & ~(MEM_HUGE_PAGE - 1);
    p = mmap(NULL, size + MEM_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0);
    if (p == MAP_FAILED)
        return NULL;
    head = (MEM_HUGE_PAGE - ((uintptr_t)p & (MEM_HUGE_PAGE - 1))) & (MEM_HUGE_PAGE - 1);
    if (head > 0)
        munmap(p, head);
    munmap(p + head + size, MEM_HUGE_PAGE - head);
    p += head;
    (void)madvise(p, size, MADV_HUGEPAGE); /* a hint: refused on kernels without it */
    return p;
}

void mem_unmap(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, (bytes + MEM_HUGE_PAGE - 1) & ~(MEM_HUGE_PAGE - 1));
}

#ifdef QUIRE_DEBUG
#ifdef __has_feature /* clang's macro for the sanitizers that are on */
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#elif __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

static _Thread_local const char *guard_phase;

void mem_guard_begin(const char *phase)
{
    guard_phase = phase;
}

void mem_guard_end(void)
{
    guard_phase = NULL;
}

/* a sanitizer's own allocator must stay in place: the guard is off then */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void guard_check(void)
{
    const char *phase = guard_phase;
    char line[160];
    int n;
    ssize_t written;

    if (phase == NULL)
        return;
    guard_phase = NULL; /* the printing below may allocate */
    n = snprintf(line, sizeof(line), "mem: an allocation inside '%s', which promises none\n",
                 phase);
    written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
    abort();
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
void *malloc(size_t n);
void *calloc(size_t c, size_t n);
void *realloc(void *p, size_t n);
int posix_memalign(void **out, size_t alignment, size_t n);

__attribute__((visibility("default"))) void *malloc(size_t n)
{
    guard_check();
    return is_tortured(true) ? NULL : __libc_malloc(n);
}

__attribute__((visibility("default"))) void *calloc(size_t c, size_t n)
{
    guard_check();
    return is_tortured(true) ? NULL : __libc_calloc(c, n);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
    guard_check();
    return is_tortured(true) ? NULL : __libc_realloc(p, n);
}

__attribute__((visibility("default"))) int posix_memalign(void **out, size_t alignment, size_t n)
{
    guard_check();
    *out = is_tortured(true) ? NULL : __libc_memalign(alignment, n);
    return *out != NULL ? 0 : ENOMEM;
}
#endif
#else
void mem_guard_begin(const char *phase)
{
    (void)phase;
}

void mem_guard_end(void)
{
}
#endif
