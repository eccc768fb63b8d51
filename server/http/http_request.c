/* server/http/http_request.c - see http_request.h.
 *
 * The fields are an array in the order of the wire: a linear search over at most HTTP_MAX_FIELDS is
 * cheaper than an index, because about a dozen names of a head are looked up. Names are compared
 * case-insensitively.
 */
#include "server/http/http_request.h"

#include <strings.h>

const char *http_request_method(const struct http_request *r)
{
    return r->method != NULL ? r->method : "";
}

const char *http_request_field(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_fields; i++)
        if (strcasecmp(r->fields[i].name, name) == 0)
            return r->fields[i].value;
    return NULL;
}

uint32_t http_request_count(const struct http_request *r, const char *name)
{
    uint32_t n = 0;

    for (size_t i = 0; i < r->n_fields; i++)
        n += strcasecmp(r->fields[i].name, name) == 0;
    return n;
}

bool http_request_has_body(const struct http_request *r)
{
    return r->is_chunked || r->length > 0;
}
