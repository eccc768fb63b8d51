/* server/engine_io/store_place.h - the parsed setting kv_store: where the block store is, and the
 * secret that servers share.
 *
 *   dir:/path                            a folder, local or of a network
 *   redis://[user@]host[:port][/db]      Redis or Valkey; valkey:// is the same
 *
 * The place is opened once, before the sandbox is entered: folders are created and the host's name
 * is resolved. A password comes from a file, never from the setting, which is printed.
 *
 * The secret: cached prefixes of different tenants are separated by a salt, which is made with a
 * seed that no client knows (api_request.h). Servers that share a store must have the same seed: it
 * is made from a random text that the first of them stores there (the file `secret` in the folder,
 * the key quire:secret in Redis), or from the password, if there is one.
 *
 * Thread: the main thread, once; read-only afterwards.
 * Memory: the caller's struct.
 * Errors: a sentence that names the setting.
 */
#ifndef SERVER_ENGINE_IO_STORE_PLACE_H
#define SERVER_ENGINE_IO_STORE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_PLACE_MAX 512

struct store_place {
    bool is_on, is_redis;
    bool is_away; /* Redis did not answer at the start: the store is off, because its secret is not
                   * known */
    char folder[STORE_PLACE_MAX];
    char host[256], address[64]; /* host: as in the setting; address: numeric */
    uint16_t port;
    unsigned db;
    char user[128], password[256];
    uint32_t timeout_ms; /* time limit of a connection, and of a command */
    uint64_t seed;
};

/* Open the place of `url`; "": the store is off. ERR_INVAL, ERR_IO, ERR_UNSUPPORTED. */
int store_place_open(struct store_place *p, const char *url, const char *password_file,
                     uint32_t timeout_ms, char *err, size_t err_len);
/* Write the place's name for the log, without the password. */
const char *store_place_name(const struct store_place *p, char *out, size_t size);

#endif
