/* server/api/not_built.c - see not_built.h.
 *
 * A table of paths that other servers' APIs have and this one does not, each with the alternative.
 * It is only searched for a path that no route takes, so other calls take no time for it.
 */
#include "server/api/not_built.h"

#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

#include <string.h>

/* Paths as OpenAI, Anthropic, Cohere, vLLM and llama-server have them; one that ends with a slash
 * also covers all paths below it. */
static const struct area {
    const char *path, *why;
} areas[] = {
    {"/v1/responses/compact", "send a summary of the conversation as the input instead"},
    {"/responses/compact", "send a summary of the conversation as the input instead"},
    {"/v1/conversations/", "use previous_response_id to continue a kept response"},
    {"/v1/messages/batches/", "use POST /v1/batches with a file of requests"},
    {"/v1/complete", "use POST /v1/messages"},
    {"/v1/audio/", "this server only processes text"},
    {"/v1/realtime/", "this server only processes text"},
    {"/v1/images/", "this server only processes text"},
    {"/v1/videos/", "this server only processes text"},
    {"/v1/moderations", "use POST /classify with a classifier model"},
    {"/v1/fine_tuning/", "this server does not train models"},
    {"/v1/assistants/", "use POST /v1/responses, which keeps conversations"},
    {"/v1/threads/", "use POST /v1/responses, which keeps conversations"},
    {"/v1/vector_stores/",
     "POST /v1/embeddings computes vectors, but the server does not store them"},
    {"/v1/uploads/", "use POST /v1/files, which takes a whole file"},
    {"/v1/containers/", "this server runs no tools"},
    {"/v1/skills/", "this server runs no tools"},
    {"/v1/evals/", "this server does not evaluate answers"},
    {"/v1/organization/", "use GET /v1/usage"},
    {"/v1/embed", "use POST /v2/embed"},
    {"/v2/chat", "use POST /v1/chat/completions"},
    {"/invocations", "use the path of an API, such as POST /v1/chat/completions"},
    {"/sleep", "use POST /models/unload"},
    {"/wake_up", "use POST /models/load"},
    {"/reset_prefix_cache", "the prefix cache evicts blocks when their memory is needed"},
};

/* True: the path is covered; "/v1/audio/" covers "/v1/audio" too. */
static bool is_within(const char *path, const char *area)
{
    const size_t n = strlen(area);

    if (area[n - 1] != '/')
        return strcmp(path, area) == 0;
    return strncmp(path, area, n) == 0 ||
           (strncmp(path, area, n - 1) == 0 && path[n - 1] == '\0');
}

static const char *why_not_built(const char *path)
{
    for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
        if (is_within(path, areas[i].path))
            return areas[i].why;
    return NULL;
}

bool not_built_refuse(void *ud, struct http_call *call, bool is_known)
{
    const char *path = http_call_path(call), *why = why_not_built(path);
    struct api_error e;

    (void)ud;
    if (is_known && why == NULL)
        return false;
    if (is_within(path, "/v1/messages/") || is_within(path, "/v1/complete"))
        http_call_render_errors(call, anthropic_messages_error);
    else if (strncmp(path, "/api/", 5) == 0 && path[5] != '\0')
        http_call_render_errors(call, ollama_error);
    else if (strncmp(path, "/v2/", 4) == 0 || is_within(path, "/v1/embed"))
        http_call_render_errors(call, cohere_error);
    if (why != NULL)
        api_error_set(&e, 404, NULL, "not_built", "%.60s is not supported: %s", path, why);
    else
        api_error_set(&e, 404, NULL, NULL, "there is no such path");
    http_call_reply_error(call, &e);
    return true;
}
