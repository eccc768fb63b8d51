/* server/server_requests.c - requests that outlive the process; see server_impl.h.
 *
 * It connects the file of requests_db (request_keeper.h) and the restorer, which continues requests
 * of an earlier process as local calls, with the server's life: opened after the streams, started
 * with the threads, put off when the drain begins.
 */
#include "server/server_impl.h"

#include "core/base/err.h"
#include "server/auth/api_keys.h"
#include "server/storage/request_restorer.h"

#include <stdio.h>

static struct key *find_key(void *ud, const char *name)
{
    const struct server *s = ud;

    return s->keys != NULL ? keys_find_name(s->keys, name) : NULL;
}

int server_open_requests(struct server *s, char *err, size_t err_len)
{
    const char *path = s->opt.requests_db != NULL ? s->opt.requests_db : "";
    const struct request_keeper_options keeper = {&s->loop, s->storage, path, s->opt.requests_size};
    struct request_restorer_options restorer = {.loop = &s->loop, .find_key = find_key, .ud = s};
    int rc;

    if (path[0] == '\0')
        return 0;
    if (s->streams == NULL) {
        snprintf(err, err_len,
                 "requests_db is for streams that are kept: stream_keep_ms must not "
                 "be 0");
        return ERR_INVAL;
    }
    rc = request_keeper_open(&s->requests, &keeper, err, err_len);
    if (rc < 0)
        return rc;
    restorer.keeper = s->requests;
    rc = request_restorer_create(&s->restorer, &restorer);
    return rc < 0 ? snprintf(err, err_len, "no memory for requests_db"), rc : 0;
}

void server_run_requests(struct server *s)
{
    if (s->requests != NULL)
        request_keeper_start(s->requests);
    if (s->restorer != NULL)
        request_restorer_start(s->restorer, http_local_calls(s->http));
}

void server_put_off_requests(struct server *s)
{
    request_restorer_drain(s->restorer);
    request_keeper_put_off(s->requests);
}

void server_stop_requests(struct server *s)
{
    request_restorer_stop(s->restorer);
    request_keeper_stop(s->requests);
}

void server_close_requests(struct server *s)
{
    request_restorer_destroy(&s->restorer);
    request_keeper_close(&s->requests);
}
