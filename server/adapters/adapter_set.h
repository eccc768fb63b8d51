/* server/adapters/adapter_set.h - the LoRA adapters that a served model knows by name.
 *
 * An adapter is known from the settings (`adapters`) or because a client has loaded it, until it is
 * unloaded; its weights are in memory while there is room (`adapter_memory`). A request holds its
 * adapter; if that was evicted, it is read again first. When room is needed, adapters that no
 * request holds are evicted, the least recently used first; when those that requests hold fill the
 * memory, a request is told to retry. The adapter that a request holds does not change, even when
 * its name is unloaded or given to another adapter.
 *
 * Reading a file may take long: files are read on a thread of their own, and a request waits
 * without a thread.
 *
 * Thread: any; a mutex protects the list, and is never held while a file is read. Waits and reads
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
    const char *list;   /* setting `adapters`: NAME=PATH separated by commas, checked; borrowed */
    const char *folder; /* setting `adapters_dir`: folder from which clients may load adapters; "":
                         * they may not */
    uint64_t max_bytes;
    const struct model *model; /* borrowed */
};

struct adapter_set;

/* Read each adapter of the settings once, so that a broken file is an error at the start. ERR_*
 * with a sentence. */
int adapter_set_create(struct adapter_set **out, const struct adapter_set_options *options,
                       char *err, size_t err_len);
/* No request may hold an adapter any more. */
void adapter_set_destroy(struct adapter_set **s);

/* True: an adapter of the set has the name. s NULL: false. */
bool adapter_set_has(const struct adapter_set *s, const char *name);
/* True: the setting `adapters`, which has been checked, has the name; needs no set. */
bool adapter_set_lists(const char *list, const char *name);

/* The adapter that a request chooses, by name or by number. */
struct adapter_choice {
    char name[ADAPTER_SET_MAX_NAME + 1]; /* "": none */
    float scale;
};
/* Copy the name of the adapter with that id. False: there is none. */
bool adapter_set_name(const struct adapter_set *s, uint32_t id,
                      char name[ADAPTER_SET_MAX_NAME + 1]);
/* Write the adapter of requests that name none to *out, as adapter_set_apply() has set it. */
void adapter_set_default(const struct adapter_set *s, struct adapter_choice *out);
int adapter_set_apply(struct adapter_set *s, const struct adapter_choice *choice,
                      struct api_error *e);

/* ---- reading: all of this on the I/O thread ---- */

struct adapter_read;

/* A wait until a file is read: embedded in its owner, who leaves it alone until done(). Zero: it
 * does not wait. */
struct adapter_wait {
    /* Called once, unless adapter_wait_cancel() came first; perhaps before the function that made
     * the wait returns. The wait may be freed in it, or used again. */
    void (*done)(struct adapter_wait *w);
    struct adapter *adapter; /* in done(): the adapter, whose reference done() takes; NULL: `error`
                              * has the reason */
    struct api_error error;
    /* private */
    struct adapter_read *read;
    struct list link;
};

/* Read files on a thread of this pool from now on, one job each, however many wait for it; before
 * that, and with NULL, on the calling thread. s may be NULL. */
void adapter_set_read_on(struct adapter_set *s, struct worker_pool *pool);

/* Hold the adapter of that name, until adapter_unref(). ERR_AGAIN without *e: its file is being
 * read, and `w` gets the adapter. */
int adapter_set_take(struct adapter_set *s, const char *name, struct adapter_wait *w,
                     struct adapter **out, struct api_error *e);

struct adapter_source { /* an adapter that a client loads; borrowed during the call */
    const char *name;
    const char *path; /* a file or folder in the set's folder, relative or absolute */
    bool replaces;    /* the name may be in use: later requests get this adapter */
};
/* Load an adapter. ERR_AGAIN without *e: the file is being read, and done() of `w` is called
 * afterwards. */
int adapter_set_load(struct adapter_set *s, const struct adapter_source *what,
                     struct adapter_wait *w, struct api_error *e);

/* Cancel a wait: done() will not be called. The read of a file that no other wait needs stops at
 * its next row. False: it does not wait. */
bool adapter_wait_cancel(struct adapter_wait *w);

/* Answer all waits, and later ones, with a 503, and stop reading files. s may be NULL. */
void adapter_set_close(struct adapter_set *s);
/* True: no file is being read. The pool must not be stopped before. */
bool adapter_set_is_idle(const struct adapter_set *s);

/* ---- names ---- */

/* Forget a name, even of the settings. */
int adapter_set_unload(struct adapter_set *s, const char *name, struct api_error *e);

/* ---- queries ---- */

struct adapter_info {
    uint32_t id; /* never reused; ascending */
    char name[ADAPTER_SET_MAX_NAME + 1], path[ADAPTER_SET_MAX_PATH];
    float scale;     /* scale for requests that name no adapter; 0: it is not applied to them */
    int64_t created; /* Unix seconds */
    bool is_resident;
    uint32_t rank;   /* the largest */
    uint64_t bytes;
};

/* Describe the adapter with the least id >= `from`. False: there is none. */
bool adapter_set_next(const struct adapter_set *s, uint32_t from, struct adapter_info *out);
bool adapter_set_find(const struct adapter_set *s, const char *name, struct adapter_info *out);

struct adapter_set_stats {
    uint32_t n_known, n_resident;
    uint64_t bytes, max_bytes; /* of resident adapters */
    uint64_t n_reads, n_evicted;
    bool may_grow; /* clients may load more */
};
void adapter_set_get_stats(const struct adapter_set *s, struct adapter_set_stats *out);

/* Append the names of adapters that running, or waiting, requests use, separated by commas;
 * forgotten names are left out. */
void adapter_set_add_running(const struct adapter_set *s, struct buf *out);
void adapter_set_add_waiting(const struct adapter_set *s, struct buf *out);

#endif
