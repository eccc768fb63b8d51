/* server/api/not_built.c - see not_built.h.
 *
 * A table of paths that other servers' APIs have and this one does not, each with what there is
 * instead. It is only searched for a path that no route takes, so it costs other calls nothing.
 */
#include "server/api/not_built.h"

#include "server/api/response/response_writer.h"
#include "server/http/http_call.h"

#include <string.h>

/* Paths as OpenAI, Anthropic, Cohere, vLLM and llama-server have them; one that ends with a slash
 * stands for all below it, too. */
static const struct area {
    const char *path, *why;
} areas[] = {
    {"/v1/responses/compact", "send a summary of the conversation as its input instead"},
    {"/responses/compact", "send a summary of the conversation as its input instead"},
    {"/v1/conversations/", "previous_response_id goes on with a kept response"},
    {"/v1/messages/batches/", "POST /v1/batches answers a file of requests"},
    {"/v1/complete", "POST /v1/messages answers a conversation"},
    {"/v1/audio/", "there is no speech"},
    {"/v1/realtime/", "there is no speech"},
    {"/v1/images/", "there are no images"},
    {"/v1/videos/", "there is no video"},
    {"/v1/moderations", "POST /classify asks a model's classifier"},
    {"/v1/fine_tuning/", "models are not trained"},
    {"/v1/assistants/", "POST /v1/responses keeps conversations"},
    {"/v1/threads/", "POST /v1/responses keeps conversations"},
    {"/v1/vector_stores/", "POST /v1/embeddings makes vectors, and nothing keeps them"},
    {"/v1/uploads/", "POST /v1/files takes a file as a whole"},
    {"/v1/containers/", "no tools run here"},
    {"/v1/skills/", "no tools run here"},
    {"/v1/evals/", "answers are not judged"},
    {"/v1/organization/", "GET /v1/usage tells what keys have used"},
    {"/v2/embed", "POST /v1/embeddings makes vectors"},
    {"/v2/chat", "POST /v1/chat/completions answers a conversation"},
    {"/invocations", "each API has its own path"},
    {"/sleep", "POST /models/unload unloads a model"},
    {"/wake_up", "POST /models/load loads a model"},
    {"/reset_prefix_cache", "what is cached leaves when its room is needed"},
};

/* "/v1/audio/" stands for "/v1/audio" too. */
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
    if (why != NULL)
        api_error_set(&e, 404, NULL, "not_built", "%.60s is not built here: %s", path, why);
    else
        api_error_set(&e, 404, NULL, NULL, "there is no such path");
    http_call_reply_error(call, &e);
    return true;
}
