/* config/weights.h - names with weights, as in "alice=4,bob=1".
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CONFIG_WEIGHTS_H
#define CONFIG_WEIGHTS_H

#include <stdint.h>

#define WEIGHTS_MAX_NAME 64
#define WEIGHTS_MAX_VALUE 1000

struct weight {
    char name[WEIGHTS_MAX_NAME + 1]; /* visible ASCII without '=' and ',' */
    uint32_t value;                  /* 1 .. WEIGHTS_MAX_VALUE */
};

/* Read the next pair at *text and move *text past it. 1: *out is the pair; 0: there are no more;
 * ERR_INVAL: the text at *text is not a pair. Blanks around a pair are skipped. */
int weights_next(const char **text, struct weight *out);

#endif
