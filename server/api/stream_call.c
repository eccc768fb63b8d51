/* server/api/stream_call.c - see stream_call.h.
 *
 * A stream is found under its owner (the caller's tenant) by its id, or by llama-server's
 * conversation id; kept_stream.c then writes the kept frames and all further ones to the call. The
 * APIs differ in how a client names the position to continue from: a frame's number, or a number of
 * bytes. A stream that an earlier process had begun is a 503 with Retry-After until it is restored.
 */
#include "server/api/stream_call.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/body_job.h"
#include "server/api/server_options.h"
#include "server/auth/auth.h"
#include "server/http/http_call.h"
#include "server/storage/request_restorer.h"
#include "server/storage/stream_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOOK_UPS 1000 /* most conversations in one look-up */

struct owner {
    char name[STREAM_MAX_OWNER + 2];
};

static struct owner owner_of(const struct http_call *call, const struct server_options *server)
{
    struct owner o = {""};

    auth_tenant(call, server->tenant_header, o.name, sizeof(o.name));
    return o;
}

/* Read a number of digits only that fits into an int64_t. */
static bool read_number(const char *text, int64_t *out)
{
    const size_t n = strlen(text);

    *out = strtoll(text, NULL, 10);
    return n > 0 && n < 19 && text[strspn(text, "0123456789")] == '\0';
}

static int not_kept(struct api_error *e)
{
    return api_error_set(e, 404, NULL, NULL, "this server keeps no streams: set stream_keep_ms");
}

static int not_found(const struct server_options *server, struct api_error *e)
{
    return api_error_set(e, 404, NULL, "stream_not_found",
                         "no stream with this id is kept here: it was not resumable, or it ended "
                         "more than stream_keep_ms (%u) ago, or other streams needed the memory",
                         server->stream_keep_ms);
}

/* Answer that the stream can be read soon: a 503 with Retry-After. */
static void send_restoring(struct http_call *call)
{
    struct api_error e;

    api_error_set(&e, 503, NULL, "restoring",
                  "the stream was begun by an earlier process and is being restored, or it "
                  "continues in the next process: try again later");
    http_call_set_header(call, "Retry-After", "1");
    http_call_reply_error(call, &e);
}

/* ---- this server's endpoints, and that of OpenAI's Responses ---- */

/* Read the number of the frame after which to continue; -1: from the beginning. `name` is the
 * query's member. */
static int read_after(const struct http_call *call, const char *name, int64_t *after,
                      struct api_error *e)
{
    const char *query = http_call_query(call, name);
    const char *text = query != NULL ? query : http_call_header(call, "Last-Event-ID");

    *after = -1;
    if (text == NULL || text[0] == '\0' || read_number(text, after))
        return 0;
    return api_error_set(e, 400, query != NULL ? name : "Last-Event-ID", NULL,
                         "'%s' must be the number of a frame", query != NULL ? name
                                                                             : "Last-Event-ID");
}

static int no_stream_of_response(struct api_error *e)
{
    return api_error_set(e, 400, "stream", "stream_not_found",
                         "'stream' is not possible: the frames of this response were never kept, "
                         "or are no longer kept (resumable, stream_keep_ms)");
}

/* Send the frames after the one that the query names. If there are none and the stream has ended,
 * answer 204, after which an EventSource does not reconnect, as it would after an empty stream;
 * OpenAI's clients expect a stream even then. */
static int read_behind(struct kept_stream *k, struct http_call *call, const char *query,
                       int64_t after, struct api_error *e)
{
    struct buf none = {0};

    if (strcmp(query, "after") != 0 || !kept_stream_is_read(k, after))
        return kept_stream_read(k, call, after, e);
    http_call_reply(call, 204, "", &none);
    return 0;
}

static void follow_stream(struct stream_store *streams, const struct server_options *server,
                          struct http_call *call, const char *query)
{
    const struct owner owner = owner_of(call, server);
    struct kept_stream *k =
        streams != NULL ? stream_store_find(streams, owner.name, http_call_tail(call)) : NULL;
    struct api_error e;
    int64_t after;
    int rc;

