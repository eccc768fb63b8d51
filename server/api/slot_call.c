/* server/api/slot_call.c - see slot_call.h.
 *
 * A save asks the engine how many blocks of the text are cached, makes the file, and then
 * alternates: the engine copies a piece out, a thread writes it. A restore opens the file; a thread
 * reads a piece, and the engine copies it in. Each turn ends in on_copied() or after_slot_work(),
 * which choose the next one; an error or a disconnect ends the action there.
 */
#include "server/api/slot_call.h"

#include "config/weights.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "scheduler/prefix_copy.h"
#include "server/api/api_request.h"
#include "server/api/engine_client.h"
#include "server/auth/auth.h"
#include "server/http/http_call.h"
#include "server/process/loop_guard.h"
#include "server/storage/slot_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum slot_action { SLOT_SAVE = 0, SLOT_RESTORE, SLOT_ERASE };

struct slot_job {
    struct engine_caller client;
    struct engine_client *engine;
    struct http_call *call; /* NULL: its client has disconnected */
    uv_work_t work;
    void (*do_work)(struct slot_job *j); /* on a thread; sets error */
    enum slot_action action;
    uint32_t slot;
    char tenant[WEIGHTS_MAX_NAME + 2], filename[SLOT_FILE_MAX_NAME + 1];
    uint64_t salt;
    int32_t *ids;   /* [n_ids] of a save */
    uint32_t n_ids;
    struct slot_file *file;
    struct slot_file_owner owner;
    uint32_t n_blocks, at; /* number of all blocks, and of those that were moved */
    bool is_asked;         /* the engine has counted the n_blocks of a save */
    uint32_t n_piece;      /* most blocks of a piece */
    struct prefix_copy copy;
    uint64_t begin_us;
    struct api_error error;
};

void slots_init(struct slots *s, const char *folder)
{
    *s = (struct slots){.folder = folder != NULL && folder[0] != '\0' ? folder : NULL};
    slot_table_init(&s->table);
}

void slots_release(struct slots *s)
{
    slot_table_release(&s->table);
}

/* ---- the end ---- */

static void destroy_slot_job(struct slot_job *j)
{
    engine_client_end_job(j->engine);
    j->engine->slots->is_busy = false;
    slot_file_close(&j->file);
    mem_free(j->copy.bytes);
    mem_free(j->copy.table);
    mem_free(j->ids);
    mem_free(j);
}

static void add_slot_result(struct slot_job *j, struct buf *out)
{
    const bool is_save = j->action == SLOT_SAVE;
    const double ms = (double)(clock_us() - j->begin_us) / 1000;

    buf_printf(out, "{\"id_slot\":%u,\"filename\":", j->slot);
    json_add_cstring(out, j->filename);
    buf_printf(out, ",\"%s\":%u,\"%s\":%" PRIu64 ",\"timings\":{\"%s\":%.3f}}",
               is_save ? "n_saved" : "n_restored", j->at * BLOCK_TOKENS,
               is_save ? "n_written" : "n_read", slot_file_bytes(j->file),
               is_save ? "save_ms" : "restore_ms", ms);
}

static void remember_restored(struct slot_job *j)
{
    const struct slot_name name = {j->tenant, j->slot};
    uint32_t n;
    const int32_t *ids = slot_file_ids(j->file, &n);

    slot_table_set(&j->engine->slots->table, &name, (struct slot_text){ids, n},
                   (struct slot_text){NULL, 0});
}

static void end_slot_job(struct slot_job *j)
{
    struct buf out;

    if (j->call != NULL && j->error.status == 0 && j->action == SLOT_RESTORE)
        remember_restored(j);
    if (j->call != NULL && j->error.status != 0) {
        http_call_reply_error(j->call, &j->error);
    } else if (j->call != NULL) {
        buf_init(&out, 4096);
        add_slot_result(j, &out);
        http_call_reply(j->call, 200, "application/json", &out);
    }
    destroy_slot_job(j);
}

static void on_slot_client_gone(void *ud)
{
    ((struct slot_job *)ud)->call = NULL;
}

/* ---- turns on a thread ---- */

static void advance_slot_job(struct slot_job *j);

