/* server/batches/batch_line.c - see batch_line.h.
 *
 * A line is parsed with cJSON to be checked, but its custom_id and body are copied from the text,
 * so that numbers and escapes stay as the client wrote them. Answers are built as text around the
 * body that the API returned; the fixed beginning with the id lets batch_line_is_answer() recognise
 * one without parsing it.
 */
#include "server/batches/batch_line.h"

#include "core/base/err.h"
#include "core/base/name_copy.h"
#include "core/json/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define ANSWER "{\"id\":\""
/* Bits of a seed that every JSON reader represents exactly. */
#define SEED_BITS 53

static const struct {
    const char *url;
    bool takes_seed;
} endpoints[] = {
    {"/v1/chat/completions", true}, {"/v1/completions", true}, {"/v1/responses", true},
    {"/v1/embeddings", false},      {"/v1/decisions", false},  {"/v1/systemone", false},
};
#define N_ENDPOINTS (sizeof(endpoints) / sizeof(endpoints[0]))

bool batch_line_is_endpoint(const char *url)
{
    for (size_t i = 0; i < N_ENDPOINTS; i++)
        if (strcmp(endpoints[i].url, url) == 0)
            return true;
    return false;
}

static bool takes_seed(const char *url)
{
    for (size_t i = 0; i < N_ENDPOINTS; i++)
        if (strcmp(endpoints[i].url, url) == 0)
            return endpoints[i].takes_seed;
    return false;
}

/* ---- requests ---- */

static int refuse_line(struct batch_line_error *e, const char *code, const char *param,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

static int refuse_line(struct batch_line_error *e, const char *code, const char *param,
                       const char *format, ...)
{
    va_list args;

    *e = (struct batch_line_error){.code = code, .param = param};
    va_start(args, format);
    vsnprintf(e->message, sizeof(e->message), format, args);
    va_end(args);
    return ERR_INVAL;
}

static const char *line_text(const cJSON *line, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, name));
}

static int check_url(const cJSON *line, const char *endpoint, struct batch_line_error *e)
{
    const char *method = line_text(line, "method"), *url = line_text(line, "url");

    if (method == NULL)
        return refuse_line(e, "missing_required_parameter", "method",
                           "'method' is missing: it must be POST");
    if (strcmp(method, "POST") != 0)
        return refuse_line(e, "invalid_method", "method", "'method' must be POST");
    if (url == NULL)
        return refuse_line(e, "missing_required_parameter", "url", "'url' is missing");
    if (endpoint != NULL && strcmp(url, endpoint) != 0)
        return refuse_line(e, "mismatched_endpoint", "url",
                           "'url' must be the batch's endpoint, %s", endpoint);
    if (!batch_line_is_endpoint(url))
        return refuse_line(e, "invalid_url", "url", "'url' must be " BATCH_LINE_ENDPOINTS);
    return 0;
}

static int check_body(const cJSON *body, struct batch_line_error *e)
{
    if (body == NULL)
        return refuse_line(e, "missing_required_parameter", "body", "'body' is missing");
    if (!cJSON_IsObject(body))
        return refuse_line(e, "invalid_type", "body", "'body' must be an object");
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(body, "stream")))
        return refuse_line(e, "invalid_value", "body.stream",
                           "a line of a batch cannot be streamed");
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(body, "background")))
        return refuse_line(e, "invalid_value", "body.background",
                           "a line of a batch cannot be answered in the background");
    return 0;
}

static bool has_member(const cJSON *line, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(line, name) != NULL;
}

/* True: the line is the body of a call for decisions, without anything around it. The API reports
 * what such a body lacks. */
static bool is_bare(const cJSON *line, const char *endpoint)
{
    if (endpoint != NULL || has_member(line, "url"))
        return false;
    return has_member(line, "questions") ||
           (!has_member(line, "body") && (has_member(line, "input") || has_member(line, "state")));
}

static const char *bare_url(const cJSON *line)
{
    return has_member(line, "state") ? "/v1/systemone" : "/v1/decisions";
}

