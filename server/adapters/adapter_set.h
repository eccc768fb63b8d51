/* server/adapters/adapter_set.h - the LoRA adapters that a served model knows by name.
 *
 * An adapter is known from the settings (`adapters`) or since a client loaded it, until it is
 * unloaded; its numbers are in memory while there is room for them (`adapter_memory`). A request
 * takes hold of its adapter, which is read again from its file where it had to leave. When room is
 * needed, the adapters leave that no request holds, the least recently used first; when those that
 * requests hold fill it, a request is told to come again. What a request holds stays as it is, also
 * when its name is unloaded or given to other numbers.
 *
 * Thread: any; a mutex protects the list, and nobody holds it while a file is read.
 * Memory: the list, at most ADAPTER_SET_MAX names, and adapters within max_bytes.
 * Errors: *e filled, with an HTTP status.
 */
#ifndef SERVER_ADAPTERS_ADAPTER_SET_H
#define SERVER_ADAPTERS_ADAPTER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/error.h"

struct adapter;
struct model;

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

/* Hold the adapter of that name; adapter_unref() lets go. It may have to be read, which takes as
 * long as the disk does: ERR_AGAIN without *e, unless may_read. */
int adapter_set_take(struct adapter_set *s, const char *name, bool may_read, struct adapter **out,
                     struct api_error *e);

/* A client's adapter: `path` is a file or folder in the set's folder, relative or absolute. A name
 * that is taken is an error, unless `replaces`: then requests from now on get the new numbers.
 * Reads the file. */
int adapter_set_load(struct adapter_set *s, const char *name, const char *path, bool replaces,
                     struct api_error *e);
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
};
void adapter_set_get_stats(const struct adapter_set *s, struct adapter_set_stats *out);

#endif
