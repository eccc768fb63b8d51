/* core/model/labels.c - the names of a classifier's labels; see load.h.
 *
 * The names come from outside and go to clients and logs, so each is cut at MAX_LABEL bytes and
 * reduced to printable ASCII by load_printable(). A file without names is valid: labels stay NULL
 * and scores are reported by number.
 */
#include "core/model/load.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_LABEL 256 /* bytes of a label's name */

static int copy_labels(struct load *l, const struct gguf_kv *kv)
{
    for (uint32_t i = 0; i < l->m->shape.n_labels; i++) {
        const struct gguf_str s = gguf_array_str(kv, i);
        const size_t n = s.len < MAX_LABEL ? s.len : MAX_LABEL;

        l->m->labels[i] = mem_calloc(n + 1, 1);
        if (l->m->labels[i] == NULL)
            return load_fail(l, ERR_NOMEM, "out of memory");
        load_printable(l->m->labels[i], n + 1, s);
    }
    return 0;
}

int load_labels(struct load *l)
{
    const struct gguf_kv *kv;
    char key[128];
    int rc;

    snprintf(key, sizeof(key), "%s.classifier.output_labels", l->traits->arch);
    rc = gguf_get_array(l->g, key, GGUF_STRING, &kv, l->err, l->err_len);
    if (rc == ERR_NOENT)
        return 0;
    if (rc < 0)
        return rc;
    if (kv->count != l->m->shape.n_labels)
        return load_fail(l, ERR_FORMAT, "key '%s': has %" PRIu64 " names, but there are %u labels",
                         key, kv->count, l->m->shape.n_labels);
    l->m->labels = mem_calloc(l->m->shape.n_labels, sizeof(*l->m->labels));
    if (l->m->labels == NULL)
        return load_fail(l, ERR_NOMEM, "out of memory");
    return copy_labels(l, kv);
}
