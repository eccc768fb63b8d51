/* server/top/metrics_text.h - reads the text of /metrics, one sample after the other.
 *
 * Thread: any.
 * Memory: samples borrow the text.
 * Errors: a line that is no sample is passed over.
 */
#ifndef SERVER_TOP_METRICS_TEXT_H
#define SERVER_TOP_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct top_sample {
    const char *name;
    size_t n_name;
    const char *labels; /* the text between the braces; empty: none */
    size_t n_labels;
    double value;
};

/* Find the next sample of text[*at..n); false at the end. */
bool top_sample_next(const char *text, size_t n, size_t *at, struct top_sample *s);

bool top_sample_is(const struct top_sample *s, const char *name);

/* Copy the value of a label without its escapes, cut to fit; false, and "", when there is none. */
bool top_sample_label(const struct top_sample *s, const char *name, char *out, size_t size);

#endif
