/* config/demo.c - see demo.h; the bytes come from demo_model.S. */
#include "config/demo.h"

#include <stdint.h>

/* Labels of the assembler file, not objects of their own. */
extern const unsigned char quire_demo_begin[], quire_demo_end[];

const void *demo_model(size_t *bytes)
{
    *bytes = (size_t)((uintptr_t)quire_demo_end - (uintptr_t)quire_demo_begin);
    return quire_demo_begin;
}
