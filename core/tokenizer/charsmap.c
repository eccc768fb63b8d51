/* core/tokenizer/charsmap.c - see charsmap.h.
 *
 * The trie is the double array of the Darts library, used as the file has it: a child is at (offset
 * XOR byte), and its unit repeats the byte, which tells it from a unit of another parent. Every
 * index is checked against the table before it is used, because the file may be damaged or hostile.
 */
#include "core/tokenizer/charsmap.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/vocab.h"

#include <string.h>

#define KEY "tokenizer.ggml.precompiled_charsmap"
#define MAX_BYTES (16u << 20) /* the largest in use has 240 KB */

/* A unit: bits 0-7 are the byte that leads to it, bit 8 is set if a sequence ends here, and bits
 * 10-30 are the offset to its children, times 256 if bit 9 is set. A unit with bit 31 is a
 * value. */
#define IS_VALUE (1u << 31)
#define MAX_SEQUENCE 64 /* most bytes of a sequence: in a bad table units may lead back to
                         * themselves */
#define MAX_TEXT 256    /* most bytes of a replacement; the longest in use have 33 */

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static uint32_t unit_at(const struct gguf_kv *kv, uint64_t i)
{
    uint32_t unit = 0;

    for (int b = 3; b >= 0; b--)
        unit = unit << 8 | (uint8_t)gguf_array_int(kv, i + (uint64_t)b);
    return unit;
}

static int copy_charsmap(struct charsmap *m, const struct gguf_kv *kv, uint32_t n_bytes)
{
    m->n_units = n_bytes / 4;
    m->n_texts = (size_t)kv->count - 4 - n_bytes;
    m->units = mem_calloc((size_t)m->n_units + 1, sizeof(*m->units));
    m->texts = mem_calloc(m->n_texts + 1, 1);
    if (m->units == NULL || m->texts == NULL) {
        charsmap_release(m);
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < m->n_units; i++)
        m->units[i] = unit_at(kv, 4 + 4 * (uint64_t)i);
    for (size_t i = 0; i < m->n_texts; i++)
        m->texts[i] = (char)gguf_array_int(kv, 4 + (uint64_t)n_bytes + i);
    return 0;
}

int charsmap_load(struct charsmap *m, const struct gguf *g, char *err, size_t err_len)
{
    const struct gguf_kv *kv;
    uint32_t n_bytes;
    int rc = gguf_get_array(g, KEY, GGUF_U8, &kv, NULL, 0);

    *m = (struct charsmap){0};
    if (rc == ERR_FORMAT)
        rc = gguf_get_array(g, KEY, GGUF_I8, &kv, err, err_len);
    if (rc != 0 || kv->count == 0)
        return rc == ERR_NOENT ? 0 : rc;
    n_bytes = kv->count >= 4 ? unit_at(kv, 0) : UINT32_MAX;
    if (kv->count > MAX_BYTES || n_bytes % 4 != 0 || n_bytes > kv->count - 4)
        return text_fail(g, ERR_FORMAT, err, err_len, KEY ": its parts are longer than the array");
    rc = copy_charsmap(m, kv, n_bytes);
    return rc == 0 ? 0 : text_fail(g, rc, err, err_len, "no memory for " KEY);
}

void charsmap_release(struct charsmap *m)
{
    mem_free(m->units);
    mem_free(m->texts);
    *m = (struct charsmap){0};
}

size_t charsmap_match(const struct charsmap *m, const char *text, size_t n, const char **out,
                      uint64_t *steps)
{
    uint32_t at = m->n_units > 0 ? offset_of(m->units[0]) : 0;
    size_t best = 0;

    for (size_t i = 0; i < n && i < MAX_SEQUENCE; i++) {
        const uint8_t byte = (uint8_t)text[i];
        uint32_t unit;

        ++*steps;
        at ^= byte;
        if (byte == 0 || at >= m->n_units || (m->units[at] & (IS_VALUE | 0xFF)) != byte)
            break;
        unit = m->units[at];
        at ^= offset_of(unit);
        if ((unit & 1u << 8) != 0 && at < m->n_units &&
            (m->units[at] & ~IS_VALUE) < m->n_texts) {
            const char *to = m->texts + (m->units[at] & ~IS_VALUE);

            if (strnlen(to, MAX_TEXT + 1) > MAX_TEXT)
                continue;
            best = i + 1;
            *out = to;
        }
    }
    return best;
}
