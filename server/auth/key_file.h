/* server/auth/key_file.h - the file of API keys.
 *
 *     [alice]                        ; the key's name, for logs
 *     tenant = team-a                ; the tenant of its requests; without: the key's name
 *     weight = 2                     ; the tenant's share; without: as in tenant_weights
 *     max_priority = normal          ; higher priorities are lowered to it; without: critical
 *     requests_per_minute = 60       ; 0 or without: no limit, also below
 *     tokens_per_minute = 20000
 *     tokens_per_day = 1000000       ; of the calendar, UTC; prompts and generated tokens
 *     tokens_per_month = 20000000
 *     max_concurrent = 4             ; requests at a time; each choice counts
 *     admin = no                     ; yes: may also ask /debug
 *     hash = 64 hexadecimal digits   ; SHA-256 of the key; `quire key` writes it
 *
 * The hash stands last: an entry without a hash is not a key, so a file that is cut off anywhere
 * has fewer keys or is refused, but has no key with more rights. In older files the hash stands
 * first. They are read as well, with a warning in the log that names the first such key.
 *
 * Everything is checked: a field may occur once in a key, and a file is used as a whole or not at
 * all.
 *
 * Thread: any.
 * Memory: the list owns its keys; at most KEY_FILE_MAX of them.
 * Errors: a sentence with file, line and what was found there; never a hash.
 */
#ifndef SERVER_AUTH_KEY_FILE_H
#define SERVER_AUTH_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/weights.h"
#include "scheduler/request/request.h"
#include "server/auth/secret.h"

#define KEY_FILE_MAX 4096
#define KEY_NAME_MAX 48
#define KEY_TENANT_MAX WEIGHTS_MAX_NAME

struct key_spec {
    char name[KEY_NAME_MAX + 1];
    char tenant[KEY_TENANT_MAX + 1];
    struct secret_hash hash;
    uint32_t weight; /* 0 = not set */
    enum priority max_priority;
    uint32_t requests_per_minute, tokens_per_minute, max_concurrent; /* 0 = no limit */
    uint64_t tokens_per_day, tokens_per_month;                       /* 0 = no limit */
    bool is_admin;
    bool has_hash, has_late_fields; /* has_late_fields: there are fields after the hash */
};

struct key_list { /* zero is empty */
    struct key_spec *keys; /* [n] */
    uint32_t n;
};

/* Read the file. ERR_INVAL, ERR_NOMEM or ERR_LIMIT with a sentence: the list is empty. */
int key_file_read(struct key_list *out, const char *path, char *err, size_t err_len);
void key_list_release(struct key_list *list);

/* True: the text may name a key or a tenant: 1 to `max` visible characters other than brackets,
 * quotes, semicolons and hashes. */
bool key_file_is_name(const char *text, size_t max);

/* Set a field from its text, as a line of the file does. ERR_INVAL: *allowed describes the allowed
 * values. */
int key_spec_set(struct key_spec *k, const char *field, const char *value, const char **allowed);

#endif
