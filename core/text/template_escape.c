/* core/text/template_escape.c - HTML: escaping, and taking tags away. */
#include "core/text/template_private.h"

#include "core/text/unicode.h"

void template_escape(struct value s, struct buf *out)
{
    for (uint32_t i = 0; i < s.n; i++) {
        switch (s.s[i]) {
        case '&':
            buf_add_str(out, "&amp;");
            break;
        case '<':
            buf_add_str(out, "&lt;");
            break;
        case '>':
            buf_add_str(out, "&gt;");
            break;
        case '"':
            buf_add_str(out, "&#34;");
            break;
        case '\'':
            buf_add_str(out, "&#39;");
            break;
        default:
            buf_add_char(out, s.s[i]);
        }
    }
}

struct value template_escaped(struct render *r, struct value v)
{
    struct buf b;

    v = template_str(r, v);
    if ((v.flags & VALUE_SAFE) == 0) {
        template_text(r, &b);
        template_escape(v, &b);
        v = template_take(r, &b);
        v.flags |= VALUE_SAFE;
    }
    return v;
}
