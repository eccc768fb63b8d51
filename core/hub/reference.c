/* core/hub/reference.c - see reference.h.
 *
 * The text is split at the first "@" and ":", and each part is checked by the characters that the
 * Hub allows before it is copied. The checks are strict because the parts become folders of the
 * cache and pieces of URLs: no "..", no control characters, and no "--" in names, which stands for
 * the slash in the cache.
 */
#include "core/hub/reference.h"

#include "core/base/err.h"
#include "core/hub/hub_impl.h"

#include <stdint.h>
#include <string.h>
#include <unistr.h>

#define PREFIX "hf:"
#define MAX_NAME 255 /* bytes of a file name on Linux */
#define FORM "hf:OWNER/NAME[@REVISION][:QUANT|FILE]"

bool hub_reference_is(const char *text)
{
    return strncmp(text, PREFIX, sizeof(PREFIX) - 1) == 0;
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* True: s[0..n) may be OWNER or NAME of a repository. */
static bool is_repo_name(const char *s, size_t n)
{
    if (n == 0 || s[0] == '-' || s[0] == '.' || s[n - 1] == '-' || s[n - 1] == '.')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_alnum(s[i]) && strchr("_.-", s[i]) == NULL)
            return false;
        if (i > 0 && s[i] == s[i - 1] && (s[i] == '-' || s[i] == '.'))
            return false; /* "--" stands for the slash in the cache */
    }
    return true;
}

static bool is_repo(const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);

    return slash != NULL && n <= HUB_MAX_REPO && is_repo_name(s, (size_t)(slash - s)) &&
           is_repo_name(slash + 1, n - (size_t)(slash + 1 - s));
}

static bool is_safe_name(const char *s, size_t n)
{
    if (n == 0 || n > MAX_NAME || (n == 1 && s[0] == '.') || (n == 2 && memcmp(s, "..", 2) == 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f || s[i] == '\\')
            return false;
    return true;
}

bool hub_path_is_safe(const char *path)
{
    const size_t len = strnlen(path, HUB_MAX_PATH + 1);

    if (len > HUB_MAX_PATH || u8_check((const uint8_t *)path, len) != NULL)
        return false;
    for (int depth = 0; depth <= HUB_MAX_DEPTH; depth++) {
        const size_t n = strcspn(path, "/");

        if (!is_safe_name(path, n))
            return false;
        if (path[n] == '\0')
            return true;
        path += n + 1;
    }
    return false;
}

static bool is_revision(const char *s)
{
    for (size_t i = 0; s[i] != '\0'; i++)
        if (!is_alnum(s[i]) && strchr("_.-/+", s[i]) == NULL)
            return false;
    return hub_path_is_safe(s);
}

bool hub_is_commit(const char *text)
{
    return strspn(text, "0123456789abcdef") == 40 && text[40] == '\0';
}

/* Copy text[0..n) if it fits. */
static bool take_reference_part(char *dst, size_t size, const char *text, size_t n)
{
    if (n >= size)
        return false;
    memcpy(dst, text, n);
    dst[n] = '\0';
    return true;
}

static int refuse_reference(const char *text, const char *what, char *err, size_t err_len)
{
    char shown[200];

    return hub_fail(ERR_INVAL, err, err_len, "'%s' %s; models of the Hub are " FORM,
                    hub_printable(shown, sizeof(shown), text), what);
}

int hub_reference_parse(struct hub_reference *r, const char *text, char *err, size_t err_len)
{
    const char *at = text + sizeof(PREFIX) - 1;
    size_t n;

    memset(r, 0, sizeof(*r));
    if (!hub_reference_is(text))
        return refuse_reference(text, "does not begin with " PREFIX, err, err_len);
    n = strcspn(at, "@:");
    if (!is_repo(at, n) || !take_reference_part(r->repo, sizeof(r->repo), at, n))
        return refuse_reference(text,
                                "does not name a repository (letters, digits, - _ and . on both "
                                "sides of a slash, at most 96)",
                                err, err_len);
    at += n;
    take_reference_part(r->revision, sizeof(r->revision), "main", 4);
    if (*at == '@') {
        n = strcspn(++at, ":");
        if (!take_reference_part(r->revision, sizeof(r->revision), at, n) ||
            !is_revision(r->revision))
            return refuse_reference(text, "has no valid branch, tag or commit after the @", err,
                                    err_len);
        at += n;
    }
    if (*at == '\0')
        return 0;
    at++;
    if (!take_reference_part(r->want, sizeof(r->want), at, strlen(at)) ||
        !hub_path_is_safe(r->want))
        return refuse_reference(text,
                                "has neither a quantization nor the path of a file after the colon",
                                err, err_len);
    return 0;
}

size_t hub_reference_name(const char *text, const char **name)
{
    const char *at = text + sizeof(PREFIX) - 1;
    const size_t n = strcspn(at, "@:");

    if (!is_repo(at, n))
        return 0;
    *name = (const char *)memchr(at, '/', n) + 1;
    return n - (size_t)(*name - at);
}
