/* core/model/keys.h - the metadata keys of a model file, looked up under its architecture's name.
 *
 * Private to core/model. Each function checks type and range, and writes a sentence on an error.
 *
 * Thread: the loading thread.
 * Memory: none.
 * Errors: ERR_FORMAT with a sentence. An optional key that is absent leaves *v unchanged.
 */
#ifndef CORE_MODEL_KEYS_H
#define CORE_MODEL_KEYS_H

#include "core/model/load.h"

enum key_need { KEY_REQUIRED = 0, KEY_OPTIONAL = 1 };

/* Write the key "arch.suffix" to `key`. */
void key_name(const struct load *l, const char *suffix, char key[GGUF_MAX_NAME]);

/* Read an integer within lo..hi. */
int key_u32(struct load *l, const char *suffix, enum key_need need, uint32_t lo, uint32_t hi,
            uint32_t *v);
/* Read an integer that is one number, or an array with an equal number for each layer. */
int key_u32_of_layers(struct load *l, const char *suffix, enum key_need need, uint32_t lo,
                      uint32_t hi, uint32_t *v);
/* Read the integer of layer i from an array with one number for each layer, or the only number. */
int key_u32_at(struct load *l, const char *suffix, enum key_need need, uint32_t i, uint32_t lo,
               uint32_t hi, uint32_t *v);
/* Read a number greater than 0. */
int key_positive(struct load *l, const char *suffix, enum key_need need, float *v);
/* Read a number that is 0 (off) or more. */
int key_not_negative(struct load *l, const char *suffix, float *v);
int key_bool(struct load *l, const char *suffix, bool *v);
int key_str(struct load *l, const char *suffix, struct gguf_str *v);

#endif
