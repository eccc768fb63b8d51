/* server/top/units.c - see units.h.
 *
 * Numbers are scaled to three significant digits and a unit of one letter. The bounds (9.95, 99.5,
 * 999.5e3) are those of rounding, so that a text never becomes a column wider by rounding up.
 */
#include "server/top/units.h"

#include <math.h>
#include <stdio.h>

static struct top_text scaled(double n, const char *unit)
{
    struct top_text t;

    snprintf(t.text, sizeof(t.text), n < 9.95 ? "%.2f%s" : n < 99.5 ? "%.1f%s" : "%.0f%s", n, unit);
    return t;
}

struct top_text top_count(double n)
{
    struct top_text t = {"-"};

    if (n >= 999.5e6)
        return scaled(n / 1e9, "G");
    if (n >= 999.5e3)
        return scaled(n / 1e6, "M");
    if (n >= 9999.5)
        return scaled(n / 1e3, "k");
    if (n >= 0)
        snprintf(t.text, sizeof(t.text), n < 99.5 && n != floor(n) ? "%.1f" : "%.0f", n);
    return t;
}

struct top_text top_time(double seconds)
{
    struct top_text t = {"-"};
    const double whole = floor(seconds);

    if (!isfinite(seconds))
        snprintf(t.text, sizeof(t.text), "long");
    else if (seconds >= 86400)
        snprintf(t.text, sizeof(t.text), "%.0fd%02.0fh", floor(whole / 86400),
                 floor(fmod(whole, 86400) / 3600));
    else if (seconds >= 3600)
        snprintf(t.text, sizeof(t.text), "%.0fh%02.0f", floor(whole / 3600),
                 floor(fmod(whole, 3600) / 60));
    else if (seconds >= 60)
        snprintf(t.text, sizeof(t.text), "%.0fm%02.0f", floor(whole / 60), fmod(whole, 60));
    else if (seconds >= 1)
        snprintf(t.text, sizeof(t.text), "%.1f s", seconds);
    else if (seconds >= 0)
        snprintf(t.text, sizeof(t.text), seconds < 0.00995 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    return t;
}