static void on_slot_work(uv_work_t *work)
{
    struct slot_job *j = work->data;

    j->do_work(j);
}

static void after_slot_work(uv_work_t *work, int status)
{
    LOOP_CALLBACK(work->loop, "slot_call.done");
    (void)status; /* never canceled */
    advance_slot_job(work->data);
}

static void work(struct slot_job *j, void (*do_work)(struct slot_job *j))
{
    j->do_work = do_work;
    j->work.data = j;
    if (uv_queue_work(j->engine->shared->loop, &j->work, on_slot_work, after_slot_work) == 0)
        return;
    api_error_no_memory(&j->error);
    end_slot_job(j);
}

static void create_file(struct slot_job *j)
{
    slot_file_create(&j->file, j->engine->slots->folder, j->filename, &j->owner, j->ids, j->n_ids,
                     j->n_blocks, &j->error);
}

static void write_piece(struct slot_job *j)
{
    if (slot_file_write(j->file, j->copy.first, j->copy.n, j->copy.bytes, &j->error) == 0)
        j->at += j->copy.n;
}

static void finish_file(struct slot_job *j)
{
    slot_file_finish(j->file, &j->error);
}

static void open_file(struct slot_job *j)
{
    if (slot_file_open(&j->file, j->engine->slots->folder, j->filename, &j->owner, &j->error) == 0)
        j->n_blocks = slot_file_n_blocks(j->file);
}

static void read_piece(struct slot_job *j)
{
    slot_file_read(j->file, j->copy.first, j->copy.n, j->copy.bytes, &j->error);
}

/* ---- turns of the engine ---- */

static const int32_t *ids_of(const struct slot_job *j, uint32_t *n)
{
    *n = j->n_ids;
    return j->action == SLOT_SAVE ? j->ids : slot_file_ids(j->file, n);
}

static struct request *make_slot_request(struct slot_job *j)
{
    uint32_t n;
    const int32_t *ids = ids_of(j, &n);
    const struct request_size size = {.n_prompt = n};
    struct request *r;

    if (request_create(&r, &size) < 0)
        return NULL;
    memcpy(r->ids, ids, n * sizeof(*ids));
    r->key.salt = j->salt;
    r->key.origin.salt = j->tenant[0] != '\0' ? j->salt : 0;
    r->arrival_us = clock_us();
    r->is_dry_run = true;
    r->copy = &j->copy;
    return r;
}

/* Ask the engine for the copy that j->copy describes; on_copied() follows. */
static void copy_slot_text(struct slot_job *j)
{
    struct request *r;

    if (engine_client_check_dry_room(j->engine, 1, &j->error) < 0) {
        end_slot_job(j);
        return;
    }
    mem_free(j->copy.table);
    j->copy.table = mem_alloc((size_t)(j->copy.first + j->copy.n + 1) * sizeof(*j->copy.table));
    r = j->copy.table != NULL ? make_slot_request(j) : NULL;
    if (r == NULL) {
        api_error_no_memory(&j->error);
        end_slot_job(j);
        return;
    }
    engine_client_register(j->engine, r, &j->client, 0);
    engine_client_post(j->engine, &r, 1);
}

static void describe_piece(struct slot_job *j)
{
    const uint32_t left = j->n_blocks - j->at;

    j->copy.first = j->at;
    j->copy.n = left < j->n_piece ? left : j->n_piece;
    j->copy.is_in = j->action == SLOT_RESTORE;
}

static void on_copied_out(struct slot_job *j)
{
    if (!j->is_asked) {
        j->is_asked = true;
        j->n_blocks = j->copy.n_there;
        work(j, create_file);
    } else if (j->copy.n_there < j->copy.first + j->copy.n) {
        api_error_set(&j->error, 503, NULL, NULL,
                      "the slot's blocks were evicted while it was saved: there is too little room "
                      "in the KV cache");
        end_slot_job(j);
    } else {
        work(j, write_piece);
    }
}

/* Called when a piece was copied in. If the cache has no room for more blocks, the restore ends
 * with those that it has. */
static void on_copied_in(struct slot_job *j)
{
    j->at = j->copy.n_there;
    if (j->at < j->copy.first + j->copy.n)
        j->n_blocks = j->at;
    advance_slot_job(j);
}

