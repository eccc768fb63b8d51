/* server/api/chat/chat_caps.c - probes a template with small conversations.
 *
 * Each probe renders a conversation of texts that no template contains, and looks for them in the
 * output: a form is right if all of them are printed. The probes run in an order in which each
 * builds on the caps found before it. The family is found by letting each family's parser read the
 * call that the template prints, so a template with unknown signs works if its format is known.
 */
#include "server/api/chat/chat_caps.h"

#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/jinja/template.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/output_parser.h"

#include <string.h>

/* Texts that no template contains. */
#define SYSTEM "quire-system"
#define FIRST_SYSTEM "quire-first"
#define USER "quire-user"
#define TOOL "quire_tool"
#define VALUE "quire-value"
#define ARGUMENTS "{\"quire_key\": \"" VALUE "\"}"

struct probe {
    const struct template *template;
    const struct chat_tokens *tokens;
    struct params params;
    struct buf text; /* the template's latest output */
    bool rendered;
    int err;
};

/* Renders the probe's conversation for a template with these caps. */
static void render(struct probe *p, const struct chat_caps *caps)
{
    struct budget budget = {.steps_left = CHAT_PROBE_STEPS};
    const struct template_options options = {.budget = &budget};
    struct value_pool pool;
    struct value globals;
    char why[128];
    int rc;

    buf_clear(&p->text);
    value_pool_init(&pool, CHAT_PROBE_MEMORY);
    globals = chat_values(&pool, &p->params, p->tokens, caps);
    rc = pool.err;
    if (rc == 0)
        rc = template_render(p->template, &pool, &globals, &options, &p->text, why, sizeof(why));
    value_pool_release(&pool);
    if (rc == ERR_NOMEM)
        p->err = rc;
    p->rendered = rc == 0;
}

static bool prints_mark(const struct probe *p, const char *mark)
{
    return p->rendered && p->text.data != NULL && strstr(p->text.data, mark) != NULL;
}

static void say_message(struct probe *p, const char *role, const char *text)
{
    if (conversation_add_message(&p->params.chat, role) == NULL ||
        (text != NULL && conversation_add_text(&p->params.chat, text) < 0))
        p->err = ERR_NOMEM;
}

static void begin_probe(struct probe *p)
{
    conversation_release(&p->params.chat);
}

/* ---- the probes */

static void probe_content(struct probe *p, struct chat_caps *caps)
{
    begin_probe(p);
    say_message(p, "user", USER);
    for (int form = 0; form < 4; form++) {
        caps->typed_content = (form & 1) != 0;
        caps->no_tools_unset = (form & 2) != 0;
        render(p, caps);
        if (prints_mark(p, USER))
            return;
    }
    caps->typed_content = caps->no_tools_unset = false;
}

/* Tries the effort "none": OpenAI's way to switch thinking off is an error in some templates. */
static void probe_effort(struct probe *p, struct chat_caps *caps)
{
    begin_probe(p);
    say_message(p, "user", USER);
    p->params.reasoning_effort = "none";
    render(p, caps);
    if (!p->rendered) {
        caps->refuses_none = true;
        render(p, caps);
        caps->refuses_none = p->rendered;
    }
    p->params.reasoning_effort = NULL;
}

/* Tries a system message. knows_system becomes false only if the template prints all without that
 * role. */
static void probe_system(struct probe *p, struct chat_caps *caps)
{
    begin_probe(p);
    say_message(p, "system", SYSTEM);
    say_message(p, "user", USER);
    render(p, caps);
    if (prints_mark(p, SYSTEM) && prints_mark(p, USER))
        return;
    caps->knows_system = false;
    render(p, caps);
    caps->knows_system = !(prints_mark(p, SYSTEM) && prints_mark(p, USER));
}

/* Tries a second system message: some templates want it first, and fail elsewhere or print only
 * one. */