    if (k == NULL && strcmp(query, "after") != 0)
        rc = no_stream_of_response(&e);
    else if (k == NULL)
        rc = streams != NULL ? not_found(server, &e) : not_kept(&e);
    else if ((rc = read_after(call, query, &after, &e)) == 0)
        rc = read_behind(k, call, query, after, &e);
    if (rc < 0)
        http_call_reply_error(call, &e);
}

static void end_kept_stream(struct stream_store *streams, const struct server_options *server,
                            struct http_call *call)
{
    const struct owner owner = owner_of(call, server);
    struct kept_stream *k =
        streams != NULL ? stream_store_find(streams, owner.name, http_call_tail(call)) : NULL;
    struct api_error e;
    struct buf out;

    if (k == NULL) {
        (void)(streams != NULL ? not_found(server, &e) : not_kept(&e));
        http_call_reply_error(call, &e);
        return;
    }
    buf_init(&out, 1024);
    buf_add_str(&out, "{\"id\":");
    json_add_cstring(&out, http_call_tail(call));
    buf_add_str(&out, ",\"object\":\"stream\",\"deleted\":true}");
    kept_stream_drop(k);
    http_call_reply(call, 200, "application/json", &out);
}

bool stream_call_is_restoring(const struct request_restorer *restorer,
                              const struct server_options *server, struct http_call *call)
{
    const struct owner owner = owner_of(call, server);

    if (!request_restorer_has(restorer, owner.name, http_call_tail(call)))
        return false;
    send_restoring(call);
    return true;
}

/* True: the stream does not exist yet, but will be restored from an earlier process. */
static bool is_restoring(struct stream_store *streams, const struct request_restorer *restorer,
                         const struct server_options *server, const struct http_call *call)
{
    const struct owner owner = owner_of(call, server);
    const char *id = http_call_tail(call);

    return streams != NULL && stream_store_find(streams, owner.name, id) == NULL &&
           request_restorer_expects(restorer, owner.name, id, NULL);
}

void stream_call_one(struct stream_store *streams, const struct request_restorer *restorer,
                     const struct server_options *server, struct http_call *call)
{
    if (is_restoring(streams, restorer, server, call))
        send_restoring(call);
    else if (http_call_is(call, HTTP_DELETE))
        end_kept_stream(streams, server, call);
    else
        follow_stream(streams, server, call, "after");
}

void stream_call_response(struct stream_store *streams, const struct request_restorer *restorer,
                          const struct server_options *server, struct http_call *call)
{
    if (is_restoring(streams, restorer, server, call))
        send_restoring(call);
    else
        follow_stream(streams, server, call, "starting_after");
}

/* ---- llama-server's endpoints ---- */

static struct kept_stream *find_conversation(struct stream_store *streams,
                                             const struct server_options *server,
                                             const struct http_call *call, const char *name)
{
    const struct owner owner = owner_of(call, server);

    return streams != NULL ? stream_store_find_conversation(streams, owner.name, name) : NULL;
}

static int read_conversation(struct kept_stream *k, struct http_call *call, struct api_error *e)
{
    const char *text = http_call_query(call, "from");
    int64_t from = 0;

    if (text != NULL && text[0] != '\0' && !read_number(text, &from))
        return api_error_set(e, 400, "from", NULL, "'from' must be a number of bytes");
    if (k == NULL)
        return api_error_set(e, 404, NULL, NULL, "Stream not found or expired");
    return kept_stream_read_bytes(k, call, (uint64_t)from, e);
}

