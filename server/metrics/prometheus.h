/* server/metrics/prometheus.h - Prometheus's text format 0.0.4: families of metrics, and their
 * samples.
 *
 * A family is prom_family(), once, and then all of its samples with nothing between them. Names,
 * help and ready-made labels are the server's own text and written as they are; a model's id and
 * values of prom_label() may be anything.
 *
 * Thread: any.
 * Memory: the text; b->err tells whether all of it is there.
 */
#ifndef SERVER_METRICS_PROMETHEUS_H
#define SERVER_METRICS_PROMETHEUS_H

#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/hist.h"

struct prom_series { /* the name and labels of a sample; strings are borrowed */
    const char *name;
    const char *model;  /* the value of the first label; NULL = without it */
    const char *model_label; /* its name; NULL = "model" */
    const char *labels; /* further ones, such as tier="ram",direction="out"; NULL = none */
};

void prom_family(struct buf *b, const char *name, const char *type, const char *help);

void prom_count(struct buf *b, const struct prom_series *s, uint64_t value);
void prom_number(struct buf *b, const struct prom_series *s, double value);
void prom_hist(struct buf *b, const struct prom_series *s, const struct hist *h);
/* prom_hist() with only n of its bounds, ascending: counts between them are summed. */
void prom_hist_at(struct buf *b, const struct prom_series *s, const struct hist *h,
                  const double *bounds, uint32_t n);

/* Write NAME="VALUE", with the value's quotes, backslashes and newlines escaped. */
void prom_label(struct buf *b, const char *name, const char *value);

#endif
