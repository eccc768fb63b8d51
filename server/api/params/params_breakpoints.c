/* server/api/params/params_breakpoints.c - cache breakpoints: places in a prompt up to which it is
 * worth keeping in the prefix cache, and for how long.
 *
 * OpenAI's stand in parts of a content (prompt_cache_breakpoint) and take their ttl from
 * prompt_cache_options if they have none; of more than four the latest count. Anthropic's stand in
 * blocks and tools (cache_control), at most four. In both APIs the request itself can have one,
 * behind its last part. No breakpoint changes an answer.
 * https://platform.openai.com/docs/guides/prompt-caching
 * https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
 */
#include "server/api/params/params_impl.h"

#include "core/base/err.h"

#include <string.h>

#define DEFAULT_TTL_S (30 * 60) /* OpenAI's; Anthropic's is the first of its words */

struct ttl_word {
    const char *word;
    uint32_t seconds;
};
static const struct ttl_word openai_ttls[] = {{"30m", 30 * 60}, {"12h", 12 * 3600}};
static const struct ttl_word anthropic_ttls[] = {{"5m", 5 * 60}, {"1h", 3600}};

static bool is_anthropic(const struct params *p)
{
    return (p->form & PARAMS_ANTHROPIC) != 0;
}

static const char *member_of(const struct params *p)
{
    return is_anthropic(p) ? "cache_control" : "prompt_cache_breakpoint";
}

/* Read the member ttl of an object; *seconds stays if there is none. */
static int take_ttl(const struct field_args *a, const struct field_path *p, const cJSON *object,
                    uint32_t *seconds)
{
    const struct ttl_word *words = is_anthropic(a->p) ? anthropic_ttls : openai_ttls;
    const cJSON *ttl = field_find(object, "ttl");

    if (ttl == NULL)
        return 0;
    for (int i = 0; cJSON_IsString(ttl) && i < 2; i++)
        if (strcmp(ttl->valuestring, words[i].word) == 0) {
            *seconds = words[i].seconds;
            return 0;
        }
    return field_refuse(p, "ttl", is_anthropic(a->p) ? "5m or 1h" : "30m or 12h");
}

/* Read {"mode":"explicit"} or {"type":"ephemeral"}, and its ttl. */
static int take_marker(const struct field_args *a, const struct field_path *p, const cJSON *v,
                       uint32_t *seconds)
{
    const char *member = is_anthropic(a->p) ? "type" : "mode";
    const char *word = is_anthropic(a->p) ? "ephemeral" : "explicit";
    const char *given = field_text(v, member);

    if (!cJSON_IsObject(v))
        return field_refuse(p, "", "an object");
    if (given == NULL || strcmp(given, word) != 0)
        return field_refuse(p, member, word);
    return take_ttl(a, p, v, seconds);
}

static int refuse_fifth(const struct field_path *p)
{
    return api_error_set(p->e, 400, p->text, NULL,
                         "'%s' is the fifth breakpoint: a request can have %d, so leave out the "
                         "first ones",
                         p->text, CONVERSATION_MAX_BREAKPOINTS);
}

int params_take_breakpoint(const struct field_args *a, const struct field_path *p,
                           const cJSON *object)
{
    const cJSON *v = field_find(object, member_of(a->p));
    const struct field_path in = field_path_in(p, member_of(a->p), -1);
    uint32_t seconds = is_anthropic(a->p) ? anthropic_ttls[0].seconds : 0;

    if (v == NULL)
        return 0;
    if (take_marker(a, &in, v, &seconds) < 0)
        return ERR_INVAL;
    if (is_anthropic(a->p) && a->p->chat.n_breakpoints == CONVERSATION_MAX_BREAKPOINTS)
        return refuse_fifth(&in);
    conversation_add_breakpoint(&a->p->chat, seconds);
    return 0;
}

