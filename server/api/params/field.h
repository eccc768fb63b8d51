/* server/api/params/field.h - reading one JSON value as a type and range, or saying what is wrong
 * with it.
 *
 * Every function gives 0, or a negative ERR_* with a 400 in *e that names the field.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SERVER_API_PARAMS_FIELD_H
#define SERVER_API_PARAMS_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json/json.h"
#include "server/http/error.h"

int field_bool(const cJSON *v, const char *name, bool *out, struct api_error *e);
int field_uint(const cJSON *v, const char *name, uint32_t min, uint32_t max, uint32_t *out,
               struct api_error *e);
int field_float(const cJSON *v, const char *name, double min, double max, float *out,
                struct api_error *e);
/* Read any integer of 64 bits, signed or not, to its last digit. */
int field_seed(const cJSON *v, const char *name, uint64_t *out, struct api_error *e);
/* Read an array of at most `max` token ids below n_vocab. */
int field_ids(const cJSON *v, const char *name, int32_t n_vocab, uint32_t max, int32_t *ids,
              uint32_t *n, struct api_error *e);

/* True: the value is an integer in min..max. */
bool field_is_int(const cJSON *v, double min, double max);

/* Find the last member of that name. NULL: there is none, or it is a JSON null. */
const cJSON *field_find(const cJSON *object, const char *name);
/* The text of the member that field_find() finds; NULL: it is not a string. */
const char *field_text(const cJSON *object, const char *name);

/* ---- values inside of others ---- */

struct field_path { /* a value's place in the body: "messages[3].tool_calls[0].function" */
    struct api_error *e;
    char text[64];
};

/* field_path() makes "messages[3]"; field_path_in() makes "messages[3].content[1]" of it and a
 * member. i < 0: without an index. */
struct field_path field_path(const char *name, int i, struct api_error *e);
struct field_path field_path_in(const struct field_path *p, const char *member, int i);

/* "'messages[3].role' must be …": `what` completes the sentence; member "" is the value itself. */
int field_refuse(const struct field_path *p, const char *member, const char *what);
/* field_text() of a member that must be a string. NULL: it is not, and is refused. */
const char *field_need_text(const struct field_path *p, const cJSON *object, const char *member);

#endif