static void probe_late_system(struct probe *p, struct chat_caps *caps)
{
    begin_probe(p);
    say_message(p, "system", FIRST_SYSTEM);
    say_message(p, "user", USER);
    say_message(p, "system", SYSTEM);
    say_message(p, "assistant", "It is 4.");
    say_message(p, "user", USER);
    caps->late_system = caps->knows_system;
    render(p, caps);
    caps->late_system =
        caps->knows_system && prints_mark(p, FIRST_SYSTEM) && prints_mark(p, SYSTEM);
}

/* Tries the role developer. Most templates print any role, so one knows it only if its source names
 * it. */
static void probe_developer(struct probe *p, const char *source, struct chat_caps *caps)
{
    if (strstr(source, "developer") == NULL)
        return;
    begin_probe(p);
    say_message(p, "developer", SYSTEM);
    say_message(p, "user", USER);
    caps->knows_developer = true;
    render(p, caps);
    caps->knows_developer = prints_mark(p, SYSTEM);
}

static void add_tool(struct probe *p, const cJSON *parameters)
{
    const struct tool tool = {.name = TOOL, .parameters = parameters};

    if (conversation_add_tool(&p->params.chat, &tool) < 0)
        p->err = ERR_NOMEM;
}

/* Tries a tool that has only a name, and one whose parameter has no description. */
static void probe_tools(struct probe *p, const cJSON *parameters, struct chat_caps *caps)
{
    begin_probe(p);
    add_tool(p, NULL);
    add_tool(p, parameters);
    say_message(p, "user", USER);
    render(p, caps);
    if (!p->rendered) {
        caps->full_tools = true;
        render(p, caps);
        caps->full_tools = p->rendered;
    }
    caps->prints_tools = prints_mark(p, TOOL);
}

/* Does the output have the call's value, as JSON or in the model's own format? Python's text of a
 * dict and a text within a text do not count. */
static bool has_call(const struct probe *p)
{
    return prints_mark(p, VALUE) && !prints_mark(p, "{'quire_key'") &&
           !prints_mark(p, "\\\"quire_key");
}

static const struct tool_call probe_call = {
    .id = "call00001", .name = TOOL, .arguments = ARGUMENTS};

/* Sets up a question with a tool, and the call that answers it. */
static void say_call(struct probe *p, const cJSON *parameters)
{
    begin_probe(p);
    add_tool(p, parameters);
    say_message(p, "user", USER);
    say_message(p, "assistant", NULL);
    if (p->err == 0 && conversation_add_call(&p->params.chat, &probe_call) < 0)
        p->err = ERR_NOMEM;
}

static void probe_calls(struct probe *p, const cJSON *parameters, struct chat_caps *caps)
{
    static const struct {
        bool string_arguments, null_content;
    } forms[] = {{false, false}, {true, false}, {false, true}, {true, true}};

    say_call(p, parameters);
    say_message(p, "tool", "4");
    if (p->err == 0)
        conversation_last(&p->params.chat)->tool_call_id = probe_call.id;
    say_message(p, "assistant", "It is 4.");
    say_message(p, "user", USER);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && !caps->prints_calls; i++) {
        caps->string_arguments = forms[i].string_arguments;
        caps->null_content = forms[i].null_content;
        render(p, caps);
        caps->prints_calls = has_call(p);
    }
    if (!caps->prints_calls)
        caps->string_arguments = caps->null_content = false;
}

static int probe_begin(struct probe *p, cJSON **parameters)
{
    static const char text[] = "{\"type\": \"object\", \"properties\": {\"quire_key\": {\"type\": "
                               "\"string\"}}}";
    const char *why = NULL;

    params_set_defaults(&p->params, PARAMS_CHAT, NULL);
    buf_init(&p->text, CHAT_PROBE_MEMORY);
    return json_parse(text, strlen(text), parameters, &why);
}

static void probe_end(struct probe *p, cJSON *parameters)
{
    cJSON_Delete(parameters);
    conversation_release(&p->params.chat);
    buf_release(&p->text);
}

