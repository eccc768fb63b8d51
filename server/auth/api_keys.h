/* server/auth/api_keys.h - the API keys in force: finds the key of a secret, and checks its limits.
 *
 * A key lives as long as the file names it or an exchange holds it. When the file is read again, a
 * key whose name is still there keeps its running requests and the state of its buckets, under the
 * new limits. A key that was removed is refused; its running requests continue to their end.
 *
 * Limits work in two steps: key_check() decides if a request may begin, key_begin() charges it, and
 * key_end() gives back the tokens that it did not use. No other call may come between the first
 * two.
 *
 * Thread: the loop's, except for keys_read(); the time is an argument.
 * Memory: two tables and one allocation for each key.
 */
#ifndef SERVER_AUTH_API_KEYS_H
#define SERVER_AUTH_API_KEYS_H

#include "server/auth/quota.h"
#include "server/auth/key_file.h"
#include "server/auth/rate_limit.h"
#include "server/http/error.h"

struct keys;

struct key { /* others may read it; only api_keys.c writes it */
    struct key_spec spec;
    struct rate_limit requests, tokens;
    struct quota day, month;
    uint32_t n_open; /* running choices */
    uint32_t n_refs;
};

struct key_use { /* the amounts that a request was charged; zero is none */
    struct key *key;
    uint32_t n_choices;
    uint64_t n_tokens;
};

/* Read the file. If it cannot be used, `err` has a sentence. */
int keys_open(struct keys **out, const char *path, uint64_t now_us, char *err, size_t err_len);
void keys_close(struct keys **keys);

/* Read the file again. On failure nothing changes. */
int keys_reload(struct keys *k, uint64_t now_us, char *err, size_t err_len);

/* The two steps of keys_reload(): keys_read() reads and checks the file on any thread and changes
 * nothing; keys_take() puts it in force on the loop's thread, with a look-up for each key.
 * keys_take() owns *fresh also on failure: when the file seems to be cut off. */
struct keys_fresh;
int keys_read(struct keys_fresh **fresh, const struct keys *k, char *err, size_t err_len);
int keys_take(struct keys *k, struct keys_fresh **fresh, uint64_t now_us, char *err,
              size_t err_len);
void keys_drop(struct keys_fresh **fresh); /* NULL is allowed */

/* Called after keys_open() and keys_take(): count the tokens that new keys have spent before, in
 * earlier processes or under an entry that was removed. spent(ud, name, day) returns a key's tokens
 * from a day (since 1970, UTC) on. */
void keys_recall(struct keys *k, uint64_t (*spent)(void *ud, const char *name, int32_t day),
                 void *ud, int64_t now_s);

/* Find the key of a secret as a client presents it, or NULL. Borrowed until the next reload, unless
 * key_ref() is called. */
struct key *keys_find(const struct keys *k, const char *secret);
/* Find the key of that name, or NULL; borrowed as above. */
struct key *keys_find_name(const struct keys *k, const char *name);
uint32_t keys_n(const struct keys *k);

struct key *key_ref(struct key *key); /* NULL gives NULL */
void key_unref(struct key *key);      /* NULL is allowed */

/* Count a request against the key's rate. 0, or the microseconds until it is allowed. */
uint64_t key_take_request(struct key *key, uint64_t now_us);

/* Check that a request with so many choices and tokens (prompts and the most that may be generated)
 * may begin. 0, or a negative ERR_* with *e filled, and *wait_us, if the time is known, else 0. */
int key_check(const struct key *key, uint32_t n_choices, uint64_t n_tokens, uint64_t now_us,
              uint64_t *wait_us, struct api_error *e);
void key_begin(struct key *key, uint32_t n_choices, uint64_t n_tokens, uint64_t now_us,
               struct key_use *use);
/* Called once for each key_use when the request has ended and has used n_tokens; an empty one is
 * ignored. */
void key_end(struct key_use *use, uint64_t n_tokens, uint64_t now_us);

#endif
