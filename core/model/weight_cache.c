/* core/model/weight_cache.c - the id, header and reading of the weight cache; see weight_cache.h.
 * Writing is in weight_cache_write.c.
 *
 * model_load() computes the id from the open model file and the list of matrices, reading only
 * samples of their data. A cache is refused at the first difference, with the reason. Its panels
 * are then read in chunks by several threads, each of which takes the next chunk's number and
 * compares its checksum, straight into the model's mapping.
 */
#include "core/model/weight_cache.h"

#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "core/model/load.h"
#include "core/model/weight_cache_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define N_SAMPLES 64
#define SAMPLE_BYTES 4096

/* ---- the id ---- */

static void put_hash(uint64_t out[2], XXH128_hash_t h)
{
    out[0] = h.low64;
    out[1] = h.high64;
}

/* Hash N_SAMPLES parts of the data at equal distances; the last one ends with the data. */
static void hash_samples(uint64_t out[2], const uint8_t *data, uint64_t bytes)
{
    uint64_t sums[N_SAMPLES] = {0};
    const uint64_t one = bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES;

    for (uint64_t i = 0; i < N_SAMPLES; i++)
        sums[i] = XXH3_64bits(data + (bytes - one) / (N_SAMPLES - 1) * i, (size_t)one);
    sums[0] ^= XXH3_64bits(data + bytes - one, (size_t)one);
    put_hash(out, XXH3_128bits(sums, sizeof(sums)));
}

/* Hash a panel of one group that is packed from a known pattern; the pattern's bytes differ from
 * place to place. */
static uint64_t panel_form(enum kern_weight type)
{
    _Alignas(64) uint8_t panel[8192] = {0}; /* room for a panel's group of any type */
    uint8_t rows[KERN_LANES][1024];         /* a row's group is 256 floats at most */
    const void *at[KERN_LANES];

    for (size_t lane = 0; lane < KERN_LANES; lane++) {
        for (size_t i = 0; i < sizeof(rows[0]); i++)
            rows[lane][i] = (uint8_t)((lane * sizeof(rows[0]) + i) * 2654435761u >> 13);
        at[lane] = rows[lane];
    }
    kern_pack(type, panel, at, kern_weight_group(type));
    return XXH3_64bits(panel, sizeof(panel));
}

struct place {
    uint64_t name, at, n_in, n_out, n_each, row0, row_stride, run, run_stride, panel_bytes, form,
        recipe, n_parts, part_stride;
};

static void hash_layout(uint64_t out[2], const struct matrix_job *jobs, size_t n_jobs)
{
    XXH128_hash_t h = {0};

    for (size_t i = 0; i < n_jobs; i++) {
        const struct matrix_job *j = &jobs[i];
        struct {
            XXH128_hash_t before;
            struct place place;
        } link = {h,
                  {XXH3_64bits(j->src->name.data, j->src->name.len), j->at, j->dst->n_in,
                   j->dst->n_out, j->dst->n_each, j->row0, j->row_stride, j->run, j->run_stride,
                   j->dst->panel_bytes, panel_form(j->dst->type),
                   j->src->recipe != NULL ? j->src->recipe->id : 0, j->dst->n_parts,
                   j->dst->part_stride}};

        h = XXH3_128bits(&link, sizeof(link));
    }
    put_hash(out, h);
}

/* Hash the bytes before the tensors' data, chained with those of the files before. */
static void hash_directory(struct weight_cache_id *id, const struct gguf_file *f)
{
    struct {
        uint64_t before[2];
        XXH128_hash_t here;
        uint64_t bytes;
    } link = {
        {id->directory[0], id->directory[1]}, XXH3_128bits(f->data, (size_t)f->data_at), f->bytes};

    put_hash(id->directory, XXH3_128bits(&link, sizeof(link)));
}

static void add_file(struct weight_cache_id *id, const struct gguf_file *f)
{
    uint64_t link[4] = {id->samples[0], id->samples[1]};

    hash_directory(id, f);
    if (f->bytes > f->data_at) {
        hash_samples(link + 2, f->data + f->data_at, f->bytes - f->data_at);
        put_hash(id->samples, XXH3_128bits(link, sizeof(link)));
    }
    id->model_bytes += f->bytes;
    id->model_mtime_ns = (int64_t)((uint64_t)id->model_mtime_ns + (uint64_t)f->mtime_ns);
}

