/* server/api/chat/call_value.c - types from schemas, raw text as values, and the ends of values.
 *
 * Schemas are walked recursively with a depth limit and a count of steps that are left, because
 * schemas that refer to each other would be visited exponentially often; beyond the limits any type
 * is allowed. The types of a value are a bit mask that allOf intersects and anyOf unites. Raw text
 * becomes a number or word only if it reads as one completely. call_value_ends() keeps its state
 * between calls, so a long value is scanned once.
 */
#include "server/api/chat/call_value.h"

#include <string.h>

#define MAX_DEPTH 32    /* nesting of schemas that refer to each other */
#define MAX_PARTS 2000  /* schemas that one refers to */
#define MAX_INNER 1000  /* values within the arguments of a function */
#define MAX_STEPS 10000 /* schemas and listed values visited for the types of one value */
#define MAX_PROPERTIES 100000 /* properties of all parts together */

/* ---- types ---- */

static const char *const type_names[] = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object"};

static unsigned type_named(const cJSON *v)
{
    for (unsigned i = 0; cJSON_IsString(v) && i < 7; i++)
        if (strcmp(v->valuestring, type_names[i]) == 0)
            return 1u << i;
    return 0;
}

static unsigned json_type(const cJSON *v)
{
    return cJSON_IsNull(v)     ? ARGUMENT_NULL
           : cJSON_IsBool(v)   ? ARGUMENT_BOOLEAN
           : cJSON_IsNumber(v) ? ARGUMENT_NUMBER | ARGUMENT_INTEGER
           : cJSON_IsString(v) ? ARGUMENT_STRING
           : cJSON_IsArray(v)  ? ARGUMENT_ARRAY
                               : ARGUMENT_OBJECT;
}

/* True: `name` is the step text[0..n) of a JSON pointer, in which ~1 is a slash and ~0 a tilde. */
static bool is_step(const char *name, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++, name++) {
        char c = text[i];

        if (c == '~' && i + 1 < n)
            c = text[++i] == '1' ? '/' : '~';
        if (*name != c)
            return false;
    }
    return *name == '\0';
}

/* Follows a pointer such as "#/$defs/x" within the root; NULL: it leads elsewhere. */
static const cJSON *find_reference(const cJSON *root, const char *pointer)
{
    const cJSON *at = root;

    if (pointer[0] != '#')
        return NULL;
    for (pointer++; at != NULL && *pointer == '/';) {
        const size_t n = strcspn(++pointer, "/");
        const cJSON *it = at->child;

        while (it != NULL && (it->string == NULL || !is_step(it->string, pointer, n)))
            it = it->next;
        at = it;
        pointer += n;
    }
    return at;
}

static const cJSON *member(const cJSON *schema, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(schema, name);
}

struct type_walk { /* a walk through the schemas that restrict a value */
    const cJSON *root;
    uint32_t n_left; /* steps: schemas that refer to each other are visited repeatedly, and their
                      * number doubles with each level */
};

static unsigned schema_types_of(struct type_walk *w, const cJSON *schema, unsigned depth);

static unsigned types_of_list(struct type_walk *w, const cJSON *list, unsigned depth, bool is_all)
{
    unsigned types = is_all ? ARGUMENT_ANY : 0;
    const cJSON *it;

    cJSON_ArrayForEach(it, list)
    {
        const unsigned some = schema_types_of(w, it, depth + 1);

        types = is_all ? types & some : types | some;
    }
    return types;
}

static unsigned types_of_values(struct type_walk *w, const cJSON *values)
{
    unsigned types = 0;
    const cJSON *it;

    cJSON_ArrayForEach(it, values)
    {
        if (w->n_left == 0)
            return ARGUMENT_ANY;
        w->n_left--;
        types |= json_type(it);
    }
    return types;
}

static unsigned listed_types(struct type_walk *w, const cJSON *schema)
{
    const cJSON *type = member(schema, "type"), *it;
    unsigned types = type_named(type);

    if (cJSON_IsArray(type))
        cJSON_ArrayForEach(it, type) types |= type_named(it);
    if (types == 0)
        types = types_of_values(w, member(schema, "enum"));
    if (types == 0 && member(schema, "const") != NULL)
        types = json_type(member(schema, "const"));
    if ((types & ARGUMENT_NUMBER) != 0)
        types |= ARGUMENT_INTEGER;
    if (types != 0 && cJSON_IsTrue(member(schema, "nullable")))
        types |= ARGUMENT_NULL;
    return types;
}

