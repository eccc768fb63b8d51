/* config/origins.h - a list of web origins as text: "https://a.example,http://localhost:3000", or
 * "*" for all of them.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CONFIG_ORIGINS_H
#define CONFIG_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>

#define ORIGINS_MAX_BYTES 150 /* bytes of one origin */

/* True: the text is "*", or scheme://host or scheme://host:port with commas between, without
 * blanks. */
bool origins_are_valid(const char *text);

/* True: a valid list contains the origin that a browser sent. */
bool origins_have(const char *text, const char *origin);

#endif
