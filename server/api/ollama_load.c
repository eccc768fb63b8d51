/* server/api/ollama_load.c - bodies of Ollama's clients that only ask for the model to be loaded: a
 * chat without messages, a prompt without text, no texts to embed. When such a body is parsed the
 * model is loaded already; keep_alive.h has read how long it stays. */
#include "server/api/api_request.h"

#include "core/base/err.h"
#include "core/json/json.h"
#include "server/api/formats/ollama.h"
#include "server/api/params/field.h"
#include "server/api/response/response_writer.h"

static int check_model(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    const cJSON *name = field_find(body, "model");

    if (name == NULL)
        return 0;
    if (!cJSON_IsString(name))
        return api_error_set(&p->error, 400, "model", NULL, "'model' must be a string");
    if (params_is_model(model->id, model->aliases, name->valuestring))
        return 0;
    return api_error_no_model(&p->error, name->valuestring);
}

/* True: keep_alive unloads the model right after this call. */
static bool leaves(const struct server_model *model, const cJSON *body)
{
    const cJSON *stay = field_find(body, "keep_alive");

    return model->load == SERVER_LOAD_DEMAND && cJSON_IsNumber(stay) && stay->valuedouble == 0;
}

/* Answer without generating; `member` is written in place of the text. */
static int load_for_ollama(struct api_request *p, const struct server_model *model,
                           const cJSON *body, const char *member)
{
    struct buf name;
    int rc;

    if (check_model(p, model, body) < 0)
        return ERR_INVAL;
    buf_init(&name, (size_t)64 << 10);
    rc = ollama_echo(body, &name);
    ollama_open(&name, model->id, &p->echo);
    buf_add_str(&p->echo, member);
    buf_printf(&p->echo, ",\"done\":true,\"done_reason\":\"%s\"}",
               leaves(model, body) ? "unload" : "load");
    buf_release(&name);
    return rc < 0 ? api_error_no_memory(&p->error) : 0;
}

static int load_chat(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    return load_for_ollama(p, model, body,
                           ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}");
}

static int load_generate(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    return load_for_ollama(p, model, body, ",\"response\":\"\"");
}

static int load_embed(struct api_request *p, const struct server_model *model, const cJSON *body)
{
    const char *name = field_text(body, "model");

    if (check_model(p, model, body) < 0)
        return ERR_INVAL;
    buf_add_str(&p->echo, "{\"model\":");
    json_add_cstring(&p->echo, name != NULL ? name : model->id);
    buf_add_str(&p->echo, ",\"embeddings\":[]}");
    return 0;
}

static int load_embeddings(struct api_request *p, const struct server_model *model,
                           const cJSON *body)
{
    if (check_model(p, model, body) < 0)
        return ERR_INVAL;
    buf_add_str(&p->echo, "{\"embedding\":[]}");
    return 0;
}

const struct wire_format wire_ollama_load_chat = {.answer = load_chat};
const struct wire_format wire_ollama_load_generate = {.answer = load_generate};
const struct wire_format wire_ollama_load_embed = {.answer = load_embed};
const struct wire_format wire_ollama_load_embeddings = {.answer = load_embeddings};
