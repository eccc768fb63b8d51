/* server/cli/receipt_origin.h - writes the part of a receipt (server/api/response/receipt.h) about
 * the model and the settings: its members from "quire" to "defaults".
 *
 * Thread: any. Memory: appended to `out`, whose errors stay in it.
 */
#ifndef SERVER_CLI_RECEIPT_ORIGIN_H
#define SERVER_CLI_RECEIPT_ORIGIN_H

struct buf;
struct config;
struct instance;
struct request_defaults;

/* Settings of a model that affect tokens, besides its context. */
#define RECEIPT_SETTINGS "kv_type", "load_type", "context_shift", "tokenizer_pre"

/* Append the members. The model must have been loaded with receipts = on. */
void receipt_origin_add(struct buf *out, const struct instance *e, const struct config *c,
                        const struct request_defaults *d);
/* Append the members from "model" on, which do not depend on the version of Quire. The weights are
 * included if the model was loaded with their hashes. */
void receipt_origin_add_model(struct buf *out, const struct instance *e, const struct config *c,
                              const struct request_defaults *d);

#endif