static int check_line(const cJSON *line, const char *endpoint, struct batch_line_error *e)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(line, "custom_id");
    const bool has_no_id = id == NULL || cJSON_IsNull(id);

    if (!cJSON_IsObject(line))
        return refuse_line(e, "invalid_json_line", NULL, "the line must be an object");
    if (!has_no_id && (!cJSON_IsString(id) || id->valuestring[0] == '\0'))
        return refuse_line(e, "invalid_value", "custom_id",
                           "'custom_id' must be a string that is not empty");
    if (is_bare(line, endpoint))
        return check_body(line, e);
    if (endpoint == NULL && !has_member(line, "url") && !has_member(line, "body"))
        return refuse_line(e, "invalid_json_line", NULL,
                           "the line has neither url and body, as a request of a batch, nor input "
                           "or state and questions, as a call for decisions");
    if (has_no_id)
        return refuse_line(e, "missing_required_parameter", "custom_id",
                           "'custom_id' is missing: each line needs its own");
    if (check_url(line, endpoint, e) < 0)
        return ERR_INVAL;
    return check_body(cJSON_GetObjectItemCaseSensitive(line, "body"), e);
}

/* Copy a member as it was written; the line has been parsed. */
static void copy_member(const char *text, size_t n, const char *name, struct buf *out)
{
    const char *value;
    size_t len;

    if (json_member_text(text, n, name, &value, &len))
        buf_add(out, value, len);
}

static bool needs_seed(const cJSON *line)
{
    const cJSON *body = cJSON_GetObjectItemCaseSensitive(line, "body");
    const cJSON *seed = cJSON_GetObjectItemCaseSensitive(body, "seed");

    return takes_seed(line_text(line, "url")) && (seed == NULL || cJSON_IsNull(seed));
}

/* Add the seed as the last member: of duplicate members the last one counts. */
static void add_seed(struct buf *body, uint64_t seed, uint32_t index)
{
    const uint64_t own = XXH3_64bits_withSeed(&index, sizeof(index), seed) >> (64 - SEED_BITS);

    while (body->len > 0 && body->data[body->len - 1] != '}')
        body->len--;
    if (body->len == 0)
        return;
    body->len--;
    while (body->len > 0 && strchr(" \t\r\n", body->data[body->len - 1]) != NULL)
        body->len--;
    buf_printf(body, "%s\"seed\":%" PRIu64 "}", body->data[body->len - 1] == '{' ? "" : ",", own);
}

/* Check what was copied. */
static int check_copies(const struct batch_line *line, struct batch_line_error *e)
{
    if (line->custom_id.err == ERR_LIMIT)
        return refuse_line(e, "invalid_value", "custom_id",
                           "'custom_id' must have at most %d bytes", BATCH_LINE_MAX_ID - 2);
    return line->body.err < 0 || line->custom_id.err < 0 ? ERR_NOMEM : 0;
}

static int take_line(struct batch_line *out, const cJSON *line, const char *text, size_t n,
                     uint64_t seed, struct batch_line_error *e)
{
    (void)name_copy(out->url, sizeof(out->url), line_text(line, "url")); /* it fits, because it is
                                                                          * an endpoint */
    copy_member(text, n, "custom_id", &out->custom_id);
    copy_member(text, n, "body", &out->body);
    if (needs_seed(line))
        add_seed(&out->body, seed, out->index);
    return check_copies(out, e);
}

/* Take a bare body; its line gets a number as its id, unless it has one. */
static int take_bare(struct batch_line *out, const cJSON *line, const char *text, size_t n,
                     struct batch_line_error *e)
{
    (void)name_copy(out->url, sizeof(out->url), bare_url(line));
    if (line_text(line, "custom_id") != NULL)
        copy_member(text, n, "custom_id", &out->custom_id);
    else
        buf_printf(&out->custom_id, "\"line-%" PRIu32 "\"", out->index + 1);
    buf_add(&out->body, text, n);
    return check_copies(out, e);
}

