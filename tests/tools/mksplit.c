/* tests/tools/mksplit.c - split a GGUF model as gguf-split does.
 *
 *   mksplit IN N OUT-PREFIX
 *
 * writes OUT-PREFIX-00001-of-0000N.gguf and so on. All keys are in the first part; tensors go to
 * the parts in the order of the file, so that each has about as many bytes.
 */
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy_bytes(void *ud, uint64_t offset, uint8_t *dst, size_t n)
{
    const struct gguf_tensor *t = ud;

    memcpy(dst, (const uint8_t *)t->data + offset, n);
}

static void add_keys(const struct gguf *g, struct gguf_writer *w, uint32_t no, uint32_t count)
{
    for (uint64_t i = 0; i < gguf_n_kv(g) && no == 0; i++)
        gguf_writer_kv(w, gguf_kv_at(g, i));
    gguf_writer_u16(w, "split.no", (uint16_t)no);
    gguf_writer_u16(w, "split.count", (uint16_t)count);
    gguf_writer_u32(w, "split.tensors.count", (uint32_t)gguf_n_tensors(g));
}

/* The part that a tensor goes to when `before` of `total` bytes are in others. */
static uint32_t part_of(uint64_t before, uint64_t total, uint32_t count)
{
    return (uint32_t)((double)before / (double)total * count);
}

static int write_part(const struct gguf *g, uint32_t no, uint32_t count, const char *prefix)
{
    struct gguf_writer *w;
    uint64_t total = 0, before = 0;
    char path[4096];
    int rc = gguf_writer_create(&w);

    if (rc < 0)
        return rc;
    add_keys(g, w, no, count);
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++)
        total += gguf_tensor_at(g, i)->bytes;
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char name[GGUF_MAX_NAME];

        snprintf(name, sizeof(name), "%.*s", (int)t->name.len, t->name.data);
        if (part_of(before, total, count) == no)
            gguf_writer_tensor_fill(w, name, t->type, t->n_dims, t->dims, copy_bytes, (void *)t);
        before += t->bytes;
    }
    snprintf(path, sizeof(path), "%s-%05u-of-%05u.gguf", prefix, no + 1, count);
    rc = gguf_writer_save(w, path);
    gguf_writer_destroy(&w);
    return rc;
}

int main(int argc, char **argv)
{
    const long count = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
    struct gguf *g;
    char err[512];
    int rc = 0;

    if (count < 1 || count > 999) {
        fputs("usage: mksplit IN N OUT-PREFIX   (N from 1 to 999)\n", stderr);
        return 2;
    }
    if (gguf_open(&g, argv[1], err, sizeof(err)) < 0) {
        fprintf(stderr, "mksplit: %s\n", err);
        return 1;
    }
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = write_part(g, i, (uint32_t)count, argv[3]);
    gguf_close(&g);
    if (rc < 0)
        fprintf(stderr, "mksplit: cannot write the parts\n");
    return rc < 0;
}
