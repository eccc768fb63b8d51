/* config/option.h - the rows of options.inc, and access to a value of a struct config by its row.
 *
 * Used within config/ only.
 *
 * Thread: any.
 * Memory: values are in the struct config; its strings are owned by it.
 */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include <stddef.h>
#include <stdint.h>

struct config;

enum option_type { OPTION_STR = 0, OPTION_INT, OPTION_SIZE, OPTION_ENUM, OPTION_NUM };
enum option_number { OPTION_ANY = 0, OPTION_ABOVE, OPTION_WHOLE };
enum option_scope { OPTION_SERVER = 0, OPTION_MODEL }; /* see options.inc */

struct option {
    const char *name;
    enum option_type type;
    enum option_scope scope;
    size_t offset;     /* offset of the member in struct config */
    const char *def;   /* STR, ENUM, NUM: default as text */
    int64_t num, min;  /* INT and SIZE: default and range */
    uint64_t max;
    enum option_number kind; /* NUM */
    double lo, hi;           /* NUM: range; "auto" is allowed too */
    const char *words; /* ENUM: "a|b|c"; the value is the index of a word */
    const char *help;
};

enum option_id {
#define STR(scope, name, ...) OPTION_ID_##name,
#define INT STR
#define SIZE STR
#define ENUM STR
#define NUM STR
#include "config/options.inc"
#undef STR
#undef INT
#undef SIZE
#undef ENUM
#undef NUM
    OPTION_N
};

/* Return the row of options.inc with this number, below OPTION_N. */
const struct option *option_at(uint32_t id);
/* Return the number of the row with this name; OPTION_N if there is none. */
uint32_t option_find(const char *name);

/* Set a value from text. 0, ERR_NOMEM, or ERR_INVAL or ERR_RANGE for a text that is not a value of
 * this option. */
int option_set(const struct option *o, struct config *c, const char *text);
int option_set_default(const struct option *o, struct config *c);
int option_copy(const struct option *o, struct config *c, const struct config *from);
void option_release(const struct option *o, struct config *c);

/* Return the value as text: in `buf` (32 bytes are enough), or the string itself, which may be
 * longer. */
const char *option_show(const struct option *o, const struct config *c, char *buf, size_t size);
/* Describe the allowed values: "a whole number from 1 to 9". */
void option_allowed(const struct option *o, char *buf, size_t size);

#endif
