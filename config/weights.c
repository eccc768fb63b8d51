/* config/weights.c - see weights.h.
 *
 * weights_next() reads one pair in place and moves the caller's pointer past it and its comma; a
 * comma at the end is an error. A value is checked while its digits are read, so it cannot
 * overflow.
 */
#include "config/weights.h"

#include "core/base/err.h"

#include <string.h>

static const char *skip_weight_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* Read a name, which ends at '='. Returns what follows, or NULL. */
static const char *read_tenant_name(const char *p, struct weight *out)
{
    size_t n = 0;

    while (p[n] > ' ' && p[n] < 0x7f && p[n] != '=' && p[n] != ',')
        n++;
    if (n == 0 || n > WEIGHTS_MAX_NAME || p[n] != '=')
        return NULL;
    memcpy(out->name, p, n);
    out->name[n] = '\0';
    return p + n + 1;
}

static const char *read_value(const char *p, struct weight *out)
{
    const char *start = p;

    out->value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        out->value = out->value * 10 + (uint32_t)(*p - '0');
        if (out->value > WEIGHTS_MAX_VALUE)
            return NULL;
    }
    return p > start && out->value > 0 ? p : NULL;
}

int weights_next(const char **text, struct weight *out)
{
    const char *p = skip_weight_blanks(*text);

    if (*p == '\0')
        return 0;
    p = read_tenant_name(p, out);
    if (p != NULL)
        p = read_value(p, out);
    if (p == NULL)
        return ERR_INVAL;
    p = skip_weight_blanks(p);
    if (*p == ',' && *skip_weight_blanks(p + 1) != '\0')
        p++;
    else if (*p != '\0')
        return ERR_INVAL;
    *text = p;
    return 1;
}