int batch_line_parse(struct batch_line *out, const char *text, size_t n, const char *endpoint,
                     uint32_t index, uint64_t seed, struct batch_line_error *e)
{
    cJSON *line = NULL;
    const char *why;
    int rc = json_parse(text, n, &line, &why);

    *out = (struct batch_line){.index = index};
    buf_init(&out->custom_id, BATCH_LINE_MAX_ID);
    buf_init(&out->body, n + 64);
    if (rc == ERR_NOMEM)
        return rc;
    if (rc < 0)
        return refuse_line(e, "invalid_json_line", NULL, "the line cannot be parsed: %s", why);
    rc = check_line(line, endpoint, e);
    if (rc == 0)
        rc = is_bare(line, endpoint) ? take_bare(out, line, text, n, e)
                                     : take_line(out, line, text, n, seed, e);
    cJSON_Delete(line);
    return rc;
}

void batch_line_release(struct batch_line *line)
{
    buf_release(&line->custom_id);
    buf_release(&line->body);
}

/* ---- answers ---- */

void batch_line_answer_id(uint64_t seed, uint32_t index, char out[BATCH_LINE_ANSWER_ID])
{
    snprintf(out, BATCH_LINE_ANSWER_ID, "batch_req_%016" PRIx64 "%08" PRIx32, seed, index);
}

bool batch_line_is_answer(const char *text, size_t n, uint64_t seed, uint32_t *index)
{
    const size_t n_head = sizeof(ANSWER) - 1, n_id = BATCH_LINE_ANSWER_ID - 1;
    char id[BATCH_LINE_ANSWER_ID];

    if (n <= n_head + n_id || memcmp(text, ANSWER, n_head) != 0 || text[n - 1] != '}' ||
        sscanf(text + n_head + n_id - 8, "%8" SCNx32, index) != 1)
        return false;
    batch_line_answer_id(seed, *index, id);
    return memcmp(text + n_head, id, n_id) == 0;
}

bool batch_line_begins_answer(const char *text, size_t n, uint64_t seed)
{
    char begin[sizeof(ANSWER) + BATCH_LINE_ANSWER_ID];
    size_t most;

    memcpy(begin, ANSWER, sizeof(ANSWER) - 1);
    batch_line_answer_id(seed, 0, begin + sizeof(ANSWER) - 1);
    most = strlen(begin) - 8; /* without the digits of the line's index */
    return memcmp(text, begin, n < most ? n : most) == 0;
}

static void open_answer(const struct batch_line *line, uint64_t seed, struct buf *out)
{
    char id[BATCH_LINE_ANSWER_ID];

    batch_line_answer_id(seed, line->index, id);
    buf_printf(out, ANSWER "%s\",\"custom_id\":", id);
    buf_add(out, line->custom_id.data, line->custom_id.len);
}

/* Append a JSON body, with blanks for line ends, which JSON has only between its tokens. */
static void add_on_one_line(const struct buf *body, struct buf *out)
{
    const size_t from = out->len;

    if (buf_add(out, body->data, body->len) < 0)
        return;
    for (size_t i = from; i < out->len; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
}

void batch_line_answer(const struct batch_line *line, uint64_t seed, int status,
                       const struct buf *body, struct buf *out)
{
    char id[BATCH_LINE_ANSWER_ID];

    batch_line_answer_id(seed, line->index, id);
    open_answer(line, seed, out);
    buf_printf(out, ",\"response\":{\"status_code\":%d,\"request_id\":\"%s\",\"body\":", status,
               id);
    add_on_one_line(body, out);
    buf_add_str(out, "},\"error\":null}\n");
}

void batch_line_no_answer(const struct batch_line *line, uint64_t seed, const char *code,
                          const char *message, struct buf *out)
{
    open_answer(line, seed, out);
    buf_add_str(out, ",\"response\":null,\"error\":{\"code\":");
    json_add_cstring(out, code);
    buf_add_str(out, ",\"message\":");
    json_add_cstring(out, message);
    buf_add_str(out, "}}\n");
}
