/* core/hub/place.h - the Hub's endpoint, the user's token, and the folder of the cache.
 *
 * The variables are those of the Hub's own clients: HF_ENDPOINT; HF_TOKEN, else the file
 * HF_TOKEN_PATH or HF_HOME/token; HF_HUB_OFFLINE; HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
 * XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. CURL_CA_BUNDLE, SSL_CERT_FILE or
 * REQUESTS_CA_BUNDLE names certificates in place of the system's. libcurl reads the variables of
 * proxies.
 *
 * Thread: the one that starts the program; it reads the environment.
 * Memory: none.
 * Errors: ERR_INVAL with a sentence that names the variable.
 * Source: huggingface_hub, constants.py and utils/_auth.py.
 */
#ifndef CORE_HUB_PLACE_H
#define CORE_HUB_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#define HUB_MAX_FOLDER 2048
#define HUB_MAX_TOKEN 512

struct hub_place {
    char endpoint[256]; /* without a slash at its end */
    char cache[HUB_MAX_FOLDER];
    char token[HUB_MAX_TOKEN]; /* "": none */
    const char *ca_file;       /* from the environment, or NULL: the system's */
    bool is_offline;
    bool is_plain; /* the endpoint is http: the user wants no TLS */
};

int hub_place_init(struct hub_place *p, char *err, size_t err_len);

#endif