void weight_cache_identify(struct weight_cache_id *id, const struct gguf *g,
                           const struct matrix_job *jobs, size_t n_jobs)
{
    memset(id, 0, sizeof(*id));
    for (uint32_t i = 0; i < gguf_n_files(g); i++) {
        const struct gguf_file f = gguf_file_at(g, i);

        add_file(id, &f);
    }
    hash_layout(id->layout, jobs, n_jobs);
}

int weight_cache_path(char path[WEIGHT_CACHE_MAX_PATH], const char *folder, const char *model)
{
    const char *slash = strrchr(model, '/');
    char *full;
    int n;

    if (folder == NULL || folder[0] == '\0') {
        n = snprintf(path, WEIGHT_CACHE_MAX_PATH, "%s.quire-cache", model);
    } else {
        full = realpath(model, NULL);
        n = snprintf(path, WEIGHT_CACHE_MAX_PATH, "%s/%s.%016llx.quire-cache", folder,
                     slash != NULL ? slash + 1 : model,
                     full != NULL ? (unsigned long long)XXH3_64bits(full, strlen(full)) : 0);
        mem_free(full);
    }
    /* the name of the file being written is a little longer */
    return n < 0 || n + 8 > WEIGHT_CACHE_MAX_PATH ? ERR_LIMIT : 0;
}

/* ---- the header ---- */

uint64_t weight_cache_n_chunks(uint64_t panel_bytes)
{
    return (panel_bytes + WEIGHT_CACHE_CHUNK - 1) / WEIGHT_CACHE_CHUNK;
}

void weight_cache_fill_header(struct weight_cache_header *h, const struct weight_cache_id *id,
                              uint64_t panel_bytes)
{
    const uint64_t sums_end = sizeof(*h) + weight_cache_n_chunks(panel_bytes) * sizeof(uint64_t);

    memset(h, 0, sizeof(*h));
    memcpy(h->magic, WEIGHT_CACHE_MAGIC, sizeof(h->magic));
    h->order = WEIGHT_CACHE_ORDER;
    h->format = WEIGHT_CACHE_FORMAT;
    h->panels_at = (sums_end + 4095) & ~(uint64_t)4095;
    h->panel_bytes = panel_bytes;
    h->chunk_bytes = WEIGHT_CACHE_CHUNK;
    h->id = *id;
}

uint64_t weight_cache_header_sum(const struct weight_cache_header *h)
{
    return XXH3_64bits(h, offsetof(struct weight_cache_header, header_sum));
}

static bool same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static const char *id_differs(const struct weight_cache_id *a, const struct weight_cache_id *b)
{
    if (a->model_bytes != b->model_bytes)
        return "the model file has another size";
    if (a->model_mtime_ns != b->model_mtime_ns)
        return "the model file has another modification time";
    if (!same(a->directory, b->directory))
        return "the model file has another header";
    if (!same(a->samples, b->samples))
        return "the model file has other data";
    return same(a->layout, b->layout) ? NULL : "the panels have another layout";
}

/* Return the reason why the header is refused, or NULL; `want` is the header that a new file would
 * get. */
static const char *header_differs(const struct weight_cache_header *h,
                                  const struct weight_cache_header *want)
{
    if (memcmp(h->magic, want->magic, sizeof(h->magic)) != 0)
        return "it is not a weight cache";
    if (h->order != want->order)
        return "it has another byte order";
    if (h->format != want->format)
        return "it has another format";
    if (h->header_sum != weight_cache_header_sum(h))
        return "its header is damaged";
    if (h->panels_at != want->panels_at || h->panel_bytes != want->panel_bytes ||
        h->chunk_bytes != want->chunk_bytes)
        return "the panels have another size";
    return id_differs(&h->id, &want->id);
}

/* ---- reading ---- */

int weight_cache_read(int fd, void *data, size_t bytes, uint64_t at)
{
    const int64_t n = file_read(fd, data, bytes, (int64_t)at);

    if (n < 0)
        return err_from_errno(errno);
    return (uint64_t)n < bytes ? ERR_FORMAT : 0;
}

struct reading {
    int fd;
    struct weight_cache_header header;
    uint64_t *sums;
    uint8_t *panels;
    /* relaxed: pthread_join() publishes what the threads wrote */
    atomic_uint_fast64_t next; /* next chunk to take */
    atomic_uint_fast64_t bad;  /* number of a damaged chunk, or UINT64_MAX */
};

