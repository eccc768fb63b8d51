/* server/admin/openapi.c - see openapi.h.
 *
 * The .inc tables are included several times with different macros, each making one array: routes,
 * fields with their parse functions, and descriptions. An enum with a value for each row of
 * params_fields.inc indexes the descriptions, so a row without one does not compile. The document
 * is then written from the arrays in one pass. Strings in the tables have ' for ", which
 * add_openapi_text() replaces.
 */
#include "server/admin/openapi.h"

#include "core/base/version.h"
#include "core/json/json.h"
#include "server/api/params/params.h"
#include "server/auth/auth.h"
#include "server/http/body_decoder.h"
#include "server/http/http_call.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SCHEMAS "#/components/schemas/"

/* ---- the tables ---- */

static const struct {
    const char *path, *also, *tail;
    unsigned methods; /* enum http_methods */
    unsigned flags;
    const char *name, *body, *reply, *text;
} routes[] = {
#define ROUTE(path, also, tail, methods, id, handler, flags, body, reply, text)                    \
    {path, also, tail, methods, flags, #id, body, reply, text},
#include "server/api/routes.inc"
#undef ROUTE
};
#define N_ROUTES (sizeof(routes) / sizeof(routes[0]))

struct doc {
    const char *schema, *text;
};

enum doc_rows {
#define DOC(parse, schema, text) DOC_##parse,
#include "server/admin/openapi_fields.inc"
#undef DOC
    N_DOCS
};

static const struct doc docs[] = {
#define DOC(parse, schema, text) {schema, text},
#include "server/admin/openapi_fields.inc"
#undef DOC
};

static const struct {
    const char *name;
    unsigned forms;
    const char *use; /* "obeyed", "ignored", … */
    int doc;         /* enum doc_rows, or -1: described by `why` */
    const char *why; /* with doc -1 */
} fields[] = {
#define FIELD(name, forms, row) {#name, forms, "obeyed", DOC_##row, NULL},
#define CHECKED(name, forms, row) {#name, forms, "ignored", DOC_##row, NULL},
#define NO_EFFECT(name, forms, why) {#name, forms, "ignored", -1, why},
#define REFUSED(name, forms, harmless, why) {#name, forms, "refused", -1, why},
#include "server/api/params/params_fields.inc"
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

enum {
    N_DOCUMENTED = 0
#define FIELD(name, forms, row) +1
#define NO_EFFECT(name, forms, why)
#define REFUSED(name, forms, harmless, why)
#include "server/api/params/params_fields.inc"
};
_Static_assert((int)N_DOCUMENTED == (int)N_DOCS,
               "each line of openapi_fields.inc belongs to a field");

static const struct {
    const char *schema, *name, *type, *text;
} bodies[] = {
#define BODY(schema, name, type, text) {schema, name, type, text},
#include "server/admin/openapi_bodies.inc"
#undef BODY
};
#define N_BODIES (sizeof(bodies) / sizeof(bodies[0]))

static const struct {
    const char *name, *schema;
} schemas[] = {
#define SCHEMA(name, schema) {#name, schema},
#include "server/admin/openapi_schemas.inc"
#undef SCHEMA
};
#define N_SCHEMAS (sizeof(schemas) / sizeof(schemas[0]))

/* Bodies of requests: their rows in openapi_bodies.inc, the fields of completions that they accept
 * in addition, and the value of "required" with other conditions. */
static const struct request_doc {
    const char *name, *rows;
    unsigned forms; /* enum params_form */
    const char *required;
} requests[] = {
    {"CompletionRequest", "", PARAMS_TEXT, "['prompt']"},
    {"ChatCompletionRequest", "", PARAMS_CHAT, "['messages']"},
    {"EmbeddingRequest", "", PARAMS_EMBED,
     "[],'anyOf':[{'required':['input']},{'required':['content']},{'required':['messages']}]"},
    {"RerankRequest", "", PARAMS_RERANK,
     "['query'],'anyOf':[{'required':['documents']},{'required':['texts']}]"},
    {"CohereEmbedRequest", "", PARAMS_COHERE_EMBED,
     "[],'anyOf':[{'required':['texts']},{'required':['inputs']}]"},
    {"ScoreRequest", "", PARAMS_SCORE, "[]"},
    {"ScoringRequest", "", PARAMS_SCORING, "['query','items','label_token_ids']"},
    {"DecisionRequest", "", PARAMS_DECIDE, "['input','questions']"},
    {"SystemOneRequest", "", PARAMS_SYSTEMONE, "['state','questions']"},
    {"ClassifyRequest", "", PARAMS_CLASSIFY,
     "[],'anyOf':[{'required':['input']},{'required':['messages']}]"},
    {"PoolingRequest", "", PARAMS_POOL,
     "[],'anyOf':[{'required':['input']},{'required':['messages']}]"},
    {"PlanRequest", "PlanRequest", PARAMS_TEXT | PARAMS_EMBED | PARAMS_DECISIONS,
     "[],'anyOf':[{'required':['prompt']},{'required':['input']},{'required':['messages']},"
     "{'required':['state','questions']}]"},
    {"ResponsesRequest", "", PARAMS_RESPONSES, "['input']"},
    {"MessagesRequest", "MessagesRequest", PARAMS_MESSAGES, "['messages','max_tokens']"},
    {"CountTokensRequest", "", PARAMS_COUNT, "['messages']"},
    {"NativeCompletionRequest", "", PARAMS_NATIVE, "['prompt']"},
    {"InfillRequest", "", PARAMS_INFILL, "['input_prefix','input_suffix']"},
    {"OllamaGenerateRequest", "", PARAMS_OLLAMA_GENERATE, "['model']"},
    {"OllamaChatRequest", "", PARAMS_OLLAMA_CHAT, "['model']"},
    {"OllamaEmbedRequest", "", PARAMS_OLLAMA_EMBED, "['model']"},
    {"OllamaEmbeddingsRequest", "", PARAMS_OLLAMA_EMBEDDINGS, "['model']"},
    {"OllamaOptions", "", PARAMS_OLLAMA_OPTIONS, "[]"},
    {"OllamaShowRequest", "OllamaShowRequest", 0, "[]"},
    {"OllamaRefusedRequest", "OllamaRefusedRequest", 0, "[]"},
    {"TokenizeRequest", "TokenizeRequest", 0, "[]"},
    {"DetokenizeRequest", "DetokenizeRequest", 0, "['tokens']"},
    {"SlotActionRequest", "SlotActionRequest", 0, "[]"},
    {"ChatControlRequest", "ChatControlRequest", 0, "['id','action']"},
    {"LoadAdapterRequest", "LoadAdapterRequest", 0, "['lora_name','lora_path']"},
    {"ModelRequest", "ModelRequest", 0, "['model']"},
    {"UnloadAdapterRequest", "UnloadAdapterRequest", 0, "['lora_name']"},
    {"FileUpload", "FileUpload", 0, "['purpose','file']"},
    {"BatchRequest", "BatchRequest", 0, "['input_file_id','endpoint','completion_window']"},
};
#define N_REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* Replies that are sent as events when the body has "stream": true. */
static const char *const streamed[] = {"Completion",       "ChatCompletion",    "Response",
                                       "AnthropicMessage", "NativeCompletions"};
/* Replies that are then sent as lines of JSON, each an object of the reply's schema. */
static const char *const in_lines[] = {"OllamaGenerated", "OllamaChatted"};

/* ---- writing ---- */

/* Add JSON that is written with ' for ", as in the tables. */
static void add_openapi_text(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++)
        buf_add_char(out, *text == '\'' ? '"' : *text);
}

/* Add ,"name": without the comma for the first. */
static void add_schema_name(struct buf *out, bool *is_first, const char *name)
{
    if (!*is_first)
        buf_add_char(out, ',');
    *is_first = false;
    json_add_cstring(out, name);
    buf_add_char(out, ':');
}

static void add_ref(struct buf *out, const char *schema)
{
    buf_printf(out, "{\"$ref\":\"" SCHEMAS "%s\"}", schema);
}

/* Add a property: its schema, with the text as its description, and how it is used. */
static void add_schema_property(struct buf *out, bool *is_first, const char *name,
                                const struct doc *doc, const char *use)
{
    const char *schema = doc->schema;

    add_schema_name(out, is_first, name);
    buf_printf(out, "{\"x-quire\":\"%s\",\"description\":", use);
    json_add_cstring(out, doc->text);
    if (strcmp(schema, "{}") != 0)
        buf_add_char(out, ',');
    add_openapi_text(out, schema + 1);
}

/* ---- schemas ---- */

static bool is_same_route(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* True: a row of openapi_bodies.inc describes the field. */
static bool has_row(const char *rows, const char *field)
{
    for (size_t i = 0; i < N_BODIES; i++)
        if (is_same_route(bodies[i].schema, rows) && is_same_route(bodies[i].name, field))
            return true;
    return false;
}

static void add_field(struct buf *out, bool *is_first, size_t i)
{
    const struct doc own = {"{}", fields[i].why};

    add_schema_property(out, is_first, fields[i].name,
                        fields[i].doc >= 0 ? &docs[fields[i].doc] : &own, fields[i].use);
}

/* Add a body's own rows, and then the fields of completions that it accepts. */
static void add_request(struct buf *out, bool *is_first, const struct request_doc *r)
{
    bool first = true;

    add_schema_name(out, is_first, r->name);
    buf_add_str(out, "{\"type\":\"object\",\"required\":");
    add_openapi_text(out, r->required);
    buf_add_str(out, ",\"properties\":{");
    for (size_t i = 0; i < N_BODIES; i++)
        if (is_same_route(bodies[i].schema, r->rows) && bodies[i].type[0] != '\0')
            add_schema_property(out, &first, bodies[i].name,
                                &(struct doc){bodies[i].type, bodies[i].text}, "obeyed");
    for (size_t i = 0; i < N_FIELDS; i++)
        if ((fields[i].forms & r->forms) != 0 && !has_row(r->rows, fields[i].name))
            add_field(out, &first, i);
    buf_add_str(out, "}}");
}

static void add_schemas(struct buf *out)
{
    bool first = true;

    for (size_t i = 0; i < N_SCHEMAS; i++) {
        add_schema_name(out, &first, schemas[i].name);
        add_openapi_text(out, schemas[i].schema);
    }
    for (size_t i = 0; i < N_REQUESTS; i++)
        add_request(out, &first, &requests[i]);
}

/* ---- paths ---- */

static bool takes_priority(const char *body)
{
    for (size_t i = 0; i < N_REQUESTS; i++)
        if (is_same_route(requests[i].name, body))
            return requests[i].forms != 0;
    return false;
}

static bool is_in_lines(const char *reply)
{
    for (size_t i = 0; i < sizeof(in_lines) / sizeof(in_lines[0]); i++)
        if (is_same_route(in_lines[i], reply))
            return true;
    return false;
}

static bool is_streamed(const char *reply)
{
    for (size_t i = 0; i < sizeof(streamed) / sizeof(streamed[0]); i++)
        if (is_same_route(streamed[i], reply))
            return true;
    return false;
}

static const struct {
    const char *route;
    unsigned methods;
    const char *name, *schema, *text;
} queries[] = {
#define QUERY(route, methods, name, schema, text) {route, methods, name, schema, text},
#include "server/admin/openapi_queries.inc"
#undef QUERY
};

static void add_queries(struct buf *out, const char *route, enum http_methods method)
{
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        if (!is_same_route(queries[i].route, route) || (queries[i].methods & method) == 0)
            continue;
        buf_printf(out, ",{\"name\":\"%s\",\"in\":\"query\",\"description\":", queries[i].name);
        json_add_cstring(out, queries[i].text);
        buf_add_str(out, ",\"schema\":");
        add_openapi_text(out, queries[i].schema);
        buf_add_char(out, '}');
    }
}

static void add_parameters(struct buf *out, size_t i, enum http_methods method)
{
    buf_add_str(out, ",\"parameters\":[{\"$ref\":\"#/components/parameters/X-Request-Id\"}");
    if (method == HTTP_POST && routes[i].body[0] != '\0')
        buf_add_str(out, ",{\"$ref\":\"#/components/parameters/Content-Encoding\"}");
    if (takes_priority(routes[i].body))
        buf_add_str(out, ",{\"$ref\":\"#/components/parameters/X-Priority\"}"
                         ",{\"$ref\":\"#/components/parameters/x-llm-d-inference-objective\"}"
                         ",{\"$ref\":\"#/components/parameters/x-llm-d-inference-fairness-id\"}"
                         ",{\"$ref\":\"#/components/parameters/x-llm-d-slo-ttft-ms\"}");
    if (routes[i].tail[0] != '\0')
        buf_printf(out,
                   ",{\"name\":\"%s\",\"in\":\"path\",\"required\":true,"
                   "\"schema\":{\"type\":\"string\"}}",
                   routes[i].tail);
    add_queries(out, routes[i].name, method);
    buf_add_char(out, ']');
}

static void add_body(struct buf *out, size_t i)
{
    if (routes[i].body[0] == '\0')
        return;
    buf_printf(out, ",\"requestBody\":{\"required\":true,\"content\":{\"%s\":{\"schema\":",
               (routes[i].flags & AUTH_UPLOAD) != 0 ? "multipart/form-data" : "application/json");
    add_ref(out, routes[i].body);
    buf_add_str(out, "}}}");
}

/* Add 'text/plain':{...} for each of the types, which are separated by blanks. */
static void add_texts(struct buf *out, const char *types)
{
    for (const char *at = types; *at != '\0';) {
        const size_t n = strcspn(at, " ");

        buf_printf(out, "%s\"%.*s\"", at > types ? "," : "", (int)n, at);
        add_openapi_text(out, ":{'schema':{'type':'string'}}");
        at += n + strspn(at + n, " ");
    }
}

static void add_responses(struct buf *out, size_t i, enum http_methods method)
{
    const char *reply = method == HTTP_DELETE && routes[i].methods != HTTP_DELETE ? "Deleted"
                                                                                  : routes[i].reply;

    add_openapi_text(out, ",'responses':{'200':{'description':'The answer.','content':{");
    if (reply[0] == '\0' || strchr(reply, '/') != NULL) {
        add_texts(out, reply[0] != '\0' ? reply : "text/plain");
    } else {
        add_openapi_text(out, "'application/json':{'schema':");
        add_ref(out, reply);
        buf_add_char(out, '}');
    }
    if (is_streamed(reply) && routes[i].body[0] != '\0')
        add_openapi_text(
            out, ",'text/event-stream':{'schema':{'type':'string','description':'With stream: the "
                 "frames of the API that the answer has the shape of.'}}");
    if (is_in_lines(reply)) {
        add_openapi_text(out, ",'application/x-ndjson':{'schema':");
        add_ref(out, reply);
        buf_add_char(out, '}');
    }
    add_openapi_text(
        out, "}},'default':{'description':'An error; 403 also for hosts and origins that are not "
             "allowed, 408 for requests that arrive too slowly; with 429 and 503 the headers "
             "Retry-After and retry-after-ms say when to try again.',"
             "'content':{'application/json':{'schema':");
    add_ref(out, (routes[i].flags & AUTH_ANTHROPIC) != 0 ? "AnthropicError"
                 : (routes[i].flags & AUTH_COHERE) != 0  ? "CohereError"
                 : (routes[i].flags & AUTH_OLLAMA) != 0  ? "OllamaError"
                                                         : "Error");
    buf_add_str(out, "}}}}");
}

/* One path of a route; the first has number 0 and the route's own text. */
struct route_name {
    const char *path;
    int len;
    unsigned number;
};

/* An operation id must be unique: further paths of a route get a number, methods besides GET their
 * name. */
static void add_operation(struct buf *out, size_t i, const struct route_name *name,
                          enum http_methods method)
{
    const char *verb = method == HTTP_POST ? "post" : method == HTTP_DELETE ? "delete" : "get";
    const bool is_beside = method != HTTP_GET && (routes[i].methods & HTTP_GET) != 0;
    char summary[400];

    buf_printf(out, "\"%s\":{\"operationId\":\"%s", verb, routes[i].name);
    if (name->number > 0)
        buf_printf(out, "_%u", name->number + 1);
    buf_printf(out, "%s%s\",\"summary\":", is_beside ? "_" : "", is_beside ? verb : "");
    snprintf(summary, sizeof(summary), name->number > 0 ? "%s Another name for %s." : "%s",
             routes[i].text, routes[i].path);
    json_add_cstring(out, summary);
    if ((routes[i].flags & AUTH_OPEN) != 0)
        buf_add_str(out, ",\"security\":[]");
    add_parameters(out, i, method);
    if (method == HTTP_POST || (routes[i].methods & HTTP_POST) == 0)
        add_body(out, i);
    add_responses(out, i, method);
    buf_add_char(out, '}');
}

static void add_path(struct buf *out, bool *is_first, size_t i, const struct route_name *name)
{
    static const enum http_methods all[] = {HTTP_GET, HTTP_POST, HTTP_DELETE};
    const unsigned methods = routes[i].methods;
    bool is_first_method = true;
    char path[128];
    const char *star = memchr(name->path, '*', (size_t)name->len);
    const int before = star != NULL ? (int)(star - name->path) : name->len;

    snprintf(path, sizeof(path), routes[i].tail[0] != '\0' ? "%.*s{%s}%.*s" : "%.*s%s%.*s", before,
             name->path, routes[i].tail, star != NULL ? name->len - before - 1 : 0,
             star != NULL ? star + 1 : "");
    add_schema_name(out, is_first, path);
    buf_add_char(out, '{');
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        if ((methods & all[k]) == 0)
            continue;
        if (!is_first_method)
            buf_add_char(out, ',');
        is_first_method = false;
        add_operation(out, i, name, all[k]);
    }
    buf_add_char(out, '}');
}

