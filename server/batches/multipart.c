/* server/batches/multipart.c - see multipart.h.
 *
 * A state machine over single bytes for boundaries and headers; data is searched for the next CR
 * with memchr(), because a boundary can only begin there. A boundary may be split between pieces:
 * n_matched counts the bytes of it that have matched, and when the match fails they are returned as
 * data from the delimiter itself.
 */
#include "server/batches/multipart.h"

#include <string.h>
#include <strings.h>

enum state { PREAMBLE = 0, BEHIND_BOUNDARY, CLOSING, LINE_END, HEADERS, DATA, EPILOGUE, FAILED };

/* ---- parameters of header fields ---- */

static const char *skip_header_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* Read a token, or a quoted string, into out. Returns its end, or NULL when it is not valid or too
 * long. */
static const char *take_value(const char *s, char *out, size_t size)
{
    const bool is_quoted = *s == '"';
    size_t n = 0;

    s += is_quoted;
    while (*s != '\0' && (is_quoted ? *s != '"' : strchr("; \t", *s) == NULL)) {
        s += is_quoted && *s == '\\' && s[1] != '\0';
        if (n + 1 >= size)
            return NULL;
        out[n++] = *s++;
    }
    out[n] = '\0';
    if (is_quoted && *s++ != '"')
        return NULL;
    return s;
}

/* Find the parameter of that name after the first ';', as in RFC 9110: 1 when found, 0 when absent,
 * -1 when it cannot be read. */
static int find_parameter(const char *value, const char *name, char *out, size_t size)
{
    const size_t n = strlen(name);
    char other[MULTIPART_MAX_HEADERS] = "";
    const char *s = strchr(value, ';');

    while (s != NULL && *s == ';') {
        const char *at = skip_header_blanks(s + 1), *equals = strchr(at, '=');
        const bool is_it =
            equals != NULL && (size_t)(equals - at) == n && strncasecmp(at, name, n) == 0;

        if (*at == '\0')
            return 0;
        if (equals == NULL)
            return -1;
        s = take_value(equals + 1, is_it ? out : other, is_it ? size : sizeof(other));
        if (s == NULL)
            return -1;
        if (is_it)
            return 1;
        s = skip_header_blanks(s);
    }
    return 0;
}

/* ---- the beginning ---- */