void stream_call_conversation(struct stream_store *streams,
                              const struct request_restorer *restorer,
                              const struct server_options *server, struct http_call *call)
{
    const struct owner owner = owner_of(call, server);
    const char *name = http_call_query(call, "conv_id");
    struct buf none = {0};
    struct kept_stream *k;
    struct api_error e;

    if (name == NULL || name[0] == '\0') {
        api_error_set(&e, 400, "conv_id", NULL, "'conv_id' is required");
        http_call_reply_error(call, &e);
        return;
    }
    k = find_conversation(streams, server, call, name);
    if (k == NULL && request_restorer_expects(restorer, owner.name, NULL, name)) {
        send_restoring(call);
        return;
    }
    if (!http_call_is(call, HTTP_DELETE)) {
        if (read_conversation(k, call, &e) < 0)
            http_call_reply_error(call, &e);
        return;
    }
    if (k != NULL)
        kept_stream_drop(k);
    http_call_reply(call, 204, "", &none);
}

static void add_conversation(const char *name, const struct kept_stream *k, struct buf *out)
{
    const struct stream_facts f = kept_stream_facts(k);

    buf_add_str(out, out->len > 1 ? ",{\"conversation_id\":" : "{\"conversation_id\":");
    json_add_cstring(out, name);
    buf_printf(out,
               ",\"is_done\":%s,\"total_bytes\":%" PRIu64 ",\"started_at\":%" PRId64
               ",\"completed_at\":%" PRId64 "}",
               f.is_over ? "true" : "false", f.n_bytes, f.begun_s, f.ended_s);
}

struct look_up {
    struct body_job body;
    struct stream_store *streams; /* or NULL */
    const struct server_options *server;
    cJSON *json;
    struct api_error error;
};

static int check_names(const cJSON *json, struct api_error *e)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "conversation_ids");

    if (!cJSON_IsObject(json))
        return api_error_set(e, 400, NULL, NULL, "the body must be a JSON object");
    if (cJSON_GetArraySize(list) > MAX_LOOK_UPS)
        return api_error_set(e, 400, "conversation_ids", NULL,
                             "'conversation_ids' must have at most %d names: ask for the others in "
                             "another request",
                             MAX_LOOK_UPS);
    return 0;
}

static void look_up_read(struct body_job *j)
{
    struct look_up *l = list_entry(j, struct look_up, body);
    const char *why = NULL, *text = j->body.data != NULL ? j->body.data : "";

    if (json_parse(text, j->body.len, &l->json, &why) < 0)
        api_error_set(&l->error, 400, NULL, NULL, "%s", why);
    else
        (void)check_names(l->json, &l->error);
}

static void add_found(struct look_up *l, struct buf *out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(l->json, "conversation_ids"), *it;

    buf_add_char(out, '[');
    cJSON_ArrayForEach(it, list)
    {
        const char *name = cJSON_IsString(it) ? it->valuestring : "";
        const struct kept_stream *k =
            name[0] != '\0' ? find_conversation(l->streams, l->server, l->body.call, name) : NULL;

        if (k != NULL)
            add_conversation(name, k, out);
    }
    buf_add_char(out, ']');
}

static void look_up_done(struct body_job *j)
{
    struct look_up *l = list_entry(j, struct look_up, body);
    struct buf out;

    buf_init(&out, HTTP_MAX_REPLY);
    if (j->call != NULL && l->error.status != 0) {
        http_call_reply_error(j->call, &l->error);
    } else if (j->call != NULL) {
        add_found(l, &out);
        http_call_reply_page(j->call, "application/json", &out);
    }
    buf_release(&out);
    body_job_release(j);
    cJSON_Delete(l->json);
    mem_free(l);
}

void stream_call_look_up(struct stream_store *streams, const struct server_options *server,
                         struct body_jobs *jobs, struct http_call *call)
{
    struct look_up *l = mem_calloc(1, sizeof(*l));
    struct api_error e;

    if (l != NULL) {
        l->streams = streams;
        l->server = server;
        l->body.read = look_up_read;
        l->body.done = look_up_done;
        if (body_job_start(&l->body, jobs, call, "stream_look_up") == 0)
            return;
        mem_free(l);
    }
    api_error_set(&e, 429, NULL, "queue_full", "too many requests are being parsed");
    http_call_reply_error(call, &e);
}
