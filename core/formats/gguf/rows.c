/* core/formats/gguf/rows.c - rows of tensors, taken from the file or made by a recipe (see gguf.h).
 *
 * Packing threads ask for rows one by one; a row in the file costs nothing, a recipe makes it into
 * the caller's room. Hints about rows become hints about bytes of the mapped file; for a recipe
 * they are given only if its rows come from its parts in order, so that a share of the rows is the
 * same share of each part's bytes.
 */
#include "core/formats/gguf/gguf_impl.h"

#include <assert.h>

uint64_t gguf_row_bytes(const struct gguf_tensor *t)
{
    return block_row_bytes(block_format(t->type), t->dims[0]);
}

const uint8_t *gguf_row(const struct gguf_tensor *t, uint64_t row, uint8_t *room)
{
    if (t->recipe == NULL)
        return (const uint8_t *)t->data + row * gguf_row_bytes(t);
    t->recipe->make(t->recipe, row, room);
    return room;
}

/* ---- hints ---- */

typedef void hint(const struct mapped_file *f, const void *data, uint64_t bytes);

static void give_bytes(const struct gguf *g, hint *give, const uint8_t *data, uint64_t bytes)
{
    for (uint32_t i = 0; i <= g->n_more; i++) {
        const struct gguf *in = i == 0 ? g : g->more[i - 1];

        if (mapped_file_holds(&in->file, data)) {
            give(&in->file, data, bytes);
            return;
        }
    }
}

/* Give a hint about the bytes from .. to of a part, as shares (0 .. 1) of its bytes. */
static void give_part(const struct gguf *g, hint *give, const struct gguf_part *p, double from,
                      double to)
{
    const uint64_t first = (uint64_t)(from * (double)p->bytes);
    const uint64_t end = (uint64_t)(to * (double)p->bytes);

    if (end > first && end <= p->bytes)
        give_bytes(g, give, p->data + first, end - first);
}

static void give_parts(const struct gguf *g, hint *give, const struct gguf_recipe *r,
                       uint64_t first, uint64_t n)
{
    const double rows = (double)r->rows_each;

    for (uint64_t row = first; row < first + n;) {
        const uint64_t group = row / r->rows_each, begin = group * r->rows_each;
        const uint64_t left = first + n - begin;
        const uint64_t end = left < r->rows_each ? left : r->rows_each;

        for (uint32_t i = 0; i < r->n_each; i++)
            give_part(g, give, &r->parts[group * r->n_each + i], (double)(row - begin) / rows,
                      (double)end / rows);
        row = begin + end;
    }
}

static void give_rows(const struct gguf *g, hint *give, const struct gguf_tensor *t, uint64_t first,
                      uint64_t n)
{
    const uint64_t bytes = gguf_row_bytes(t);

    if (t->recipe == NULL)
        give_bytes(g, give, (const uint8_t *)t->data + first * bytes, n * bytes);
    else if (t->recipe->is_in_order)
        give_parts(g, give, t->recipe, first, n);
}

void gguf_will_read(const struct gguf *g, const struct gguf_tensor *t, uint64_t first, uint64_t n)
{
    give_rows(g, mapped_file_will_read, t, first, n);
}

void gguf_has_read(const struct gguf *g, const struct gguf_tensor *t, uint64_t first, uint64_t n)
{
    give_rows(g, mapped_file_has_read, t, first, n);
}
