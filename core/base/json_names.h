/* core/base/json_names.h - one member of each name in every object of a tree.
 *
 * RFC 8259, section 4, leaves open what names mean that come twice. A tree that keeps both can be
 * checked by one and read by the other; Python's json, and so what most servers do, lets the last
 * value count, at the place of the first. So does this.
 *
 * Thread: any. Cost: linear in the tree; names cannot be chosen to collide (the hash is seeded).
 * Memory: a table as large as the largest object, freed before it returns.
 */
#ifndef CORE_BASE_JSON_NAMES_H
#define CORE_BASE_JSON_NAMES_H

#include <cjson/cJSON.h>

/* 0 or ERR_NOMEM; the tree is whole either way. Depth is bounded by JSON_MAX_DEPTH. */
int json_names_unique(cJSON *tree);

#endif