int chat_caps_probe(struct chat_caps *out, const struct template *t, const char *source,
                    const struct chat_tokens *tokens)
{
    struct probe p = {.template = t, .tokens = tokens};
    cJSON *parameters = NULL;

    p.err = probe_begin(&p, &parameters);
    *out = (struct chat_caps){.knows_system = true};
    probe_content(&p, out);
    probe_system(&p, out);
    probe_late_system(&p, out);
    probe_developer(&p, source, out);
    probe_effort(&p, out);
    probe_tools(&p, parameters, out);
    probe_calls(&p, parameters, out);
    probe_end(&p, parameters);
    return p.err;
}

/* ---- the family */

/* Returns where the answer begins in the output with a call: after the part that equals the output
 * for the question alone, less a tag that this cuts. */
static size_t find_answer(const struct buf *question, const struct buf *with_call)
{
    size_t n = 0, tag;

    while (n < question->len && n < with_call->len && question->data[n] == with_call->data[n])
        n++;
    if (n == question->len)
        return n;
    for (tag = n; tag > 0 && with_call->data[tag - 1] != '<' && with_call->data[tag - 1] != '>';)
        tag--;
    return tag > 0 && with_call->data[tag - 1] == '<' ? tag - 1 : n;
}

/* True: these are the probe's arguments. Some templates print them over several lines. */
static bool has_value(const struct buf *arguments)
{
    static const char value[] = ": \"" VALUE "\"";
    const char *at = arguments->len > 2 ? strstr(arguments->data, value) : NULL;

    if (at == NULL)
        return false;
    at += sizeof(value) - 1;
    return at[strspn(at, " \n")] == '}';
}

/* True: the family's parser finds the probe's call in the answer, p->text from byte `at` on. The
 * call's id is accepted as the name of the function, because Kimi's templates print it there. */
static bool reads_call(const struct probe *p, const struct family *family, const char *source,
                       size_t at)
{
    const struct output_style style = output_style_of(family, source);
    const char *text = p->text.data;
    struct call_tools *tools = NULL;
    struct output_parser s;
    bool is_read;

    (void)call_tools_create(&tools, &p->params.chat); /* without memory all names are accepted */
    output_parser_init(&s, &style, tools, true, output_parser_prompt_thinks(&style, text, at));
    output_parser_feed(&s, text + at, p->text.len - at);
    output_parser_end(&s);
    is_read = output_parser_error(&s) == 0 && s.n_calls > 0 && s.calls[0].is_whole &&
              (strcmp(s.calls[0].name, TOOL) == 0 || strcmp(s.calls[0].name, probe_call.id) == 0) &&
              has_value(&s.calls[0].arguments);
    output_parser_release(&s);
    call_tools_destroy(&tools);
    return is_read;
}

/* Returns the first family that reads the call, `signed_by` before all others; NULL: none does. */
static const struct family *find_reader(const struct probe *p, const struct family *signed_by,
                                        const char *source, size_t at)
{
    const struct family *f = family_table();

    if (signed_by != NULL && reads_call(p, signed_by, source, at))
        return signed_by;
    while (f != NULL && !reads_call(p, f, source, at))
        f = f->next;
    return f;
}

int chat_caps_find_family(const struct family **out, const struct chat_caps *caps,
                          const struct template *t, const char *source,
                          const struct chat_tokens *tokens)
{
    struct probe p = {.template = t, .tokens = tokens};
    cJSON *parameters = NULL;
    struct buf question;

    *out = family_of_template(source);
    if (!caps->prints_calls)
        return 0;
    p.err = probe_begin(&p, &parameters);
    begin_probe(&p);
    add_tool(&p, parameters);
    say_message(&p, "user", USER);
    p.params.add_generation_prompt = true;
    render(&p, caps);
    question = p.text;
    buf_init(&p.text, CHAT_PROBE_MEMORY);
    say_call(&p, parameters);
    p.params.add_generation_prompt = false;
    render(&p, caps);
    if (p.rendered && has_call(&p) && p.err == 0)
        *out = find_reader(&p, *out, source, find_answer(&question, &p.text));
    buf_release(&question);
    probe_end(&p, parameters);
    return p.err;
}
