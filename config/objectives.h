/* config/objectives.h - what a gateway calls its classes of requests, as text, with the priority
 * of each: "premium=high,batch=low".
 *
 * Thread: any. Memory: none.
 */
#ifndef CONFIG_OBJECTIVES_H
#define CONFIG_OBJECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#define OBJECTIVES_MAX_NAME 127

/* Names of visible characters without '=' and ',', at most OBJECTIVES_MAX_NAME long, each with
 * =low, =normal, =high or =critical, with commas between? "" is a list of none. */
bool objectives_are_valid(const char *text);

/* The word behind the name in a valid list, copied to out[size]; false: it has none. */
bool objectives_find(const char *text, const char *name, char *out, size_t size);

#endif