/* Tools stand before all messages, and their field may be read after these. */
int params_take_tool_breakpoint(const struct field_args *a, const struct field_path *p,
                                const cJSON *tool)
{
    struct conversation *c = &a->p->chat;
    const uint32_t n = c->n_breakpoints;

    if (params_take_breakpoint(a, p, tool) < 0)
        return ERR_INVAL;
    if (c->n_breakpoints > n)
        c->breakpoints[n].n_parts = 0;
    return 0;
}

int params_refuse_breakpoint(const struct field_args *a, const struct field_path *p,
                             const cJSON *object)
{
    const char *member = member_of(a->p);
    const struct field_path in = field_path_in(p, member, -1);

    if (field_find(object, member) == NULL)
        return 0;
    return api_error_set(a->e, 400, in.text, NULL,
                         "'%s' is not supported at this place: put it into %s", in.text,
                         is_anthropic(a->p) ? "a text block, a result of a tool, or a tool"
                                            : "a part of the content that is a text of the input");
}

/* {"mode":"explicit","ttl":"30m"}. A prompt that is only to be prewarmed would have no answer. */
int params_parse_prompt_cache_options(const struct field_args *a)
{
    const struct field_path p = field_path(a->name, -1, a->e);
    const cJSON *mode = field_find(a->v, "mode"), *prewarm = field_find(a->v, "prewarm");
    const char *word = cJSON_GetStringValue(mode);
    bool is_prewarmed = false;

    if (!cJSON_IsObject(a->v))
        return params_refuse(a, "must be an object");
    if (prewarm != NULL &&
        field_bool(prewarm, "prompt_cache_options.prewarm", &is_prewarmed, a->e) < 0)
        return ERR_INVAL;
    if (is_prewarmed)
        return api_error_set(a->e, 400, "prompt_cache_options.prewarm", NULL,
                             "'prompt_cache_options.prewarm' is not supported: send a request "
                             "with max_tokens 1 instead, which leaves its prompt in the cache");
    if (mode != NULL &&
        (word == NULL || (strcmp(word, "implicit") != 0 && strcmp(word, "explicit") != 0)))
        return field_refuse(&p, "mode", "implicit or explicit");
    if (take_ttl(a, &p, a->v, &a->p->cache_ttl_s) < 0)
        return ERR_INVAL;
    if (word == NULL || strcmp(word, "implicit") == 0)
        a->p->last_breakpoint_s = a->p->cache_ttl_s;
    return 0;
}

/* Anthropic's request has a breakpoint behind its last block. */
int params_parse_cache_control(const struct field_args *a)
{
    const struct field_path p = field_path(a->name, -1, a->e);
    uint32_t seconds = anthropic_ttls[0].seconds;

    if (take_marker(a, &p, a->v, &seconds) < 0)
        return ERR_INVAL;
    a->p->last_breakpoint_s = seconds;
    return 0;
}

/* The parts of the system messages with which the conversation begins: templates write the tools
 * beside them. */
static uint32_t n_system_parts(const struct conversation *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_messages && strcmp(c->messages[i].role, "system") == 0; i++)
        n = c->messages[i].first_part + c->messages[i].n_parts;
    return n;
}

int params_settle_breakpoints(struct params *p, struct api_error *e)
{
    struct conversation *c = &p->chat;
    const struct field_path path = field_path("cache_control", -1, e);

    for (uint32_t i = 0; i < c->n_breakpoints; i++) {
        struct cache_breakpoint *b = &c->breakpoints[i];

        if (b->n_parts == 0) /* it stands in a tool */
            b->n_parts = n_system_parts(c);
        if (b->ttl_s == 0)
            b->ttl_s = p->cache_ttl_s > 0 ? p->cache_ttl_s : DEFAULT_TTL_S;
    }
    if (p->last_breakpoint_s == 0)
        return 0;
    if (is_anthropic(p) && c->n_breakpoints == CONVERSATION_MAX_BREAKPOINTS)
        return refuse_fifth(&path);
    conversation_add_breakpoint(c, p->last_breakpoint_s);
    return 0;
}