static void on_copied(struct engine_caller *client, uint32_t part, const struct event *e)
{
    struct slot_job *j = list_entry(client, struct slot_job, client);

    (void)part;
    if (e->kind != EVENT_END)
        return;
    if (e->finish != FINISH_DRY_RUN) {
        api_error_set(&j->error, 503, NULL, NULL, "the server is shutting down");
        end_slot_job(j);
    } else if (j->action == SLOT_SAVE) {
        on_copied_out(j);
    } else {
        on_copied_in(j);
    }
}

/* ---- the next turn ---- */

static void after_save_work(struct slot_job *j)
{
    if (j->do_work == finish_file) {
        end_slot_job(j);
    } else if (j->at < j->n_blocks) {
        describe_piece(j);
        copy_slot_text(j);
    } else {
        work(j, finish_file);
    }
}

static void after_restore_work(struct slot_job *j)
{
    if (j->do_work == read_piece && j->at == j->copy.first && j->at < j->n_blocks) {
        copy_slot_text(j);
    } else if (j->at < j->n_blocks) {
        describe_piece(j);
        work(j, read_piece);
    } else {
        end_slot_job(j);
    }
}

static void advance_slot_job(struct slot_job *j)
{
    if (j->call == NULL || j->error.status != 0)
        end_slot_job(j);
    else if (j->action == SLOT_SAVE)
        after_save_work(j);
    else
        after_restore_work(j);
}

/* ---- the call ---- */

static int read_action(struct slot_job *j, const struct http_call *call)
{
    static const char *const names[] = {"save", "restore", "erase"};
    const char *action = http_call_query(call, "action");

    for (int i = 0; i < 3; i++)
        if (action != NULL && strcmp(action, names[i]) == 0) {
            j->action = (enum slot_action)i;
            return 0;
        }
    return api_error_set(&j->error, 400, "action", NULL,
                         "'action' must be save, restore or erase, as in /slots/0?action=save");
}

static int read_slot(struct slot_job *j, const struct http_call *call)
{
    const char *tail = http_call_tail(call);
    const size_t n = strlen(tail);
    const uint32_t n_slots = j->engine->model->max_sequences;

    j->slot = (uint32_t)strtoul(tail, NULL, 10);
    if (n == 0 || n > 9 || tail[strspn(tail, "0123456789")] != '\0' || j->slot >= n_slots)
        return api_error_set(&j->error, 400, "id_slot", NULL,
                             "Invalid slot ID: slots are numbered from 0 to %u", n_slots - 1);
    return 0;
}

static int read_filename(struct slot_job *j, const struct http_call *call)
{
    const char *name = NULL;
    cJSON *json = NULL;

    if (http_call_json(call, &json, &j->error) == 0)
        name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "filename"));
    if (name != NULL && slot_file_is_name(name))
        memcpy(j->filename, name, strlen(name) + 1);
    cJSON_Delete(json);
    if (j->filename[0] != '\0')
        return 0;
    return api_error_set(&j->error, 400, "filename", NULL,
                         "Invalid filename: the body must have a 'filename' of 1 to %d bytes "
                         "without path, control characters or a dot in front",
                         SLOT_FILE_MAX_NAME);
}

static uint64_t owner_of(const char *tenant)
{
    return tenant[0] != '\0' ? XXH3_64bits(tenant, strlen(tenant)) : 0;
}

