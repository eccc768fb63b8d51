/* server/cli/report.c - see report.h.
 *
 * The report is an array of checks of fixed size, in the order in which they were added. Texts are
 * cleaned when they are added, so that the two printers can write them unchanged. The counts
 * include checks that had no room.
 */
#include "server/cli/report.h"

#include "core/base/buf.h"
#include "core/json/json.h"

#include <stdarg.h>
#include <string.h>

#define MAX_JSON ((size_t)1 << 20)

static const char *const level_names[] = {
    [DOCTOR_OK] = "ok",
    [DOCTOR_NOTE] = "note",
    [DOCTOR_PROBLEM] = "problem",
};

static void clean(char *text)
{
    const bool is_utf8 = json_is_utf8(text, strlen(text));

    for (char *p = text; *p != '\0'; p++) {
        const unsigned char c = (unsigned char)*p;

        if (c < ' ' || c == 0x7F || (c >= 0x80 && !is_utf8))
            *p = '?';
    }
}

void doctor_add(struct doctor_report *r, enum doctor_level level, const char *name,
                const char *format, ...)
{
    struct doctor_check *c = &r->checks[r->n_checks];
    va_list args;

    r->count[level]++;
    if (r->n_checks == DOCTOR_MAX_CHECKS)
        return;
    c->level = level;
    c->name = name;
    c->remedy[0] = '\0';
    va_start(args, format);
    vsnprintf(c->text, sizeof(c->text), format, args);
    va_end(args);
    clean(c->text);
    r->n_checks++;
}

void doctor_remedy(struct doctor_report *r, const char *format, ...)
{
    struct doctor_check *c = &r->checks[r->n_checks > 0 ? r->n_checks - 1 : 0];
    va_list args;

    va_start(args, format);
    vsnprintf(c->remedy, sizeof(c->remedy), format, args);
    va_end(args);
    clean(c->remedy);
}

void doctor_print(const struct doctor_report *r, FILE *out)
{
    for (uint32_t i = 0; i < r->n_checks; i++) {
        const struct doctor_check *c = &r->checks[i];

        fprintf(out, "%-8s %-14s %s\n", level_names[c->level], c->name, c->text);
        if (c->remedy[0] != '\0')
            fprintf(out, "%24s> %s\n", "", c->remedy);
    }
    fprintf(out, "\n%u problems, %u notes, %u checks\n", r->count[DOCTOR_PROBLEM],
            r->count[DOCTOR_NOTE],
            r->count[DOCTOR_PROBLEM] + r->count[DOCTOR_NOTE] + r->count[DOCTOR_OK]);
}

static void add_report_member(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, ",\"%s\":", key);
    json_add_cstring(b, value);
}

void doctor_print_json(const struct doctor_report *r, FILE *out)
{
    struct buf b;

    buf_init(&b, MAX_JSON);
    buf_printf(&b, "{\"problems\":%u,\"notes\":%u,\"checks\":[", r->count[DOCTOR_PROBLEM],
               r->count[DOCTOR_NOTE]);
    for (uint32_t i = 0; i < r->n_checks; i++) {
        buf_printf(&b, "%s{\"level\":\"%s\"", i > 0 ? "," : "", level_names[r->checks[i].level]);
        add_report_member(&b, "name", r->checks[i].name);
        add_report_member(&b, "text", r->checks[i].text);
        if (r->checks[i].remedy[0] != '\0')
            add_report_member(&b, "remedy", r->checks[i].remedy);
        buf_add_char(&b, '}');
    }
    buf_add_str(&b, "]}");
    fprintf(out, "%s\n", b.err == 0 ? b.data : "{}");
    buf_release(&b);
}