static unsigned schema_types_of(struct type_walk *w, const cJSON *schema, unsigned depth)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    const char *reference = cJSON_GetStringValue(member(schema, "$ref"));
    unsigned types = ARGUMENT_ANY, listed;

    if (depth > MAX_DEPTH || !cJSON_IsObject(schema) || w->n_left == 0)
        return ARGUMENT_ANY;
    w->n_left--;
    listed = listed_types(w, schema);
    if (listed != 0)
        types &= listed;
    if (reference != NULL)
        types &= schema_types_of(w, find_reference(w->root, reference), depth + 1);
    for (unsigned i = 0; i < 3; i++)
        if (cJSON_IsArray(member(schema, lists[i])))
            types &= types_of_list(w, member(schema, lists[i]), depth, i == 0);
    return types != 0 ? types : ARGUMENT_ANY;
}

unsigned call_value_schema_types(const cJSON *root, const cJSON *schema)
{
    struct type_walk w = {root, MAX_STEPS};

    return schema_types_of(&w, schema, 0);
}

/* ---- properties ---- */

struct walk { /* a walk through the schemas that one refers to */
    const cJSON *root;
    uint32_t n_left; /* steps: schemas that refer to each other may be visited repeatedly */
    void (*visit)(void *ud, const cJSON *root, const cJSON *schema);
    void *ud;
};

static void each_part(struct walk *w, const cJSON *schema, unsigned depth)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    const char *reference = cJSON_GetStringValue(member(schema, "$ref"));
    const cJSON *it;

    if (depth > MAX_DEPTH || !cJSON_IsObject(schema) || w->n_left == 0)
        return;
    w->n_left--;
    w->visit(w->ud, w->root, schema);
    if (reference != NULL)
        each_part(w, find_reference(w->root, reference), depth + 1);
    for (unsigned i = 0; i < 3; i++)
        cJSON_ArrayForEach(it, member(schema, lists[i]))
        {
            each_part(w, it, depth + 1);
        }
}

struct taker {
    call_value_property *take;
    void *ud;
    uint32_t n_left; /* properties that may still be visited */
};

static void take_properties(void *ud, const cJSON *root, const cJSON *schema)
{
    struct taker *t = ud;
    const cJSON *it;

    cJSON_ArrayForEach(it, member(schema, "properties"))
    {
        if (t->n_left == 0)
            return;
        t->n_left--;
        t->take(t->ud, root, it);
    }
}

void call_value_each_property(const cJSON *parameters, call_value_property *take, void *ud)
{
    struct taker t = {take, ud, MAX_PROPERTIES};
    struct walk w = {parameters, MAX_PARTS, take_properties, &t};

    each_part(&w, parameters, 0);
}

struct named {
    const char *key;
    unsigned types;
};

static void take_named(void *ud, const cJSON *root, const cJSON *property)
{
    struct named *n = ud;

    if (strcmp(property->string, n->key) == 0)
        n->types |= call_value_schema_types(root, property);
}

static void take_others(void *ud, const cJSON *root, const cJSON *schema)
{
    const cJSON *additional = member(schema, "additionalProperties"), *it;
    unsigned *types = ud;

    if (additional != NULL && !cJSON_IsFalse(additional) && *types != ARGUMENT_ANY)
        *types |= call_value_schema_types(root, additional);
    cJSON_ArrayForEach(it, member(schema, "patternProperties"))
    {
        if (*types == ARGUMENT_ANY)
            return;
        *types |= call_value_schema_types(root, it);
    }
}

unsigned call_value_key_types(const cJSON *parameters, const char *key)
{
    struct named named = {.key = key};
    unsigned others = 0;
    struct walk w = {parameters, MAX_PARTS, take_others, &others};

    if (key != NULL)
        call_value_each_property(parameters, take_named, &named);
    if (named.types != 0)
        return named.types;
    each_part(&w, parameters, 0);
    return others != 0 ? others : ARGUMENT_ANY;
}

struct inner { /* values within arguments */
    call_value_inner *take;
    void *ud;
    const char *name; /* name of the value that is visited */
    uint32_t n_left;
    unsigned depth;
};

static void look_into(struct inner *in, const cJSON *root, const char *name, const cJSON *schema);

