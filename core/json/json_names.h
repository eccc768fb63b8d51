/* core/json/json_names.h - removes repeated member names from the objects of a JSON tree.
 *
 * RFC 8259, section 4, leaves open what a repeated name means. If a tree kept both members, one
 * could be validated and the other used. As in Python's json module, the last value is kept, where
 * the first one stood.
 *
 * Thread: any. Cost: linear in the tree; names cannot be chosen to collide (the hash is seeded).
 * Memory: a table as large as the largest object, freed before it returns.
 */
#ifndef CORE_JSON_JSON_NAMES_H
#define CORE_JSON_JSON_NAMES_H

#include <cjson/cJSON.h>

/* 0 or ERR_NOMEM; the tree is whole either way. Depth is bounded by JSON_MAX_DEPTH. */
int json_names_unique(cJSON *tree);

#endif
