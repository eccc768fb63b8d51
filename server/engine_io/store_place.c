/* server/engine_io/store_place.c - see store_place.h.
 *
 * store_place_open() runs once, before the sandbox: it parses the URL, reads the password file,
 * creates the 256 folders or resolves the host, and agrees with other servers on the secret. In a
 * folder the secret is published with link(), in Redis with SET NX: in both the first server's
 * secret wins, and all others read it.
 */
#include "server/engine_io/store_place.h"

#include "core/base/err.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/base/name_copy.h"
#include "core/base/replace_file.h"
#include "server/engine_io/store_redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define REDIS_PORT 6379
#define FOLDERS 256
#define SECRET_CHARS 64
#define SECRET_NAME "secret"

__attribute__((format(printf, 4, 5))) static int fail(int rc, char *err, size_t err_len,
                                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err, err_len, format, args);
    va_end(args);
    return rc;
}

/* ---- the setting ---- */

static bool starts_with(const char *text, const char *with, const char **rest)
{
    const size_t n = strlen(with);

    *rest = text + n;
    return strncmp(text, with, n) == 0;
}

/* Parse digits up to `most`, with nothing after them; -1: the text is not such a number. */
static long place_number(const char *text, long most)
{
    char *end;
    const long v = strtol(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && v <= most ? v : -1;
}

static int parse_host(struct store_place *p, char *text, char *err, size_t err_len)
{
    char *colon = text[0] == '[' ? strstr(text, "]:") : strchr(text, ':');
    long port = REDIS_PORT;

    if (text[0] == '[' && colon != NULL)
        colon++;
    if (colon != NULL) {
        port = place_number(colon + 1, 65535);
        *colon = '\0';
    }
    if (text[0] == '[' && text[strlen(text) - 1] == ']') {
        text[strlen(text) - 1] = '\0';
        text++;
    }
    if (port <= 0)
        return fail(ERR_INVAL, err, err_len, "'kv_store': the port is not from 1 to 65535");
    if (text[0] == '\0' || strlen(text) >= sizeof(p->host))
        return fail(ERR_INVAL, err, err_len, "'kv_store' names no host");
    p->port = (uint16_t)port;
    memcpy(p->host, text, strlen(text) + 1);
    return 0;
}

/* Parse [user@]host[:port][/db]. */
static int parse_redis(struct store_place *p, const char *rest, char *err, size_t err_len)
{
    char text[STORE_PLACE_MAX], *host = text, *at, *slash;

    p->is_redis = true;
    if (snprintf(text, sizeof(text), "%s", rest) >= (int)sizeof(text))
        return fail(ERR_INVAL, err, err_len, "'kv_store' is too long");
    slash = strchr(text, '/');
    if (slash != NULL && slash[1] != '\0') {
        if (place_number(slash + 1, 65535) < 0)
            return fail(ERR_INVAL, err, err_len, "'kv_store': '%.100s' is no number of a database",
                        slash + 1);
        p->db = (unsigned)place_number(slash + 1, 65535);
    }
    if (slash != NULL)
        *slash = '\0';
    at = strrchr(text, '@');
    if (at != NULL) {
        *at = '\0';
        host = at + 1;
        if (strchr(text, ':') != NULL)
            return fail(ERR_INVAL, err, err_len,
                        "'kv_store' holds a password: write it into the file "
                        "'kv_store_password' instead");
        if (name_copy(p->user, sizeof(p->user), text) < 0)
            return fail(ERR_INVAL, err, err_len,
                        "'kv_store': the user's name has more than %zu bytes",
                        sizeof(p->user) - 1);
    }
    return parse_host(p, host, err, err_len);
}

static int parse_place(struct store_place *p, const char *url, char *err, size_t err_len)
{
    const char *rest;

    if (starts_with(url, "dir:", &rest)) {
        if (rest[0] == '\0' || strlen(rest) >= sizeof(p->folder))
            return fail(ERR_INVAL, err, err_len, "'kv_store': dir: wants the path of a folder");
        snprintf(p->folder, sizeof(p->folder), "%s", rest);
        return 0;
    }
    if (starts_with(url, "redis://", &rest) || starts_with(url, "valkey://", &rest))
        return parse_redis(p, rest, err, err_len);
    return fail(ERR_INVAL, err, err_len,
                "'kv_store' is '%.100s': it begins with dir:, redis:// or valkey://", url);
}

/* Read the file's first line. */
static int read_secret_line(const char *path, char *out, size_t size, char *err, size_t err_len)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    const ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return fail(ERR_IO, err, err_len, "cannot read %.200s: %s", path, strerror(errno));
    out[n] = '\0';
    if ((size_t)n == size - 1 && strpbrk(out, "\r\n") == NULL)
        return fail(ERR_LIMIT, err, err_len, "the first line of %.200s has more than %zu bytes",
                    path, size - 2);
    out[strcspn(out, "\r\n")] = '\0';
    return 0;
}

/* ---- a folder ---- */

