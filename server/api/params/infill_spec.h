/* server/api/params/infill_spec.h - the text around a gap that a request wants filled.
 *
 * Thread: any.
 * Memory: borrows from the JSON tree of the body.
 */
#ifndef SERVER_API_PARAMS_INFILL_SPEC_H
#define SERVER_API_PARAMS_INFILL_SPEC_H

#include "core/json/json.h"

struct infill_spec {
    const char *suffix; /* text after the gap; NULL: there is no gap */
    const char *prefix; /* text before the prompt; NULL: none */
    const cJSON *extra; /* [{"filename":"…","text":"…"}], or NULL */
};

#endif
