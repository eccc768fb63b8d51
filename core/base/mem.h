/* core/base/mem.h - allocation, with a guard that proves that a step allocates nothing.
 *
 * All of Quire's own allocations go through here. In a debug build (QUIRE_DEBUG) the whole
 * process's malloc family is interposed, so that an allocation hidden in a library is caught
 * too: between mem_guard_begin() and mem_guard_end() of a thread any allocation by that thread
 * prints the phase and aborts. (Not under a sanitizer, which has an allocator of its own.) Tests
 * make the n-th allocation fail with mem_fail_after().
 *
 * Thread: any; the guard is per thread, the failure counter is process-wide (tests only).
 * Memory: the caller's; free with mem_free() or, for mem_map(), mem_unmap().
 * Errors: NULL when there is no memory; nothing is printed.
 */
#ifndef CORE_BASE_MEM_H
#define CORE_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes) __attribute__((malloc));
void *mem_calloc(size_t count, size_t bytes) __attribute__((malloc)); /* checks the product */
void *mem_realloc(void *p, size_t bytes); /* on NULL the old block stays the caller's */
void mem_free(void *p);                   /* mem_free(NULL) is fine */
char *mem_strdup(const char *s);
void *mem_dup(const void *p, size_t bytes);

/* Call at start. Afterwards malloc() maps large blocks one by one, whatever was freed before, so
 * that their pages cost no RAM until they are written and are returned when they are freed. */
void mem_tune(void);
/* Return freed memory that the allocator still holds to the kernel. Called after much was freed;
 * takes a millisecond or more. */
void mem_trim(void);

/* Allocate zeroed memory, 64-byte aligned, for tables that kernels read. Freed by mem_free(). */
void *mem_aligned(size_t count, size_t bytes);

#define MEM_HUGE_PAGE ((size_t)2 << 20)

/* Map a big arena (packed weights, KV): anonymous zeroed pages, aligned to 2 MiB, with the advice
 * to use huge pages. mem_unmap() takes the same size; NULL is allowed. */
void *mem_map(size_t bytes);
void mem_unmap(void *p, size_t bytes);

/* Forbid allocations on this thread until mem_guard_end(); `phase` is what a violation prints
 * (borrowed). Guards do not nest. Without QUIRE_DEBUG both do nothing. */
void mem_guard_begin(const char *phase);
void mem_guard_end(void);

/* Tests: let n allocations through this header succeed, then fail every one; -1 = never fail. */
void mem_fail_after(int64_t n);
/* True: the countdown reached a failing allocation since mem_fail_after(). */
int mem_has_failed(void);

/* Debug build: failures set from outside. QUIRE_DEBUG_TORTURE names a file of one struct
 * mem_torture that a test has mapped too; main() attaches to it. `countdown` allocations succeed (<
 * 0: all), then `n_to_fail` fail, then they succeed again. Without QUIRE_DEBUG it does nothing. */
struct mem_torture {
    int64_t countdown, n_to_fail; /* atomic: set by the test */
    int64_t n_seen, n_failed;     /* atomic: counted here */
    int64_t of_process;           /* set before the start. 1: counts all of the process's
                                   * allocations, with libraries (not under a sanitizer); 0: those
                                   * through this header */
};
void mem_torture_attach(void);

#endif
