/* server/api/chat/chat.c - finds the template of a model and renders prompts with it.
 *
 * chat_create() runs once per model: it takes a template from the tokenizer, a file or the two
 * built-in ones, parses it, probes which forms of values it accepts (chat_caps.c), and finds the
 * family that writes its answers. A template that cannot be used leaves a `complaint` instead of an
 * error. chat_render() runs while a request is parsed; it builds all values in a pool with a limit,
 * renders within the request's budget, and releases the pool at once.
 */
#include "server/api/chat/chat.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/jinja/template.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/chat/chat_caps.h"
#include "server/api/chat/decision_template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TOOL_USE "tool_use"

static const char plain[] = "{% for message in messages %}{{ message.content }}\n{% endfor %}";

static const char chatml[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

struct chat {
    char *source, *origin;
    char complaint[256]; /* "" = none */
    struct template *template;
    struct output_style style;
    struct family *family; /* made of a file that the setting names, or NULL */
    struct chat_tokens tokens;
    struct chat_caps caps;
    struct chat_marks marks;
    bool special_in_messages;
    struct chat *tool_use; /* the chat with the template for tools; NULL: this one */
};

static int read_file(const char *path, char **out, char *err, size_t err_len)
{
    FILE *f = fopen(path, "rb");
    char *text = f != NULL ? mem_alloc(TEMPLATE_MAX_SOURCE + 2) : NULL;
    size_t n;

    if (text == NULL) {
        snprintf(err, err_len, "chat_template %s: %s", path,
                 f == NULL ? strerror(errno) : "out of memory");
        if (f != NULL)
            fclose(f);
        return ERR_IO;
    }
    n = fread(text, 1, TEMPLATE_MAX_SOURCE + 1, f);
    text[n] = '\0';
    fclose(f);
    *out = text;
    if (n <= TEMPLATE_MAX_SOURCE && strlen(text) == n)
        return 0;
    snprintf(err, err_len, "chat_template %s: %s", path,
             n > TEMPLATE_MAX_SOURCE ? "it is larger than 1 MiB" : "it is not a text file");
    return ERR_FORMAT;
}

static const char *own_template(const struct tokenizer *t, const char *name)
{
    const char *found, *text;

    for (size_t i = 0; (text = tokenizer_chat_template(t, i, &found)) != NULL; i++)
        if (strcmp(found, name) == 0)
            return text;
    return NULL;
}

/* Lists the names of the tokenizer's templates for chats: "default, tool_use". */
static void list_names(const struct tokenizer *t, char *out, size_t size)
{
    size_t n = 0;
    const char *name;

    snprintf(out, size, "none");
    for (size_t i = 0; n < size && tokenizer_chat_template(t, i, &name) != NULL; i++)
        if (strcmp(name, DECISION_TEMPLATE) != 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? ", " : "", name);
}

static int refuse_name(const char *name, const struct tokenizer *t, char *err, size_t err_len)
{
    char names[256];

    list_names(t, names, sizeof(names));
    snprintf(err, err_len,
             "chat_template_name '%s': the model has no template of this name, it has: %s", name,
             names);
    return ERR_NOENT;
}

/* Finds one of the tokenizer's templates: the one that is named, "default", or without it
 * "tool_use". If there are only others, that is a complaint. *text NULL: the tokenizer has no
 * template. */
static int find_own(struct chat *c, const char *name, const struct tokenizer *t, const char **text,
                    char *err, size_t err_len)
{
    const char *first;
    char names[128];

    *text = own_template(t, name[0] != '\0' ? name : "default");
    if (*text == NULL && name[0] != '\0')
        return refuse_name(name, t, err, err_len);
    if (*text == NULL)
        *text = own_template(t, TOOL_USE);
    if (*text != NULL || tokenizer_chat_template(t, 0, &first) == NULL)
        return 0;
    list_names(t, names, sizeof(names));
    if (strcmp(names, "none") == 0)
        snprintf(c->complaint, sizeof(c->complaint),
                 "the model has no template for chats, only one for decisions (POST "
                 "/v1/decisions)");
    else
        snprintf(c->complaint, sizeof(c->complaint),
                 "the model has no default template, set chat_template_name to one of: %s", names);
    *text = "";
    return 0;
}

static int find_source(struct chat *c, const struct chat_options *options,
                       const struct tokenizer *t, char *err, size_t err_len)
{
    const char *name = options->name != NULL ? options->name : "", *setting = options->template;
    const char *text = NULL, *origin = setting;
    int rc = 0;

    if (setting[0] != '\0' && name[0] != '\0') {
        snprintf(err, err_len,
                 "chat_template_name '%s': chat_template replaces all templates of the model, set "
                 "only one of the two",
                 name);
        return ERR_INVAL;
    }
    if (setting[0] == '\0')
        rc = find_own(c, name, t, &text, err, err_len);
    if (rc < 0)
        return rc;
    if (text != NULL) {
        origin = "the model's own";
    } else if (setting[0] == '\0' || strcmp(setting, "plain") == 0) {
        text = plain;
        origin = "plain";
    } else if (strcmp(setting, "chatml") == 0) {
        text = chatml;
    } else if (read_file(setting, &c->source, err, err_len) < 0) {
        return ERR_IO;
    }
    if (text != NULL)
        c->source = mem_strdup(text);
    c->origin = mem_strdup(origin);
    if (c->source != NULL && c->origin != NULL)
        return 0;
    snprintf(err, err_len, "chat template: out of memory");
    return ERR_NOMEM;
}

static struct chat_text token_text(const struct tokenizer *t, int32_t id)
{
    struct chat_text text = {"", 0};

    if (id != TOKEN_NONE)
        text.bytes = tokenizer_piece(t, id, &text.n);
    return text;
}

/* Parses and probes the template. A parse error becomes a complaint, not an error. */
static int parse_chat_template(struct chat *c)
{
    if (c->complaint[0] != '\0') /* there is no template */
        return 0;
    if (template_create(&c->template, c->source, strlen(c->source), c->complaint,
                        sizeof(c->complaint)) < 0)
        return 0;
    c->complaint[0] = '\0';
    return chat_caps_probe(&c->caps, c->template, c->source, &c->tokens);
}

static bool is_auto(const char *setting)
{
    return setting == NULL || setting[0] == '\0' || strcmp(setting, "auto") == 0;
}

/* Appends the names that a setting may have. */
static void add_names(char *err, size_t err_len)
{
    const char *before = "; the known names are ";

    for (const struct family *f = family_table(); f != NULL; f = f->next, before = ", ") {
        const size_t n = strlen(err);

        snprintf(err + n, err_len - n, "%s%s", before, f->name);
    }
}

/* Reads the description of a family from a file. */
static int read_family(struct chat *c, const char *path, char *err, size_t err_len)
{
    char text[FAMILY_MAX_TEXT + 1], why[120];
    FILE *f = fopen(path, "rb");
    size_t n;

    if (f == NULL) {
        snprintf(err, err_len,
                 "tool_call_parser: '%.100s' is neither a parser's name nor a file "
                 "that can be read (%s)",
                 path, strerror(errno));
        add_names(err, err_len);
        return ERR_IO;
    }
    n = fread(text, 1, sizeof(text), f);
    fclose(f);
    c->family = family_create(text, n, why, sizeof(why));
    if (c->family != NULL)
        return 0;
    snprintf(err, err_len, "tool_call_parser: %.200s: %s", path, why);
    return ERR_FORMAT;
}

static int find_family(struct chat *c, const char *setting, const struct family **out, char *err,
                       size_t err_len)
{
    int rc;

    if (is_auto(setting) && c->template == NULL) {
        *out = family_of_template(c->source);
        return 0;
    }
    if (is_auto(setting)) {
        rc = chat_caps_find_family(out, &c->caps, c->template, c->source, &c->tokens);
        if (rc < 0)
            snprintf(err, err_len, "chat template: out of memory");
        return rc;
    }
    *out = family_find(setting);
    if (*out != NULL || strcmp(setting, "none") == 0)
        return 0;
    rc = read_family(c, setting, err, err_len);
    *out = c->family;
    return rc;
}

/* Finds the families whose calls and whose thoughts are parsed. */
static int find_style(struct chat *c, const struct chat_options *options, char *err, size_t err_len)
{
    const char *setting = options->reasoning_parser;
    const struct family *family = NULL, *thinker;
    int rc = find_family(c, options->tool_call_parser, &family, err, err_len);

    if (rc < 0)
        return rc;
    c->style = output_style_of(family, c->source);
    if (is_auto(setting))
        return 0;
    thinker = family_find(setting);
    c->style.think_open = c->style.think_close = NULL;
    output_style_find_closing(&c->style, thinker, c->source);
    if (thinker != NULL && thinker->n_thoughts > 0) {
        c->style.think_open = thinker->thoughts[0].open;
        c->style.think_close = thinker->thoughts[0].close;
    } else if (strcmp(setting, "none") != 0 && (thinker == NULL || !thinker->has_channels)) {
        snprintf(err, err_len, "reasoning_parser: '%.100s' is not a parser's name", setting);
        add_names(err, err_len);
        return ERR_INVAL;
    }
    return 0;
}

/* Is the token the mark, or its beginning: a name between angles that no other name follows? The
 * second is Gemma 4's case: the token <|channel> and the text "thought". */
static bool begins_mark(const struct tokenizer *t, int32_t id, const char *mark)
{
    size_t n;
    const char *piece = tokenizer_piece(t, id, &n);

    if (n == 0 || n > strlen(mark) || memcmp(mark, piece, n) != 0)
        return false;
    return mark[n] == '\0' ||
           (piece[0] == '<' && piece[n - 1] == '>' && strchr(mark + n, '<') == NULL);
}

/* Returns the first token that is the mark or begins it. */
static int32_t find_token(const struct tokenizer *t, const char *mark)
{
    for (int32_t id = 0; mark != NULL && id < tokenizer_n_vocab(t); id++)
        if (begins_mark(t, id, mark))
            return id;
    return TOKEN_NONE;
}

static struct chat_marks find_marks(const struct output_style *style, const struct tokenizer *t)
{
    struct chat_marks marks = {find_token(t, style->think_open), find_token(t, style->think_close)};

    if (marks.open == TOKEN_NONE || marks.close == TOKEN_NONE)
        marks.open = marks.close = TOKEN_NONE;
    return marks;
}

static int create_one(struct chat **out, const struct chat_options *options,
                      const struct tokenizer *t, char *err, size_t err_len)
{
    struct chat *c = mem_calloc(1, sizeof(*c));
    int rc;

    *out = NULL;
    if (c == NULL) {
        snprintf(err, err_len, "chat template: out of memory");
        return ERR_NOMEM;
    }
    rc = find_source(c, options, t, err, err_len);
    if (rc < 0) {
        chat_destroy(&c);
        return rc;
    }
    c->special_in_messages = options->special_in_messages;
    c->tokens.bos = token_text(t, tokenizer_bos(t));
    c->tokens.eos = token_text(t, tokenizer_eos(t));
    rc = parse_chat_template(c);
    if (rc < 0)
        snprintf(err, err_len, "chat template: out of memory");
    else
        rc = find_style(c, options, err, err_len);
    if (rc < 0) {
        chat_destroy(&c);
        return rc;
    }
    c->marks = find_marks(&c->style, t);
    *out = c;
    return 0;
}

/* True: the model has both "default" and "tool_use", and no setting chooses between them. */
static bool has_tool_use(const struct chat_options *options, const struct tokenizer *t)
{
    return options->template[0] == '\0' && (options->name == NULL || options->name[0] == '\0') &&
           own_template(t, "default") != NULL && own_template(t, TOOL_USE) != NULL;
}

int chat_create(struct chat **out, const struct chat_options *options, const struct tokenizer *t,
                char *err, size_t err_len)
{
    struct chat_options tool_use = *options;
    int rc = create_one(out, options, t, err, err_len);

    if (rc < 0 || !has_tool_use(options, t))
        return rc;
    tool_use.name = TOOL_USE;
    rc = create_one(&(*out)->tool_use, &tool_use, t, err, err_len);
    if (rc < 0)
        chat_destroy(out);
    return rc;
}

void chat_destroy(struct chat **c)
{
    if (c == NULL || *c == NULL)
        return;
    chat_destroy(&(*c)->tool_use);
    template_destroy(&(*c)->template);
    family_destroy(&(*c)->family);
    mem_free((*c)->source);
    mem_free((*c)->origin);
    mem_free(*c);
    *c = NULL;
}

/* The template for tools is used if the request has tools and may call them. */
const struct chat *chat_for(const struct chat *c, const struct params *p)
{
    const bool has_tools = p->chat.n_tools > 0 && p->tool_choice != TOOL_CHOICE_NONE;

    return has_tools && c->tool_use != NULL ? c->tool_use : c;
}

const struct chat *chat_for_tools(const struct chat *c)
{
    return c->tool_use;
}

const char *chat_tool_parser(const struct chat *c)
{
    const struct family *f = (c->tool_use != NULL ? c->tool_use : c)->style.family;

    return f != NULL ? f->name : "none";
}

const char *chat_origin(const struct chat *c)
{
    return c->origin;
}

const char *chat_complaint(const struct chat *c)
{
    return c->complaint[0] != '\0' ? c->complaint : NULL;
}

const char *chat_source(const struct chat *c)
{
    return c->source;
}

const struct output_style *chat_style(const struct chat *c)
{
    return &c->style;
}

const struct chat_caps *chat_caps(const struct chat *c)
{
    return &c->caps;
}

struct chat_marks chat_marks(const struct chat *c)
{
    return c->marks;
}

/* ---- rendering ---- */

static void turn_round(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[n - 1 - i];
}

/* Sets *end to where the last occurrence of what[0..n_what), n_what > 0, in text[0..n) ends, 0:
 * there is none. It reverses both and searches forward, because memmem() is linear and there is no
 * memrmem(). */
static int find_last(const char *text, size_t n, const char *what, size_t n_what, size_t *end)
{
    char *turned, *at;

    *end = 0;
    if (n_what > n)
        return 0;
    turned = mem_alloc(n + n_what);
    if (turned == NULL)
        return ERR_NOMEM;
    turn_round(turned, text, n);
    turn_round(turned + n, what, n_what);
    at = memmem(turned, n, turned + n, n_what);
    if (at != NULL)
        *end = n - (size_t)(at - turned);
    mem_free(turned);
    return 0;
}

/* Returns text[0..n) without white space at both ends. */
static const char *trimmed(const char *text, size_t *n)
{
    while (*n > 0 && strchr(" \t\r\n", text[*n - 1]) != NULL)
        --*n;
    while (*n > 0 && strchr(" \t\r\n", *text) != NULL) {
        text++;
        --*n;
    }
    return text;
}

/* Cuts the prompt after the last message's content, so that the model continues that message. */
static int cut_behind_content(const struct params *p, struct buf *out, size_t from,
                              struct api_error *e)
{
    struct buf text;
    size_t n, end = 0;
    const char *s;
    int rc;

    buf_init(&text, CHAT_MAX_PROMPT);
    conversation_join(&p->chat, conversation_last(&p->chat), &text);
    n = text.len;
    s = trimmed(text.data != NULL ? text.data : "", &n);
    rc = text.err;
    if (rc == 0 && n > 0 && out->len > from)
        rc = find_last(out->data + from, out->len - from, s, n, &end);
    buf_release(&text);
    if (rc < 0)
        return api_error_no_memory(e);
    if (end == 0)
        return api_error_set(e, 400, "continue_final_message", NULL,
                             "the chat template does not print the last message's content, so it "
                             "cannot be continued");
    out->len = from + end;
    out->data[out->len] = '\0';
    return 0;
}

/* Limits `own` to the prompt, or with special_in_messages extends it to all of the prompt. */
static int finish_prompt(const struct chat *c, const struct buf *out, size_t from,
                         struct spans *own, struct api_error *e)
{
    if (c->special_in_messages)
        spans_add(own, from, out->len);
    else
        spans_cut(own, out->len);
    return own->err < 0 ? api_error_no_memory(e) : 0;
}

static int refuse_chat(int rc, const char *why, struct api_error *e)
{
    if (rc == ERR_NOMEM)
        return api_error_no_memory(e);
    return api_error_set(e, 400, "messages", NULL, "the chat template raised an error: %.200s",
                         why);
}

int chat_render(const struct chat *c, const struct params *p, struct budget *budget,
                struct buf *out, struct spans *own, struct api_error *e)
{
    const struct template_options options = {
        .budget = budget, .now = p->chat.now, .own = c->special_in_messages ? NULL : own};
    const size_t from = out->len;
    struct value_pool pool;
    struct value globals;
    char why[256] = "";
    int rc;

    if (c->template == NULL)
        return api_error_set(e, 400, NULL, NULL, "the chat template cannot be used: %.200s",
                             c->complaint);
    value_pool_init(&pool, VALUE_POOL_MAX);
    globals = chat_values(&pool, p, &c->tokens, &c->caps);
    rc = pool.err;
    if (rc == 0)
        rc = template_render(c->template, &pool, &globals, &options, out, why, sizeof(why));
    else
        snprintf(why, sizeof(why), "the conversation is too large");
    value_pool_release(&pool);
    if (rc < 0)
        return refuse_chat(rc, why, e);
    rc = p->continue_final_message ? cut_behind_content(p, out, from, e) : 0;
    return rc == 0 ? finish_prompt(c, out, from, own, e) : rc;
}
