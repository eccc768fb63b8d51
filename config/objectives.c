/* config/objectives.c - see objectives.h.
 *
 * Pairs are read in place, as pointers into the list's text. A gateway sends the name of an
 * objective in a header; the server looks it up here and continues with the priority's word, which
 * the same code as for clients' priorities then parses.
 */
#include "config/objectives.h"

#include <string.h>

struct objective { /* borrowed from the list */
    const char *name, *word;
    size_t n_name, n_word;
};

static bool is_priority(const struct objective *o)
{
    static const char *const words[] = {"low", "normal", "high", "critical"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == o->n_word && strncmp(words[i], o->word, o->n_word) == 0)
            return true;
    return false;
}

/* Read the next pair at *text and move *text past it and its comma; false: the pair is invalid. */
static bool next_objective(const char **text, struct objective *out)
{
    const char *p = *text + strspn(*text, " \t");
    const size_t n = strcspn(p, ",");

    *out = (struct objective){.name = p};
    *text = p + n + (p[n] == ',');
    while (p[out->n_name] > ' ' && p[out->n_name] < 0x7f && strchr("=,", p[out->n_name]) == NULL)
        out->n_name++;
    if (out->n_name == 0 || out->n_name > OBJECTIVES_MAX_NAME || p[out->n_name] != '=')
        return false;
    out->word = p + out->n_name + 1;
    out->n_word = strcspn(out->word, ", \t");
    return out->word + out->n_word + strspn(out->word + out->n_word, " \t") == p + n &&
           is_priority(out);
}

bool objectives_are_valid(const char *text)
{
    struct objective o;

    if (*text != '\0' && text[strlen(text) - 1] == ',')
        return false;
    while (*text != '\0')
        if (!next_objective(&text, &o))
            return false;
    return true;
}

bool objectives_find(const char *text, const char *name, char *out, size_t size)
{
    struct objective o;

    while (*text != '\0' && next_objective(&text, &o)) {
        if (strlen(name) != o.n_name || strncmp(name, o.name, o.n_name) != 0 || o.n_word >= size)
            continue;
        memcpy(out, o.word, o.n_word);
        out[o.n_word] = '\0';
        return true;
    }
    return false;
}
