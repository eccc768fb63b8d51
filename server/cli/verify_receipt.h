/* server/cli/verify_receipt.h - compute the answers of a receipt (server/receipts/receipt.h) again,
 * on a model that was loaded for that, and say where they differ.
 *
 * What differs is told on standard output, a line each that begins with the receipt's place; so is
 * each choice that is equal.
 *
 * Thread: the main thread; the model's engine runs on its own.
 * Memory: of one receipt at a time.
 */
#ifndef SERVER_CLI_VERIFY_RECEIPT_H
#define SERVER_CLI_VERIFY_RECEIPT_H

#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>

struct served;

struct verifier {
    struct served *model;
    sem_t *wake;        /* posted by its queue */
    const char *place;  /* "line 3" */
    uint64_t n_equal, n_different; /* choices; of a receipt that cannot be computed, one */
    uint64_t n_tokens;  /* that were computed again */
    uint64_t next_id;   /* of a request */
};

/* A receipt, or an answer with one, as JSON text. */
void verify_receipt(struct verifier *v, const char *text, size_t n);

#endif
