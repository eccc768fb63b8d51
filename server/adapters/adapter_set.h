/* server/adapters/adapter_set.h - the LoRA adapters that a served model knows by name.
 *
 * An adapter is known from the settings (`adapters`) or since a client loaded it, until it is
 * unloaded; its numbers are in memory while there is room for them (`adapter_memory`). A request
 * takes hold of its adapter, which is read again from its file where it had to leave. When room is
 * needed, the adapters leave that no request holds, the least recently used first; when those that
 * requests hold fill it, a request is told to come again. What a request holds stays as it is, also
 * when its name is unloaded or given to other numbers.
 *
 * A file takes as long as its disk does: it is read on a thread that does nothing else, and who
 * needs it waits without one.
 *
 * Thread: any; a mutex protects the list, and nobody holds it while a file is read. Waits and reads
 * are the I/O thread's.
 * Memory: the list, at most ADAPTER_SET_MAX names, and adapters within max_bytes.
 * Errors: *e filled, with an HTTP status.
 */
#ifndef SERVER_ADAPTERS_ADAPTER_SET_H
#define SERVER_ADAPTERS_ADAPTER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/list.h"
#include "server/http/error.h"

struct adapter;
struct model;
struct worker_pool;

#define ADAPTER_SET_MAX 1024
#define ADAPTER_SET_MAX_NAME 127
#define ADAPTER_SET_MAX_PATH 4096
#define ADAPTER_SET_NONE UINT32_MAX

struct adapter_set_options {
    const char *list;   /* setting `adapters`: NAME=PATH with commas between, checked; borrowed */
    const char *folder; /* setting `adapters_dir`: what clients may load from; "": they may not */
    uint64_t max_bytes;
    const struct model *model; /* borrowed */
};

struct adapter_set;

/* The settings' adapters are all read once: a broken file is an error now and not later. ERR_* with
 * a sentence. */
int adapter_set_create(struct adapter_set **out, const struct adapter_set_options *options,
                       char *err, size_t err_len);
/* No request may hold one any more. */
void adapter_set_destroy(struct adapter_set **s);

/* Is it one's name? NULL is a set of none. */
bool adapter_set_has(const struct adapter_set *s, const char *name);
/* Is it in the setting `adapters`, which has been checked? That is known without a set. */
bool adapter_set_lists(const char *list, const char *name);

/* What a request says of adapters, by name or by number. */
struct adapter_choice {
    char name[ADAPTER_SET_MAX_NAME + 1]; /* "": none */
    float scale;
};
/* The name of a number that adapter_set_list() gave out; false: there is none. */
bool adapter_set_name(const struct adapter_set *s, uint32_t id,
                      char name[ADAPTER_SET_MAX_NAME + 1]);
/* What holds for requests that say nothing: set by adapter_set_apply(). */
void adapter_set_default(const struct adapter_set *s, struct adapter_choice *out);
int adapter_set_apply(struct adapter_set *s, const struct adapter_choice *choice,
                      struct api_error *e);

/* ---- reading: all of this on the I/O thread ---- */

struct adapter_read;

/* Who waits for a file to be read: embedded in it, and untouched until done(). Zero waits for
 * none. */
struct adapter_wait {
    /* Once, unless adapter_wait_cancel() came first; perhaps before the wait's function returns.
     * The wait may be freed there, or wait again. */
    void (*done)(struct adapter_wait *w);
    struct adapter *adapter; /* for done(): held for it; NULL: there is none, because of */
    struct api_error error;
    /* private */
    struct adapter_read *read;
    struct list link;
};

/* Files are read on a thread of this pool from here on, one job each, whoever waits for it; before,
 * and with NULL, on the thread that asks. A set may be NULL. */
void adapter_set_read_on(struct adapter_set *s, struct worker_pool *pool);

/* Hold the adapter of that name; adapter_unref() lets go. ERR_AGAIN without *e: its file is read,
 * and `w` gets it. */
int adapter_set_take(struct adapter_set *s, const char *name, struct adapter_wait *w,
                     struct adapter **out, struct api_error *e);

struct adapter_source { /* what a client wants to be loaded; borrowed for the call */
    const char *name;
    const char *path; /* a file or folder in the set's folder, relative or absolute */
    bool replaces;    /* a name that is taken is no error: requests from now on get these numbers */
};
/* ERR_AGAIN without *e: its file is read, and `w` gets it when the name is there. */
int adapter_set_load(struct adapter_set *s, const struct adapter_source *what,
                     struct adapter_wait *w, struct api_error *e);

/* Nobody wants it any more: done() will not be called. A file that no one else waits for is read no
 * further than to its next row. False: it does not wait. */
bool adapter_wait_cancel(struct adapter_wait *w);

/* All that wait get a 503, and so does who comes later; files that are being read are read no
 * further. NULL is allowed. */
void adapter_set_close(struct adapter_set *s);
/* Is no file being read? Before that the pool must not be stopped. */
bool adapter_set_is_idle(const struct adapter_set *s);

/* ---- names ---- */

/* Forget a name, the settings' too. */
int adapter_set_unload(struct adapter_set *s, const char *name, struct api_error *e);

/* ---- what there is ---- */

struct adapter_info {
    uint32_t id; /* for ever; in ascending order */
    char name[ADAPTER_SET_MAX_NAME + 1], path[ADAPTER_SET_MAX_PATH];
    float scale;     /* for requests that say nothing; 0: not applied */
    int64_t created; /* Unix seconds */
    bool is_resident;
    uint32_t rank;   /* the largest */
    uint64_t bytes;
};

/* The one with the least id that is at least `from`; false: there is none. */
bool adapter_set_next(const struct adapter_set *s, uint32_t from, struct adapter_info *out);
bool adapter_set_find(const struct adapter_set *s, const char *name, struct adapter_info *out);

struct adapter_set_stats {
    uint32_t n_known, n_resident;
    uint64_t bytes, max_bytes; /* of those that are resident */
    uint64_t n_reads, n_evicted;
    bool may_grow; /* clients may load others */
};
void adapter_set_get_stats(const struct adapter_set *s, struct adapter_set_stats *out);

/* Append the names of those that requests run with, or wait for their place with, with commas
 * between; those of names that were forgotten meanwhile are left out. */
void adapter_set_add_running(const struct adapter_set *s, struct buf *out);
void adapter_set_add_waiting(const struct adapter_set *s, struct buf *out);

#endif