static bool is_boundary(const char *s)
{
    static const char others[] = "'()+_,-./:=? ";

    for (; *s != '\0'; s++)
        if (!((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z')) &&
            strchr(others, *s) == NULL)
            return false;
    return true;
}

bool multipart_init(struct multipart *m, const char *content_type)
{
    static const char type[] = "multipart/form-data";
    char boundary[MULTIPART_MAX_BOUNDARY + 1];
    size_t n;

    *m = (struct multipart){0};
    if (content_type == NULL || strncasecmp(content_type, type, sizeof(type) - 1) != 0 ||
        strchr("; \t", content_type[sizeof(type) - 1]) == NULL ||
        find_parameter(content_type, "boundary", boundary, sizeof(boundary)) <= 0)
        return false;
    n = strlen(boundary);
    if (n == 0 || boundary[n - 1] == ' ' || !is_boundary(boundary))
        return false;
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, n);
    m->n_delimiter = n + 4;
    m->n_matched = 2; /* the first boundary needs no line end before it */
    return true;
}

static enum multipart_event fail_multipart(struct multipart *m, const char *why)
{
    m->state = FAILED;
    m->why = why;
    return MULTIPART_BAD;
}

/* ---- headers ---- */

static enum multipart_event take_field(struct multipart *m)
{
    static const char field[] = "content-disposition:";
    const char *value = m->line + sizeof(field) - 1;
    int rc;

    if (strncasecmp(m->line, field, sizeof(field) - 1) != 0)
        return MULTIPART_MORE;
    value = skip_header_blanks(value);
    if (m->has_name || strncasecmp(value, "form-data", 9) != 0)
        return fail_multipart(
            m, "a part's Content-Disposition must be form-data, and occur only once");
    if (find_parameter(value, "name", m->name, sizeof(m->name)) != 1)
        return fail_multipart(m, "a part must have a name of at most 63 bytes");
    rc = find_parameter(value, "filename", m->filename, sizeof(m->filename));
    if (rc < 0)
        return fail_multipart(m, "a file's name must have at most 255 bytes");
    m->has_name = true;
    m->has_filename = rc > 0;
    return MULTIPART_MORE;
}

static enum multipart_event end_line(struct multipart *m)
{
    const bool is_empty = m->n_line == 1;

    if (m->line[m->n_line - 1] != '\r')
        return fail_multipart(m, "a part's headers must end with CR LF");
    m->line[m->n_line - 1] = '\0';
    m->n_line = 0;
    if (!is_empty)
        return take_field(m);
    if (!m->has_name)
        return fail_multipart(m, "a part must have a Content-Disposition with a name");
    m->state = DATA;
    m->n_matched = 0;
    return MULTIPART_PART;
}

static enum multipart_event header_byte(struct multipart *m, char c)
{
    if (++m->n_headers > MULTIPART_MAX_HEADERS)
        return fail_multipart(m, "a part's headers are too long");
    if (c == '\0')
        return fail_multipart(m, "a part's headers cannot have a NUL");
    if (c == '\n')
        return m->n_line > 0 ? end_line(m)
                             : fail_multipart(m, "a part's headers must end with CR LF");
    m->line[m->n_line++] = c;
    return MULTIPART_MORE;
}

/* ---- boundaries and data ---- */

static void begin_headers(struct multipart *m)
{
    m->state = HEADERS;
    m->n_headers = m->n_line = 0;
    m->has_name = m->has_filename = false;
    m->name[0] = m->filename[0] = '\0';
}

/* A byte after a boundary: -- ends the body; blanks and a line end begin a part. */
static enum multipart_event boundary_byte(struct multipart *m, char c)
{
    switch ((enum state)m->state) {
    case BEHIND_BOUNDARY:
        if (c == '-')
            m->state = CLOSING;
        else if (c == '\r')
            m->state = LINE_END;
        else if (c != ' ' && c != '\t')
            return fail_multipart(m, "a boundary must end its line");
        return MULTIPART_MORE;
    case CLOSING:
        if (c != '-')
            return fail_multipart(m, "a boundary must end its line");
        m->state = EPILOGUE;
        return MULTIPART_END;
    default:
        if (c != '\n')
            return fail_multipart(m, "a boundary must end its line");
        begin_headers(m);
        return MULTIPART_MORE;
    }
}

static enum multipart_event end_data(struct multipart *m)
{
    const bool is_part = m->state == DATA;

    m->state = BEHIND_BOUNDARY;
    m->n_matched = 0;
    return is_part ? MULTIPART_PART_END : MULTIPART_MORE;
}

/* Return bytes up to a possible beginning of a boundary. The delimiter has its only CR at its
 * beginning, so bytes that did not match it are data, and cannot begin another one. */
static enum multipart_event take_data(struct multipart *m, const char **at, const char *end,
                                      const char **data, size_t *n_data)
{
    const char *cr;

    while (m->n_matched > 0 && *at < end && **at == m->delimiter[m->n_matched]) {
        (*at)++;
        if (++m->n_matched == m->n_delimiter)
            return end_data(m);
    }
    if (*at == end)
        return MULTIPART_MORE;
    if (m->n_matched > 0) {
        *data = m->delimiter;
        *n_data = m->n_matched;
        m->n_matched = 0;
        return m->state == DATA ? MULTIPART_DATA : MULTIPART_MORE;
    }
    cr = memchr(*at, '\r', (size_t)(end - *at));
    *data = *at;
    *n_data = cr != NULL ? (size_t)(cr - *at) : (size_t)(end - *at);
    *at += *n_data;
    if (cr != NULL) {
        (*at)++;
        m->n_matched = 1;
    }
    return *n_data > 0 && m->state == DATA ? MULTIPART_DATA : MULTIPART_MORE;
}

enum multipart_event multipart_next(struct multipart *m, const char **at, const char *end,
                                    const char **data, size_t *n_data)
{
    enum multipart_event e = MULTIPART_MORE;

    while (*at < end && e == MULTIPART_MORE)
        switch ((enum state)m->state) {
        case PREAMBLE:
        case DATA:
            e = take_data(m, at, end, data, n_data);
            break;
        case BEHIND_BOUNDARY:
        case CLOSING:
        case LINE_END:
            e = boundary_byte(m, *(*at)++);
            break;
        case HEADERS:
            e = header_byte(m, *(*at)++);
            break;
        case EPILOGUE:
            *at = end;
            break;
        case FAILED:
            return MULTIPART_BAD;
        }
    return m->state == FAILED ? MULTIPART_BAD : e;
}
