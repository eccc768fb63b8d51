/* config/demo.c - see demo.h; the bytes come from demo_model.S.
 *
 * demo_model.S includes the GGUF file between two labels; their addresses are all there is, so
 * nothing is copied and pages that are not read cost no memory.
 */
#include "config/demo.h"

#include <stdint.h>

/* Labels of the assembler file; they are addresses and not arrays. */
extern const unsigned char quire_demo_begin[], quire_demo_end[];

const void *demo_model(size_t *bytes)
{
    *bytes = (size_t)((uintptr_t)quire_demo_end - (uintptr_t)quire_demo_begin);
    return quire_demo_begin;
}
