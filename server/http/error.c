/* server/http/error.c - see error.h.
 *
 * The status decides OpenAI's `type`; all texts are cut to the struct's buffers, so that an error
 * can be made without memory. n_ctx and resume change the shape of the JSON only for the two errors
 * that have them. The other APIs render the same struct in their own shape
 * (http_route.render_error).
 */
#include "server/http/error.h"

#include "core/base/err.h"
#include "core/json/json.h"

#include <stdarg.h>
#include <stdio.h>

static const char *error_type(int status)
{
    switch (status) {
    case 404:
        return "not_found_error";
    case 408:
        return "timeout_error";
    case 429:
        return "rate_limit_error";
    case 500:
        return "server_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return "invalid_request_error";
    }
}

/* Cut the text before its first invalid UTF-8 character: a message that was cut, or that quotes a
 * client's bytes, may end inside a character. */
static void trim_to_utf8(char *text)
{
    for (size_t i = 0; text[i] != '\0';) {
        size_t n = 1;

        while (((unsigned char)text[i + n] & 0xc0) == 0x80)
            n++;
        if (!json_is_utf8(text + i, n)) {
            text[i] = '\0';
            return;
        }
        i += n;
    }
}

int api_error_set(struct api_error *e, int status, const char *param, const char *code,
                  const char *format, ...)
{
    va_list args;

    *e = (struct api_error){.status = status, .type = error_type(status), .code = code};
    snprintf(e->param, sizeof(e->param), "%s", param != NULL ? param : "");
    va_start(args, format);
    vsnprintf(e->message, sizeof(e->message), format, args);
    va_end(args);
    trim_to_utf8(e->message);
    return status >= 500 ? ERR_INTERNAL : ERR_INVAL;
}

static void add_or_null(struct buf *out, const char *text)
{
    if (text == NULL || text[0] == '\0')
        buf_add_str(out, "null");
    else
        json_add_cstring(out, text);
}

int api_error_no_memory(struct api_error *e)
{
    return api_error_set(e, 500, NULL, NULL, "out of memory");
}

int api_error_no_model(struct api_error *e, const char *name)
{
    api_error_set(e, 404, "model", "model_not_found", "the model '%.100s' does not exist here",
                  name);
    e->type = "invalid_request_error"; /* the type that OpenAI uses for this 404 */
    return ERR_NOENT;
}

void api_error_render(const struct api_error *e, struct buf *out)
{
    buf_add_str(out, "{\"error\":{\"message\":");
    json_add_cstring(out, e->message);
    buf_add_str(out, ",\"type\":");
    json_add_cstring(out, e->type);
    buf_add_str(out, ",\"param\":");
    add_or_null(out, e->param);
    buf_add_str(out, ",\"code\":");
    if (e->n_ctx > 0)
        buf_printf(out, "%d,\"n_ctx\":%u", e->status, e->n_ctx);
    else
        add_or_null(out, e->code);
    if (e->n_prompt_tokens > 0)
        buf_printf(out, ",\"n_prompt_tokens\":%u", e->n_prompt_tokens);
    if (e->resume != NULL) {
        buf_add_str(out, ",\"resume\":");
        buf_add(out, e->resume->data, e->resume->len);
    }
    buf_add_str(out, "}}");
}
