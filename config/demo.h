/* config/demo.h - the demo model inside the binary: a GGUF file like any other.
 *
 * config/demo/train.py made the model; see config/demo/README.md.
 *
 * Thread: any.
 * Memory: read-only data of the binary, 64-byte aligned.
 */
#ifndef CONFIG_DEMO_H
#define CONFIG_DEMO_H

#include <stddef.h>

const void *demo_model(size_t *bytes);

#endif
