/* server/api/chat/output_style.c - finds the style of a model's answers, and looks at the ends of
 * prompts.
 *
 * The chat template is searched as text, never run: the signs of a family and the closing mark of a
 * thought stand in it literally. A template without a known family that has "</think>" gets the
 * usual marks. Whether an answer begins inside a thought is seen at the end of its rendered prompt.
 */
#include "server/api/chat/output_parser.h"

#include <string.h>

/* Finds the first of the family's thought marks whose end the template has. Marks that only this
 * family has are taken in any case, because a template may build them from parts. */
static void find_thoughts(struct output_style *style, const char *chat_template)
{
    const struct family *f = style->family;
    static const char usual[] = "</think>";

    for (uint32_t i = 0; f != NULL && i < f->n_thoughts; i++)
        if (strstr(chat_template, f->thoughts[i].close) != NULL ||
            (f->n_thoughts == 1 && strcmp(f->thoughts[i].close, usual) != 0)) {
            style->think_open = f->thoughts[i].open;
            style->think_close = f->thoughts[i].close;
            return;
        }
    if ((f == NULL || !f->has_channels) && strstr(chat_template, usual) != NULL) {
        style->think_open = "<think>";
        style->think_close = usual;
    }
}

void output_style_find_closing(struct output_style *style, const struct family *thinker,
                               const char *chat_template)
{
    const char *const *closing = thinker != NULL ? thinker->closing : NULL;

    style->closing = NULL;
    if (closing != NULL && closing[0] != NULL && strstr(chat_template, closing[0]) != NULL)
        style->closing = closing[1];
}

struct output_style output_style_of(const struct family *family, const char *chat_template)
{
    struct output_style style = {.family = family};

    find_thoughts(&style, chat_template);
    output_style_find_closing(&style, family, chat_template);
    return style;
}

struct output_style output_style_find(const char *chat_template)
{
    return output_style_of(family_of_template(chat_template), chat_template);
}

bool output_style_has_thoughts(const struct output_style *style)
{
    return style->think_close != NULL || (style->family != NULL && style->family->has_channels);
}

bool output_parser_is_mark(const struct output_style *style, const char *name, size_t n)
{
    if (n == 0)
        return false;
    if (style->think_close != NULL &&
        (memmem(style->think_open, strlen(style->think_open), name, n) != NULL ||
         memmem(style->think_close, strlen(style->think_close), name, n) != NULL))
        return true;
    return style->family != NULL && family_has_mark(style->family, name, n);
}

static bool prompt_ends_with(const char *prompt, size_t n, const char *mark)
{
    size_t len = mark != NULL ? strlen(mark) : 0;

    while (n > 0 && pattern_is_blank(prompt[n - 1]))
        n--;
    while (len > 0 && pattern_is_blank(mark[len - 1]))
        len--;
    return mark != NULL && n >= len && memcmp(prompt + n - len, mark, len) == 0;
}

bool output_parser_prompt_thinks(const struct output_style *style, const char *prompt, size_t n)
{
    return prompt_ends_with(prompt, n, style->think_open);
}

bool output_parser_prompt_may_think(const char *prompt, size_t n)
{
    for (const struct family *f = family_table(); f != NULL; f = f->next)
        for (uint32_t i = 0; i < f->n_thoughts; i++)
            if (prompt_ends_with(prompt, n, f->thoughts[i].open))
                return true;
    return prompt_ends_with(prompt, n, "<think>");
}

bool output_parser_prompt_has_thought(const struct output_style *style, const char *prompt,
                                      size_t n)
{
    return prompt_ends_with(prompt, n, style->think_close);
}

void output_parser_close_thought(const struct output_style *style, struct buf *prompt)
{
    buf_add_str(prompt, "\n");
    buf_add_str(prompt, style->think_close);
    buf_add_str(prompt, "\n\n");
}

void output_parser_skip_thought(const struct output_style *style, bool may_call, struct buf *prompt)
{
    const char *const *off = style->family != NULL ? style->family->off : NULL;

    if (off != NULL && off[0] != NULL && prompt_ends_with(prompt->data, prompt->len, off[0]))
        buf_add_str(prompt, off[may_call ? 1 : 2]);
}
