/* core/formats/hf/names.c - the GGUF name of a folder's tensor (see classes.h).
 *
 * A name is taken apart from the left: the class's root, the prefix of layers and the layer's
 * number are removed if present, and the rest is compared with the class's rows in order; "*" in a
 * row matches an expert's number. The ending .weight or .bias is carried over. Tensors that are
 * known but not needed get an empty name.
 */
#include "core/formats/hf/classes.h"

#include <stdio.h>
#include <string.h>

/* Read a number of at most five digits at *at and move *at past it. */
static bool take_number(const char **at, uint32_t *n)
{
    const size_t digits = strspn(*at, "0123456789");

    if (digits < 1 || digits > 5)
        return false;
    *n = 0;
    for (size_t i = 0; i < digits; i++)
        *n = *n * 10 + (uint32_t)((*at)[i] - '0');
    *at += digits;
    return true;
}

static const char *rest_behind(const char *text, const char *start)
{
    const size_t n = strlen(start);

    return strncmp(text, start, n) == 0 ? text + n : text;
}

/* True: the name begins like the pattern; *rest is the rest of the name. */
static bool begins_with(const char *name, const char *pattern, struct hf_found *found,
                        const char **rest)
{
    found->is_expert = false;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*') {
            found->is_expert = take_number(&name, &found->expert);
            if (!found->is_expert)
                return false;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    *rest = name;
    return true;
}

/* Return the row for a name, or NULL. */
static const struct hf_name *find_name_row(const struct hf_name *rows, const char *name,
                                           struct hf_found *found, const char **rest)
{
    for (; rows->theirs != NULL; rows++)
        if (begins_with(name, rows->theirs, found, rest) &&
            (**rest == '\0' || strcmp(*rest, ".weight") == 0 || strcmp(*rest, ".bias") == 0))
            return rows;
    return NULL;
}

bool hf_class_name(const struct hf_class *c, uint32_t n_layer, const char *theirs,
                   struct hf_found *found)
{
    const char *name = rest_behind(theirs, c->root), *at = rest_behind(name, c->layers), *rest = "";
    const struct hf_name *row;
    uint32_t layer = 0;
    const bool in_layer = at != name && take_number(&at, &layer) && *at == '.';

    name = in_layer ? at : name;
    *found = (struct hf_found){0};
    if (((c->flags & HF_MTP) != 0 && rest_behind(theirs, "mtp.") != theirs) ||
        ((c->flags & HF_TEXT_PART) != 0 && rest_behind(theirs, "model.visual.") != theirs))
        return true;
    if (in_layer && layer >= n_layer && (c->flags & HF_MORE_LAYERS) != 0)
        return true;
    row = find_name_row(c->names, name, found, &rest);
    if (row == NULL || (row->theirs[0] == '.') != in_layer)
        return false;
    found->fit = row->fit;
    if (row->ours == NULL)
        return true;
    /* A row with a whole name needs nothing after it; any other keeps the ending of the tensor's
     * name. */
    if ((strchr(row->ours, '.') != NULL || row->fit == FIT_MINUS_EXP) != (*rest == '\0'))
        return false;
    if (in_layer)
        snprintf(found->name, sizeof(found->name), "blk.%u.%s%s", layer, row->ours, rest);
    else
        snprintf(found->name, sizeof(found->name), "%s%s", row->ours, rest);
    return true;
}