static void take_inner(struct inner *in, const cJSON *root, const char *name, bool is_item,
                       const cJSON *schema)
{
    if (in->n_left == 0)
        return;
    in->n_left--;
    in->take(in->ud, root, name, is_item, schema);
    look_into(in, root, name, schema);
}

static void visit_inner(void *ud, const cJSON *root, const cJSON *schema)
{
    struct inner *in = ud;
    const char *name = in->name;
    const cJSON *it;

    in->n_left -= in->n_left > 0;
    cJSON_ArrayForEach(it, member(schema, "properties"))
    {
        if (in->n_left == 0)
            return;
        take_inner(in, root, it->string, false, it);
    }
    if (cJSON_IsObject(member(schema, "items")))
        take_inner(in, root, name, true, member(schema, "items"));
}

static void look_into(struct inner *in, const cJSON *root, const char *name, const cJSON *schema)
{
    struct walk w = {root, MAX_INNER, visit_inner, in};
    const char *outer = in->name;

    if (in->depth == MAX_DEPTH || in->n_left == 0)
        return;
    in->depth++;
    in->name = name;
    each_part(&w, schema, 0);
    in->name = outer;
    in->depth--;
}

static void look_into_property(void *ud, const cJSON *root, const cJSON *property)
{
    look_into(ud, root, property->string, property);
}

void call_value_each_inner(const cJSON *parameters, call_value_inner *take, void *ud)
{
    struct inner in = {.take = take, .ud = ud, .n_left = MAX_INNER};

    call_value_each_property(parameters, look_into_property, &in);
}

/* ---- raw text ---- */

/* Appends characters without a NUL among them. */
static void add_chars(struct buf *out, const char *text, size_t n)
{
    const size_t from = out->len;

    json_add_string(out, text, n);
    if (out->err < 0)
        return;
    memmove(out->data + from, out->data + from + 1, out->len - from - 2);
    out->len -= 2;
    out->data[out->len] = '\0';
}

void call_value_add_chars(struct buf *out, const char *text, size_t n)
{
    for (size_t i = 0, len; i < n; i += len + 1) {
        len = strnlen(text + i, n - i);
        add_chars(out, text + i, len);
        if (i + len < n)
            buf_add_str(out, "\xef\xbf\xbd");
    }
}

void call_value_add_string(struct buf *out, const char *text, size_t n)
{
    buf_add_char(out, '"');
    call_value_add_chars(out, text, n);
    buf_add_char(out, '"');
}

static bool is_literal_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* True: text[0..n) is a number of JSON. *is_whole: it has no fraction. */
static bool is_number(const char *text, size_t n, bool *is_whole)
{
    size_t i = n > 0 && text[0] == '-', digits;

    *is_whole = true;
    digits = i;
    while (i < n && text[i] >= '0' && text[i] <= '9')
        i++;
    if (i == digits || (text[digits] == '0' && i > digits + 1))
        return false;
    if (i < n && text[i] == '.') {
        digits = ++i;
        for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
            *is_whole = *is_whole && text[i] == '0';
        if (i == digits)
            return false;
    }
    if (i < n && (text[i] == 'e' || text[i] == 'E')) {
        *is_whole = false;
        i++;
        i += i < n && (text[i] == '+' || text[i] == '-');
        digits = i;
        while (i < n && text[i] >= '0' && text[i] <= '9')
            i++;
        if (i == digits)
            return false;
    }
    return i == n;
}

/* Appends a list or an object, written as JSON or, as some templates print them, as Python. */
static bool add_nested(struct buf *out, const char *text, size_t n, unsigned types)
{
    const char *why = NULL;
    cJSON *json = NULL;

    if (n < 2 || (types & (text[0] == '{'   ? ARGUMENT_OBJECT
                           : text[0] == '[' ? ARGUMENT_ARRAY
                                            : 0u)) == 0)
        return false;
    if (json_parse(text, n, &json, &why) < 0)
        return call_value_add_literal(out, NULL, text, n);
    cJSON_Delete(json);
    buf_add(out, text, n);
    return true;
}

