/* server/metrics/prometheus.c - see prometheus.h.
 *
 * Appends to a growing buffer, whose error is checked once by the caller. Counts are printed as
 * integers, so that they stay exact. A histogram can be shown with fewer bounds than it was counted
 * with: the counts between two of them are summed.
 */
#include "server/metrics/prometheus.h"

#include <inttypes.h>
#include <stdio.h>

#define LE_LEN 40 /* le="..." with a double in %g */

void prom_family(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prom_label(struct buf *b, const char *name, const char *value)
{
    buf_printf(b, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            buf_add_char(b, '\\');
        if (*value == '\n')
            buf_add_str(b, "\\n");
        else
            buf_add_char(b, *value);
    }
    buf_add_char(b, '"');
}

/* Add the series' name and labels, and the space before a value; `suffix` belongs to the name,
 * `last` (or NULL) is one more label. */
static void add_series(struct buf *b, const struct prom_series *s, const char *suffix,
                       const char *last)
{
    const char *const labels[] = {s->labels, last};
    char before = '{';

    buf_add_str(b, s->name);
    buf_add_str(b, suffix);
    if (s->model != NULL) {
        buf_add_char(b, before);
        prom_label(b, s->model_label != NULL ? s->model_label : "model", s->model);
        before = ',';
    }
    for (int i = 0; i < 2; i++)
        if (labels[i] != NULL) {
            buf_add_char(b, before);
            buf_add_str(b, labels[i]);
            before = ',';
        }
    buf_add_str(b, before == ',' ? "} " : " ");
}

void prom_count(struct buf *b, const struct prom_series *s, uint64_t value)
{
    add_series(b, s, "", NULL);
    buf_printf(b, "%" PRIu64 "\n", value);
}

void prom_number(struct buf *b, const struct prom_series *s, double value)
{
    add_series(b, s, "", NULL);
    buf_printf(b, "%.15g\n", value);
}

void prom_hist(struct buf *b, const struct prom_series *s, const struct hist *h)
{
    prom_hist_at(b, s, h, h->bounds, h->n);
}

void prom_hist_at(struct buf *b, const struct prom_series *s, const struct hist *h,
                  const double *bounds, uint32_t n)
{
    const uint64_t total = hist_total(h);
    uint64_t below = 0;
    char le[LE_LEN];

    for (uint32_t i = 0, k = 0; i < n; i++) {
        for (; k < h->n && h->bounds[k] <= bounds[i]; k++)
            below += h->count[k];
        snprintf(le, sizeof(le), "le=\"%g\"", bounds[i]);
        add_series(b, s, "_bucket", le);
        buf_printf(b, "%" PRIu64 "\n", below);
    }
    add_series(b, s, "_bucket", "le=\"+Inf\"");
    buf_printf(b, "%" PRIu64 "\n", total);
    add_series(b, s, "_sum", NULL);
    buf_printf(b, "%.9g\n", h->sum);
    add_series(b, s, "_count", NULL);
    buf_printf(b, "%" PRIu64 "\n", total);
}