static int make_folders(const struct store_place *p, char *err, size_t err_len)
{
    char path[STORE_PLACE_MAX + 8];

    if (mkdir(p->folder, 0700) < 0 && errno != EEXIST)
        return fail(ERR_IO, err, err_len, "'kv_store': cannot make the folder %.200s: %s",
                    p->folder, strerror(errno));
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof(path), "%s/%02x", p->folder, i);
        if ((mkdir(path, 0700) < 0 && errno != EEXIST) || access(path, R_OK | W_OK | X_OK) < 0)
            return fail(ERR_IO, err, err_len, "'kv_store': cannot use the folder %.200s: %s", path,
                        strerror(errno));
    }
    return 0;
}

/* Publish the secret unless there is one: unlike a rename, link() does not replace a file. */
static int share_file(const struct store_place *p, const char *offered, char *secret, size_t size,
                      char *err, size_t err_len)
{
    char path[STORE_PLACE_MAX + 16], part[STORE_PLACE_MAX + 64];
    int fd;

    snprintf(path, sizeof(path), "%s/" SECRET_NAME, p->folder);
    snprintf(part, sizeof(part), "%s/." SECRET_NAME "-%.16s", p->folder, offered);
    fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, offered, SECRET_CHARS) != SECRET_CHARS || fsync(fd) < 0 ||
        close(fd) < 0)
        return fail(ERR_IO, err, err_len, "'kv_store': cannot write to %.200s: %s", p->folder,
                    strerror(errno));
    if ((link(part, path) < 0 && errno != EEXIST) || sync_folder_of(path) < 0)
        return fail(ERR_IO, err, err_len, "'kv_store': cannot make %.200s: %s", path,
                    strerror(errno));
    (void)unlink(part);
    return read_secret_line(path, secret, size, err, err_len);
}

/* ---- Redis ---- */

static int resolve(struct store_place *p, char *err, size_t err_len)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int rc = getaddrinfo(p->host, NULL, &hints, &list);

    if (rc != 0)
        return fail(ERR_IO, err, err_len, "'kv_store': cannot find the host '%s': %s", p->host,
                    gai_strerror(rc));
    (void)getnameinfo(list->ai_addr, list->ai_addrlen, p->address, sizeof(p->address), NULL, 0,
                      NI_NUMERICHOST);
    freeaddrinfo(list);
    return 0;
}

/* ---- opening ---- */

static int make_secret(char offered[SECRET_CHARS + 1])
{
    uint8_t bytes[SECRET_CHARS / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return ERR_IO;
    hex_write(offered, bytes, sizeof(bytes));
    return 0;
}

static int share_secret(struct store_place *p, char *err, size_t err_len)
{
    char offered[SECRET_CHARS + 1], secret[256], why[200], name[300], quoted[400];
    int rc = 0;

    if (make_secret(offered) < 0)
        return fail(ERR_IO, err, err_len, "no random numbers for the secret of 'kv_store'");
    snprintf(secret, sizeof(secret), "%s", p->password);
    if (!p->is_redis) {
        rc = share_file(p, offered, secret, sizeof(secret), err, err_len);
    } else if (secret[0] == '\0' &&
               store_redis_secret(p, offered, secret, sizeof(secret), why, sizeof(why)) < 0) {
        p->is_away = true;
        log_error("store", "event=off place=%s when=start reason=%s",
                  store_place_name(p, name, sizeof(name)),
                  log_quote(quoted, sizeof(quoted), why));
    }
    if (rc == 0 && secret[0] == '\0' && !p->is_away)
        rc = fail(ERR_FORMAT, err, err_len, "'kv_store': the file '%s' of the folder is empty",
                  SECRET_NAME);
    p->seed = XXH3_64bits(secret, strlen(secret));
    return rc;
}

int store_place_open(struct store_place *p, const char *url, const char *password_file,
                     uint32_t timeout_ms, char *err, size_t err_len)
{
    int rc;

    *p = (struct store_place){.timeout_ms = timeout_ms};
    if (url[0] == '\0')
        return 0;
    rc = parse_place(p, url, err, err_len);
    if (rc == 0 && p->is_redis && !store_redis_is_built())
        rc = fail(ERR_UNSUPPORTED, err, err_len,
                  "'kv_store' is '%.100s', and this program was built without hiredis (Debian: "
                  "libhiredis-dev)",
                  url);
    if (rc == 0 && password_file[0] != '\0')
        rc = read_secret_line(password_file, p->password, sizeof(p->password), err, err_len);
    if (rc == 0)
        rc = p->is_redis ? resolve(p, err, err_len) : make_folders(p, err, err_len);
    if (rc == 0)
        rc = share_secret(p, err, err_len);
    p->is_on = rc == 0 && !p->is_away;
    return rc;
}

const char *store_place_name(const struct store_place *p, char *out, size_t size)
{
    char text[STORE_PLACE_MAX + 32];

    if (p->is_redis)
        snprintf(text, sizeof(text), "redis://%s:%u/%u", p->host, p->port, p->db);
    else
        snprintf(text, sizeof(text), "dir:%s", p->folder);
    return log_quote(out, size, text);
}