static bool add_plain(struct buf *out, const char *text, size_t n, unsigned types)
{
    const bool is_typed = types != ARGUMENT_ANY; /* else True is a word like any other */
    const char *word = NULL;
    bool is_whole;

    if ((types & ARGUMENT_NULL) != 0 &&
        (is_literal_word(text, n, "null") || (is_typed && is_literal_word(text, n, "None"))))
        word = "null";
    else if ((types & ARGUMENT_BOOLEAN) != 0 &&
             (is_literal_word(text, n, "true") || (is_typed && is_literal_word(text, n, "True"))))
        word = "true";
    else if ((types & ARGUMENT_BOOLEAN) != 0 &&
             (is_literal_word(text, n, "false") || (is_typed && is_literal_word(text, n, "False"))))
        word = "false";
    if (word != NULL) {
        buf_add_str(out, word);
        return true;
    }
    if ((types & (ARGUMENT_NUMBER | ARGUMENT_INTEGER)) == 0 || !is_number(text, n, &is_whole) ||
        ((types & ARGUMENT_NUMBER) == 0 && !is_whole))
        return false;
    buf_add(out, text, n);
    return true;
}

void call_value_add_text(struct buf *out, const char *text, size_t n, unsigned types)
{
    const char *inner = text;
    size_t len = n;

    while (len > 0 && pattern_is_blank(inner[len - 1]))
        len--;
    while (len > 0 && pattern_is_blank(*inner)) {
        inner++;
        len--;
    }
    if (types != ARGUMENT_STRING && len > 0 &&
        (add_plain(out, inner, len, types) || add_nested(out, inner, len, types)))
        return;
    call_value_add_string(out, text, n);
}

/* ---- ends ---- */

/* Skips a string past the family's closing quote, or to where that quote may begin. */
static bool skip_quoted(struct call_value_scan *s, const char *text, size_t n)
{
    const char *close = s->family->quotes[1];
    const size_t len = strlen(close);
    const char *at = memmem(text + s->at, n - s->at, close, len);

    if (at == NULL) {
        const size_t sure = n >= len ? n - len + 1 : 0;

        s->at = sure > s->at ? sure : s->at;
        return false;
    }
    s->at = (size_t)(at - text) + len;
    s->quote = 0;
    return true;
}

/* Looks for an opening quote. False: the text ends in what may become one. */
static bool open_quoted(struct call_value_scan *s, const char *text, size_t n)
{
    const char *open = s->family->quotes[0];
    const size_t len = strlen(open), left = n - s->at;

    if (memcmp(text + s->at, open, left < len ? left : len) != 0) {
        s->quote = text[s->at++] == '"' ? '"' : 0; /* models write strings of JSON, too */
        return true;
    }
    if (left < len)
        return false;
    s->at += len;
    s->quote = 1;
    return true;
}

static bool closes(const struct call_value_scan *s, char c)
{
    return s->depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}');
}

static void count_brackets(struct call_value_scan *s, char c)
{
    if (c == '(' || c == '[' || c == '{')
        s->depth++;
    else if ((c == ')' || c == ']' || c == '}') && s->depth > 0)
        s->depth--;
}

/* Skips a JSON string, or as much of it as has come. False: the text ends inside an escape. */
static bool skip_json_string(struct call_value_scan *s, const char *text, size_t n)
{
    for (; s->at < n && s->quote != 0; s->at++) {
        if (text[s->at] == '\\' && s->at + 1 == n)
            return false;
        if (text[s->at] == '\\')
            s->at++; /* an escaped character ends nothing */
        else if (text[s->at] == '"')
            s->quote = 0;
    }
    return true;
}

static bool quoted_ends(struct call_value_scan *s, const char *text, size_t n)
{
    while (s->at < n) {
        if (s->quote == '"') {
            if (!skip_json_string(s, text, n))
                return false;
            continue;
        }
        if (s->quote != 0) {
            if (!skip_quoted(s, text, n))
                return false;
            continue;
        }
        if (closes(s, text[s->at]))
            return true;
        count_brackets(s, text[s->at]);
        if (!open_quoted(s, text, n))
            return false;
    }
    return false;
}

static bool python_ends(struct call_value_scan *s, const char *text, size_t n)
{
    while (s->at < n) {
        const char c = text[s->at];

        if (s->quote != 0) {
            if (c == '\\' && s->at + 1 == n)
                return false; /* the escaped character has not come */
            s->at += c == '\\';
            s->quote = c == s->quote ? 0 : s->quote;
        } else if (closes(s, c)) {
            return true;
        } else if (c == '"' || c == '\'') {
            s->quote = c;
        } else {
            count_brackets(s, c);
        }
        s->at++;
    }
    return false;
}

bool call_value_ends(struct call_value_scan *s, const char *text, size_t n)
{
    return s->family != NULL ? quoted_ends(s, text, n) : python_ends(s, text, n);
}