static void *read_chunks(void *ud)
{
    struct reading *r = ud;
    const uint64_t bytes = r->header.panel_bytes, n_chunks = weight_cache_n_chunks(bytes);

    for (;;) {
        const uint64_t c = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        const uint64_t at = c * WEIGHT_CACHE_CHUNK;
        uint64_t n;

        if (c >= n_chunks || atomic_load_explicit(&r->bad, memory_order_relaxed) != UINT64_MAX)
            return NULL;
        n = bytes - at < WEIGHT_CACHE_CHUNK ? bytes - at : WEIGHT_CACHE_CHUNK;
        if (weight_cache_read(r->fd, r->panels + at, (size_t)n, r->header.panels_at + at) < 0 ||
            weight_cache_chunk_sum(r->panels + at, (size_t)n, c) != r->sums[c])
            atomic_store_explicit(&r->bad, c, memory_order_relaxed);
    }
}

static void read_on(struct reading *r, uint32_t n_threads)
{
    pthread_t threads[64];
    uint32_t n = 0;

    while (n + 1 < n_threads && n < 64 && pthread_create(&threads[n], NULL, read_chunks, r) == 0)
        n++;
    read_chunks(r);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

static int refuse_cache(char *cause, const char *why)
{
    snprintf(cause, WEIGHT_CACHE_MAX_CAUSE, "%s", why);
    return ERR_FORMAT;
}

static int read_header(struct reading *r, const struct weight_cache_header *want, char *cause)
{
    const uint64_t n = weight_cache_n_chunks(want->panel_bytes);
    const char *why;

    if (weight_cache_read(r->fd, &r->header, sizeof(r->header), 0) < 0)
        return refuse_cache(cause, "it is truncated");
    why = header_differs(&r->header, want);
    if (why != NULL)
        return refuse_cache(cause, why);
    r->sums = mem_calloc((size_t)n, sizeof(*r->sums));
    if (r->sums == NULL)
        return refuse_cache(cause, "there is no memory");
    if (weight_cache_read(r->fd, r->sums, (size_t)n * sizeof(*r->sums), sizeof(r->header)) < 0)
        return refuse_cache(cause, "it is truncated");
    if (XXH3_64bits(r->sums, (size_t)n * sizeof(*r->sums)) != r->header.sums_sum)
        return refuse_cache(cause, "its checksums are damaged");
    return 0;
}

/* Check that only a trusted owner can write to the file, and that it has a whole header. */
static int check_file(const struct reading *r, const struct weight_cache_header *want, char *cause)
{
    struct stat st;

    if (fstat(r->fd, &st) != 0)
        return refuse_cache(cause, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse_cache(cause, "it is not a regular file");
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refuse_cache(cause, "other users can write to it");
    if ((uint64_t)st.st_size < sizeof(*want))
        return refuse_cache(cause, "it is truncated");
    return 0;
}

static int check_size(const struct reading *r, char *cause)
{
    struct stat st;

    if (fstat(r->fd, &st) != 0 ||
        (uint64_t)st.st_size != r->header.panels_at + r->header.panel_bytes)
        return refuse_cache(cause, "it is truncated");
    return 0;
}

static int read_panels(struct reading *r, uint32_t n_threads, char *cause)
{
    uint64_t bad;

    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    read_on(r, n_threads);
    bad = atomic_load(&r->bad);
    if (bad == UINT64_MAX)
        return 0;
    snprintf(cause, WEIGHT_CACHE_MAX_CAUSE, "chunk %llu is damaged", (unsigned long long)bad);
    return ERR_FORMAT;
}

int weight_cache_load(const char *path, const struct weight_cache_id *id, void *panels,
                      uint64_t bytes, uint32_t n_threads, char cause[WEIGHT_CACHE_MAX_CAUSE])
{
    struct weight_cache_header want;
    struct reading r = {.panels = panels};
    int rc;

    cause[0] = '\0';
    r.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: open() must not wait for a
                                                           * FIFO's writer; check_file() refuses
                                                           * it */
    if (r.fd < 0) {
        snprintf(cause, WEIGHT_CACHE_MAX_CAUSE, "%s", strerror(errno));
        return errno == ENOENT ? ERR_NOENT : ERR_IO;
    }
    atomic_init(&r.next, 0);
    atomic_init(&r.bad, UINT64_MAX);
    weight_cache_fill_header(&want, id, bytes);
    rc = check_file(&r, &want, cause);
    if (rc == 0)
        rc = read_header(&r, &want, cause);
    if (rc == 0)
        rc = check_size(&r, cause);
    if (rc == 0)
        rc = read_panels(&r, n_threads, cause);
    mem_free(r.sums);
    close(r.fd);
    return rc;
}
