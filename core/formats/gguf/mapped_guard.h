/* core/formats/gguf/mapped_guard.h - reading a mapping of a file that somebody cuts short
 * meanwhile.
 *
 * A page of a mapping behind the file's end, or one that the disk cannot give, is a SIGBUS for the
 * thread that reads it. While a guard is on, the handler maps zeros from that page to the
 * mapping's end, notes it, and the reader goes on; whoever opened the file asks afterwards and
 * throws away what was made of it. So no reader needs a copy or a place to jump to, whichever
 * thread it is and whatever locks it holds. What is read must be usable with any contents:
 * nothing that was checked in the mapping may be relied upon when it is read again.
 *
 * (Copies by pread() would read a model twice from memory; a jump out of the handler would leave
 * locks and memory behind on each of the packing threads; a check of the size beforehand does not
 * hold for the next moment.)
 *
 * Thread: any; several mappings at a time. SIGBUS elsewhere goes to whoever had it before.
 * Memory: a table of MAPPED_GUARD_MAX places.
 */
#ifndef CORE_FORMATS_GGUF_MAPPED_GUARD_H
#define CORE_FORMATS_GGUF_MAPPED_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* More than a model has parts (1024), twice: a model of a folder names its files. */
#define MAPPED_GUARD_MAX 2048

/* Guard a mapping until mapped_guard_off(); the number to ask with, or -1: too many at a time. */
int mapped_guard_on(void *base, size_t bytes);

/* Before it is unmapped. */
void mapped_guard_off(int guard);

/* Has a part of it been replaced by zeros? */
bool mapped_guard_has_holes(int guard);

#endif
