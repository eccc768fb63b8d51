/* core/hub/place.c - see place.h.
 *
 * The environment is read once, before other threads start, into a struct that is passed on; no
 * other file of core/hub calls getenv(). Values end up in URLs, headers and paths, so each is
 * checked here: the endpoint for its scheme and characters, the token for printable ASCII, folders
 * for their length.
 */
#include "core/hub/place.h"

#include "core/base/err.h"
#include "core/hub/hub_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Return the variable's value, or NULL if it is unset or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_true(const char *name)
{
    const char *v = variable(name);

    return v != NULL && (strcmp(v, "1") == 0 || strcasecmp(v, "on") == 0 ||
                         strcasecmp(v, "yes") == 0 || strcasecmp(v, "true") == 0);
}

/* Join folder and rest; ~ at the start is the home folder. */
static bool join_place(char *dst, size_t size, const char *folder, const char *rest)
{
    const char *home = variable("HOME");
    int n;

    if (folder[0] == '~' && (folder[1] == '/' || folder[1] == '\0') && home != NULL)
        n = snprintf(dst, size, "%s%s%s", home, folder + 1, rest);
    else
        n = snprintf(dst, size, "%s%s", folder, rest);
    return n >= 0 && (size_t)n < size;
}

static bool find_home(char home[HUB_MAX_FOLDER])
{
    if (variable("HF_HOME") != NULL)
        return join_place(home, HUB_MAX_FOLDER, variable("HF_HOME"), "");
    if (variable("XDG_CACHE_HOME") != NULL)
        return join_place(home, HUB_MAX_FOLDER, variable("XDG_CACHE_HOME"), "/huggingface");
    return variable("HOME") != NULL && join_place(home, HUB_MAX_FOLDER, "~", "/.cache/huggingface");
}

static int find_cache(struct hub_place *p, char *err, size_t err_len)
{
    static const char *const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"};
    char home[HUB_MAX_FOLDER], cwd[HUB_MAX_FOLDER], given[HUB_MAX_FOLDER + 1];
    bool is_found = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !is_found; i++)
        is_found = variable(names[i]) != NULL &&
                   join_place(p->cache, sizeof(p->cache), variable(names[i]), "");
    if (!is_found)
        is_found = find_home(home) && join_place(p->cache, sizeof(p->cache), home, "/hub");
    if (is_found && p->cache[0] != '/') {
        snprintf(given, sizeof(given), "/%s", p->cache);
        is_found =
            getcwd(cwd, sizeof(cwd)) != NULL && join_place(p->cache, sizeof(p->cache), cwd, given);
    }
    if (is_found)
        return 0;
    return hub_fail(ERR_INVAL, err, err_len,
                    "there is no folder for the files of the Hub: set HF_HUB_CACHE, HF_HOME or "
                    "HOME");
}

/* Take a token: printable ASCII without blanks, since it becomes part of a header. */
static int take_token(struct hub_place *p, const char *text, size_t n, const char *from, char *err,
                      size_t err_len)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        n--;
    while (n > 0 && strchr(" \t\r\n", text[0]) != NULL) {
        text++;
        n--;
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || n >= sizeof(p->token))
            return hub_fail(ERR_INVAL, err, err_len, "%s contains no token of the Hub", from);
    memcpy(p->token, text, n);
    p->token[n] = '\0';
    return 0;
}

static int read_token(struct hub_place *p, const char *path, char *err, size_t err_len)
{
    char text[HUB_MAX_TOKEN + 8];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

    if (fd >= 0)
        close(fd);
    return n > 0 ? take_token(p, text, (size_t)n, path, err, err_len) : 0;
}

static int find_token(struct hub_place *p, char *err, size_t err_len)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    char home[HUB_MAX_FOLDER], path[HUB_MAX_FOLDER];
    int rc;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *token = variable(names[i]);

        rc = token == NULL ? 0 : take_token(p, token, strlen(token), names[i], err, err_len);
        if (rc < 0 || p->token[0] != '\0')
            return rc;
    }
    if (variable("HF_TOKEN_PATH") != NULL)
        return join_place(path, sizeof(path), variable("HF_TOKEN_PATH"), "")
                   ? read_token(p, path, err, err_len)
                   : 0;
    return find_home(home) && join_place(path, sizeof(path), home, "/token")
               ? read_token(p, path, err, err_len)
               : 0;
}

static int find_endpoint(struct hub_place *p, char *err, size_t err_len)
{
    const char *e =
        variable("HF_ENDPOINT") != NULL ? variable("HF_ENDPOINT") : "https://huggingface.co";
    size_t n = strlen(e);

    while (n > 0 && e[n - 1] == '/')
        n--;
    p->is_plain = strncmp(e, "http://", 7) == 0;
    if ((!p->is_plain && strncmp(e, "https://", 8) != 0) || n >= sizeof(p->endpoint) ||
        strpbrk(e, " \t\r\n?#@") != NULL || n <= (p->is_plain ? 7 : 8))
        return hub_fail(ERR_INVAL, err, err_len,
                        "HF_ENDPOINT must be https://HOST or http://HOST, got '%.200s'", e);
    memcpy(p->endpoint, e, n);
    p->endpoint[n] = '\0';
    return 0;
}

/* Return the file of certificates to trust, for instance those of a proxy that intercepts TLS, or
 * NULL. */
static const char *find_ca_file(void)
{
    static const char *const names[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"};
    const char *path = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && path == NULL; i++)
        path = variable(names[i]);
    return path;
}

int hub_place_init(struct hub_place *p, char *err, size_t err_len)
{
    int rc;

    memset(p, 0, sizeof(*p));
    p->is_offline = is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
    p->ca_file = find_ca_file();
    rc = find_endpoint(p, err, err_len);
    if (rc == 0)
        rc = find_cache(p, err, err_len);
    return rc == 0 ? find_token(p, err, err_len) : rc;
}
