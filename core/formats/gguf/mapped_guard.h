/* core/formats/gguf/mapped_guard.h - reading a mapped file that another process truncates
 * meanwhile.
 *
 * A page after the file's end, or one that the disk cannot read, raises SIGBUS in the thread that
 * touches it. While a guard is on, the signal handler maps zeros from that page to the end of the
 * mapping and sets a flag, and the reader continues. The owner of the mapping checks the flag after
 * reading and discards the result. So readers need neither a copy nor a long jump, on any thread
 * and with any locks held. They must accept any contents: a value that was checked in the mapping
 * has to be checked again when it is read again.
 *
 * (Copying with pread() would take twice the memory traffic; a jump out of the handler would leak
 * locks and memory of each packing thread; the size may change right after it was checked.)
 *
 * Thread: any; several mappings at a time. Other SIGBUS go to the handler that was installed
 *         before.
 * Memory: a table of MAPPED_GUARD_MAX slots.
 */
#ifndef CORE_FORMATS_GGUF_MAPPED_GUARD_H
#define CORE_FORMATS_GGUF_MAPPED_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Twice the most parts of a model (1024): a model in a folder names its files. */
#define MAPPED_GUARD_MAX 2048

/* Guard a mapping until mapped_guard_off(). Returns the guard's number, or -1: MAPPED_GUARD_MAX
 * guards are on. */
int mapped_guard_on(void *base, size_t bytes);

/* Remove the guard, before the mapping is unmapped. */
void mapped_guard_off(int guard);

/* True: a part of the guarded mapping has been replaced by zeros. */
bool mapped_guard_has_holes(int guard);

#endif
