/* core/runtime/limits/cpu_name.h - the processor's name, which benches print beside their numbers.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_LIMITS_CPU_NAME_H
#define CORE_RUNTIME_LIMITS_CPU_NAME_H

#define CPU_NAME_BYTES 49

/* x86-64: the processor's own name. aarch64: the name of the core's design, or the numbers of its
 * implementer and part; where cores differ, of the calling thread's core. "": it has no name. */
void cpu_name_read(char name[CPU_NAME_BYTES]);

#endif
