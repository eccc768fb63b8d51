/* server/cli/verify_receipt.h - computes the answers of a receipt (server/api/response/receipt.h)
 * again, on a model that was loaded for it, and compares tokens and log-probabilities of labels.
 *
 * `quire verify` refuses another model or other settings, and prints a line for each difference and
 * for each choice that is equal, beginning with the place of the receipt. `quire diff` accepts them
 * and counts what changes (diff_report.h).
 *
 * Thread: the main thread; the model's engine runs on its own.
 * Memory: of one receipt at a time.
 */
#ifndef SERVER_CLI_VERIFY_RECEIPT_H
#define SERVER_CLI_VERIFY_RECEIPT_H

#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct diff_report;
struct served;

struct verifier {
    struct served *model;
    sem_t *wake;        /* posted by the queue */
    const char *place;  /* like "line 3" */
    uint64_t n_equal, n_different; /* choices; a receipt that cannot be computed counts as one */
    uint64_t n_tokens;  /* computed again */
    uint64_t next_id;   /* id of the next request */
    struct diff_report *diff; /* counts what changes; NULL: nothing may change */
};

/* Find the receipt in a line: the line itself, its member `receipt`, or that of the answer in a
 * line which a batch has written (response.body). */
const struct cJSON *verify_receipt_find(const struct cJSON *line);

/* Check a receipt, or a line with one, as JSON text. */
void verify_receipt(struct verifier *v, const char *text, size_t n);

#endif
