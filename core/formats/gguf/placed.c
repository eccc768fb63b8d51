/* core/formats/gguf/placed.c - a header in memory whose tensors are in other files (see gguf.h).
 *
 * Each place becomes a spot: file, offset, length, and where to store the address. The spots are
 * sorted by file and offset, so one pass checks that each is inside its file and that no two
 * overlap, tensors and parts of recipes alike.
 */
#include "core/formats/gguf/gguf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The place of a tensor, or of a part of its recipe; for sorting. */
struct spot {
    uint32_t file, tensor;
    uint64_t offset, bytes;
    const uint8_t **data; /* pointer that gets the address */
};

static int by_place(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int fail_past_end(const struct gguf *in, const struct gguf_tensor *t,
                         const struct spot *spot, char *err, size_t err_len)
{
    snprintf(err, err_len,
             "%s: tensor '%.*s': %" PRIu64 " bytes at offset %" PRIu64
             " reach past the end of the file, which has %" PRIu64,
             in->name, (int)t->name.len, t->name.data, spot->bytes, spot->offset, in->file.bytes);
    return ERR_FORMAT;
}

static int fail_overlap(const struct gguf *in, const struct gguf_tensor *a,
                        const struct gguf_tensor *b, char *err, size_t err_len)
{
    snprintf(err, err_len, "%s: tensor '%.*s': overlaps tensor '%.*s'", in->name, (int)b->name.len,
             b->name.data, (int)a->name.len, a->name.data);
    return ERR_FORMAT;
}

/* Give the tensors of sorted spots their data. */
static int place_sorted(struct gguf *g, const struct spot *spots, size_t n, char *err,
                        size_t err_len)
{
    for (size_t i = 0; i < n; i++) {
        struct gguf *in = g->more[spots[i].file];
        const struct gguf_tensor *t = &g->tensors[spots[i].tensor];

        if (spots[i].offset > in->file.bytes || spots[i].bytes > in->file.bytes - spots[i].offset)
            return fail_past_end(in, t, &spots[i], err, err_len);
        if (i > 0 && spots[i - 1].file == spots[i].file &&
            spots[i].offset < spots[i - 1].offset + spots[i - 1].bytes)
            return fail_overlap(in, &g->tensors[spots[i - 1].tensor], t, err, err_len);
        *spots[i].data = in->file.base + spots[i].offset;
        in->n_own_tensors++;
    }
    return 0;
}

/* Add the spots of tensor i: its own, or those of its recipe's parts. */
static size_t add_spots(struct gguf *g, uint32_t i, const struct gguf_location *place,
                        struct spot *spots)
{
    struct gguf_tensor *t = &g->tensors[i];
    struct gguf_recipe *r = place->recipe;

    if (r == NULL && place->file == GGUF_OWN_DATA)
        return 0;
    if (r == NULL) {
        spots[0] = (struct spot){place->file, i, place->offset, t->bytes,
                                 (const uint8_t **)(void *)&t->data};
        return 1;
    }
    for (uint32_t p = 0; p < r->n_parts; p++)
        spots[p] = (struct spot){r->parts[p].file, i, r->parts[p].offset, r->parts[p].bytes,
                                 &r->parts[p].data};
    t->recipe = r;
    return r->n_parts;
}

static size_t count_spots(const struct gguf *g, const struct gguf_location *places)
{
    size_t n = 1;

    for (uint32_t i = 0; i < g->n_tensors; i++)
        n += places[i].recipe != NULL ? places[i].recipe->n_parts : 1;
    return n;
}

static int place_all(struct gguf *g, const struct gguf_location *places, char *err, size_t err_len)
{
    struct spot *spots = mem_calloc(count_spots(g, places), sizeof(*spots));
    size_t n = 0;
    int rc;

    if (spots == NULL) {
        snprintf(err, err_len, "%s: out of memory", g->name);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < g->n_tensors; i++)
        n += add_spots(g, i, &places[i], spots + n);
    for (size_t i = 0; i < n; i++)
        assert(spots[i].file < g->n_more);
    qsort(spots, n, sizeof(*spots), by_place);
    rc = place_sorted(g, spots, n, err, err_len);
    mem_free(spots);
    return rc;
}

static int map_files(struct gguf *g, const struct gguf_placed *placed, char *err, size_t err_len)
{
    int rc = gguf_make_room(g, placed->n_paths, err, err_len);

    for (uint32_t i = 0; i < placed->n_paths && rc == 0; i++) {
        rc = gguf_map(&g->more[i], placed->paths[i], false, err, err_len);
        g->n_more += rc == 0;
    }
    return rc;
}

int gguf_open_placed(struct gguf **out, const char *name, uint8_t *head, size_t bytes,
                     const struct gguf_placed *placed, char *err, size_t err_len)
{
    struct gguf *g = gguf_create(name);
    int rc;

    *out = NULL;
    if (g == NULL) {
        snprintf(err, err_len, "%s: out of memory", name);
        return ERR_NOMEM;
    }
    g->file.base = head;
    g->file.bytes = bytes;
    g->places = placed->places;
    rc = gguf_parse(g, err, err_len);
    g->places = NULL;
    assert(rc < 0 || g->n_tensors == placed->n_places);
    if (rc == 0)
        rc = map_files(g, placed, err, err_len);
    if (rc == 0)
        rc = place_all(g, placed->places, err, err_len);
    if (rc < 0) {
        gguf_close(&g);
        return rc;
    }
    g->owns_recipes = true;
    g->owned = head;
    *out = g;
    return 0;
}