static void add_route(struct buf *out, bool *is_first, size_t i)
{
    struct route_name name = {routes[i].path, (int)strlen(routes[i].path), 0};

    add_path(out, is_first, i, &name);
    for (name.path = routes[i].also; *name.path != '\0'; name.path += strspn(name.path, " ")) {
        name.len = (int)strcspn(name.path, " ");
        name.number++;
        add_path(out, is_first, i, &name);
        name.path += name.len;
    }
}

/* ---- all of it ---- */

/* Add the header that says how a body is compressed, and what this build decodes. */
static void add_encodings(struct buf *out)
{
    const char *names = body_encoding_names();

    add_openapi_text(out, "'Content-Encoding':{'name':'Content-Encoding','in':'header',"
                          "'description':'How the body is compressed; this server decodes: ");
    buf_add_str(out, names[0] != '\0' ? names : "identity");
    add_openapi_text(out, ".','schema':{'type':'string'}},");
}

static void add_components(struct buf *out)
{
    add_openapi_text(out, "'components':{'securitySchemes':{"
                          "'bearer':{'type':'http','scheme':'bearer'},"
                          "'header':{'type':'apiKey','in':'header','name':'X-Api-Key'}},"
                          "'parameters':{");
    add_encodings(out);
    add_openapi_text(
        out, "'X-Request-Id':{'name':'X-Request-Id','in':'header','description':'At most 128 "
             "visible characters, which the answer repeats.','schema':{'type':'string',"
             "'maxLength':128}},"
             "'X-Priority':{'name':'X-Priority','in':'header','description':'The same as the field "
             "priority, which takes precedence.','schema':{'type':'string'}},"
             "'x-llm-d-inference-objective':{'name':'x-llm-d-inference-objective','in':'header',"
             "'description':'From trusted_proxies only: a name of the setting objectives, or a "
             "priority; it takes precedence.',"
             "'schema':{'type':'string'}},"
             "'x-llm-d-inference-fairness-id':{'name':'x-llm-d-inference-fairness-id','in':"
             "'header','description':'From trusted_proxies only: the tenant, if neither a key nor "
             "tenant_header names one.','schema':{'type':'string'}},"
             "'x-llm-d-slo-ttft-ms':{'name':'x-llm-d-slo-ttft-ms','in':'header','description':"
             "'From trusted_proxies only: the target time to the first token in milliseconds; "
             "requests whose target comes first run "
             "first.','schema':{'type':'number','minimum':1,'maximum':86400000}}},"
             "'schemas':{");
    add_schemas(out);
    buf_add_str(out, "}}");
}

void openapi_render(struct buf *out)
{
    bool first = true;

    add_openapi_text(
        out, "{'openapi':'3.1.0','info':{'title':'Quire','description':'HTTP inference server for "
             "GGUF language models on CPUs. A field that is null counts as absent; unknown fields "
             "are ignored; x-quire says whether a known field is obeyed, ignored or refused (a "
             "refused field may have a value that changes nothing); API keys are required only "
             "if the server has some.','version':");
    json_add_cstring(out, quire_version());
    add_openapi_text(
        out, "},'servers':[{'url':'/'}],'security':[{},{'bearer':[]},{'header':[]}],'paths':{");
    for (size_t i = 0; i < N_ROUTES; i++)
        add_route(out, &first, i);
    buf_add_str(out, "},");
    add_components(out);
    buf_add_char(out, '}');
}