/* Read from the engine the id of the keys and values, and the size of a block. */
static int read_engine(struct slot_job *j)
{
    const struct server_model *m = j->engine->model;
    struct engine_stats stats;

    queue_get_stats(j->engine->queue, &stats);
    if (m->is_encoder)
        return api_error_set(&j->error, 501, NULL, NULL,
                             "the model '%s' is an encoder, which keeps no tokens between "
                             "requests, so its slots cannot be saved",
                             m->id);
    if (!m->shares_prefixes)
        return api_error_set(&j->error, 501, NULL, NULL,
                             "the slots of the model '%s' cannot be saved, because its prefix "
                             "cache is off: set prefix_cache = on",
                             m->id);
    if (stats.groups.n_window > 0)
        return api_error_set(&j->error, 501, NULL, NULL,
                             "the model '%s' has sliding-window layers, which do not keep all "
                             "tokens, so its slots cannot be saved",
                             m->id);
    if (stats.states.slots.n_blocks > 0)
        return api_error_set(&j->error, 501, NULL, NULL,
                             "the model '%s' has recurrent layers, whose states no file of a "
                             "slot holds, so its slots cannot be saved",
                             m->id);
    j->owner = (struct slot_file_owner){.kv_id = {m->kv_id[0], m->kv_id[1]},
                                        .owner = owner_of(j->tenant),
                                        .block_bytes = stats.block_bytes,
                                        .n_vocab = m->n_vocab,
                                        .max_tokens = m->max_context,
                                        .limits = j->engine->shared->options->slot_limits};
    j->n_piece = (uint32_t)(SLOT_CALL_PIECE / stats.block_bytes);
    if (j->n_piece == 0)
        j->n_piece = 1;
    j->copy.bytes = mem_alloc(j->n_piece * stats.block_bytes);
    return j->copy.bytes != NULL ? 0 : api_error_no_memory(&j->error);
}

static int take_slot_text(struct slot_job *j)
{
    const struct slot_name name = {j->tenant, j->slot};
    const struct slot_text text = slot_table_get(&j->engine->slots->table, &name);

    if (text.n == 0)
        return api_error_set(&j->error, 400, "id_slot", NULL,
                             "slot %u is empty: no request has ended there", j->slot);
    j->n_ids = (uint32_t)(text.n < j->owner.max_tokens ? text.n : j->owner.max_tokens);
    j->ids = mem_dup(text.ids, j->n_ids * sizeof(*j->ids));
    return j->ids != NULL ? 0 : api_error_no_memory(&j->error);
}

static int read_slot_call(struct slot_job *j, struct http_call *call)
{
    const struct server_options *server = j->engine->shared->options;

    if (!slots_are_on(j->engine->slots))
        return api_error_set(&j->error, 501, NULL, NULL,
                             "This server does not support slots actions: start it with the "
                             "setting slot_save_path");
    if (read_action(j, call) < 0 || read_slot(j, call) < 0)
        return ERR_INVAL;
    auth_tenant(call, server->tenant_header, j->tenant, sizeof(j->tenant));
    j->salt = api_request_salt(j->tenant, "", server->salt_seed);
    if (j->action == SLOT_ERASE)
        return 0;
    if (read_filename(j, call) < 0 || read_engine(j) < 0)
        return ERR_INVAL;
    return j->action == SLOT_SAVE ? take_slot_text(j) : 0;
}

static void erase(struct slot_job *j)
{
    const struct slot_name name = {j->tenant, j->slot};
    struct buf out;

    buf_init(&out, 4096);
    buf_printf(&out, "{\"id_slot\":%u,\"n_erased\":%zu}", j->slot,
               slot_table_erase(&j->engine->slots->table, &name));
    http_call_reply(j->call, 200, "application/json", &out);
    j->call = NULL;
    destroy_slot_job(j);
}

static void begin_slot_job(struct slot_job *j)
{
    j->begin_us = clock_us();
    http_call_on_gone(j->call, on_slot_client_gone, j);
    if (j->action == SLOT_RESTORE) {
        work(j, open_file);
        return;
    }
    j->copy.first = j->n_ids / BLOCK_TOKENS;
    copy_slot_text(j);
}

void slot_call_start(struct engine_client *engine, struct http_call *call)
{
    struct slot_job *j = mem_calloc(1, sizeof(*j));
    struct api_error e;

    if (j == NULL || engine->slots->is_busy) {
        mem_free(j);
        api_error_set(&e, 503, NULL, NULL, "another slot is being saved or restored");
        http_call_set_header(call, "Retry-After", "1");
        http_call_reply_error(call, &e);
        return;
    }
    j->engine = engine;
    j->call = call;
    j->client.event = on_copied;
    engine_client_begin_job(engine);
    engine->slots->is_busy = true;
    if (read_slot_call(j, call) < 0)
        end_slot_job(j);
    else if (j->action == SLOT_ERASE)
        erase(j);
    else
        begin_slot_job(j);
}
