/* server/api/params/stop.c - see stop.h.
 *
 * `held` is the text that might still begin a stop string. Each piece of text is appended to it and
 * every stop string is searched in it; when none is complete, all but the longest tail that begins
 * one goes out. So no text is searched twice but that tail, which is shorter than a stop string.
 */
#include "server/api/params/stop.h"

#include "core/base/mem.h"

#include <string.h>

void stop_list_release(struct stop_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        mem_free(list->text[i]);
    *list = (struct stop_list){0};
}

void stop_init(struct stop *s, const struct stop_list *list)
{
    *s = (struct stop){.list = list};
    buf_init(&s->held, (size_t)1 << 20); /* a stop string and one token's text, with much room */
}

void stop_release(struct stop *s)
{
    buf_release(&s->held);
}

/* Find the stop string that is complete first, and where it begins. false: there is none. */
static bool find_stop(struct stop *s, size_t *start)
{
    size_t best_end = 0;
    bool found = false;

    for (size_t i = 0; i < s->list->n; i++) {
        const size_t len = strlen(s->list->text[i]);
        const char *at = memmem(s->held.data, s->held.len, s->list->text[i], len);
        size_t at_start, at_end;

        if (at == NULL)
            continue;
        at_start = (size_t)(at - s->held.data);
        at_end = at_start + len;
        if (!found || at_end < best_end || (at_end == best_end && at_start < *start)) {
            best_end = at_end;
            *start = at_start;
            s->found = s->list->text[i];
        }
        found = true;
    }
    return found;
}

/* The length of the longest tail of `held` that is the beginning of a stop string. */
static size_t tail_len(const struct stop *s)
{
    size_t longest = 0;

    for (size_t i = 0; i < s->list->n; i++) {
        size_t n = strlen(s->list->text[i]) - 1;

        if (n > s->held.len)
            n = s->held.len;
        while (n > longest && memcmp(s->held.data + s->held.len - n, s->list->text[i], n) != 0)
            n--;
        if (n > longest)
            longest = n;
    }
    return longest;
}

static void release_front(struct stop *s, size_t n, struct buf *out)
{
    if (n == 0)
        return;
    buf_add(out, s->held.data, n);
    buf_consume(&s->held, n);
}

bool stop_feed(struct stop *s, const char *text, size_t n, bool is_armed, struct buf *out)
{
    size_t start = 0;

    if (s->list->n == 0 || !is_armed) {
        stop_flush(s, out);
        if (n > 0)
            buf_add(out, text, n);
        return false;
    }
    if (n == 0)
        return false;
    if (buf_add(&s->held, text, n) < 0) {
        out->err = s->held.err; /* the caller checks its own buffer once */
        return false;
    }
    if (find_stop(s, &start)) {
        release_front(s, s->keeps_found ? start + strlen(s->found) : start, out);
        buf_clear(&s->held);
        return true;
    }
    release_front(s, s->held.len - tail_len(s), out);
    return false;
}

void stop_flush(struct stop *s, struct buf *out)
{
    release_front(s, s->held.len, out);
}
