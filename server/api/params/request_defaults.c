/* server/api/params/request_defaults.c - see request_defaults.h.
 *
 * The struct is filled and checked once, when its model is set up; a request only borrows its
 * pointers. params_parse() applies it before it reads the body's fields, which then overwrite it.
 * Template variables and the switch for thoughts are kept beside the request's own, since
 * chat_values.c merges them later, one by one.
 */
#include "server/api/params/request_defaults.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/tokenizer/tokenizer.h"
#include "scheduler/request/request.h"
#include "server/api/params/params_impl.h"

#include <stdio.h>
#include <string.h>

static int check_kwargs(const cJSON *object, char *err, size_t err_len)
{
    const char *taken = params_taken_kwarg(object);
    const cJSON *thinking = cJSON_GetObjectItemCaseSensitive(object, "enable_thinking");

    if (!cJSON_IsObject(object))
        snprintf(err, err_len, "'chat_template_kwargs' must be a JSON object");
    else if (taken != NULL)
        snprintf(err, err_len, "'chat_template_kwargs' may not set '%s'", taken);
    else if (thinking != NULL && !cJSON_IsBool(thinking))
        snprintf(err, err_len,
                 "'chat_template_kwargs': 'enable_thinking' must be true or false");
    else
        return 0;
    return ERR_INVAL;
}

int request_defaults_take_kwargs(struct request_defaults *d, const char *text, char *err,
                                 size_t err_len)
{
    const char *why = NULL;
    int rc;

    if (text[0] == '\0')
        return 0;
    rc = json_parse(text, strlen(text), &d->template_kwargs, &why);
    if (rc < 0) {
        snprintf(err, err_len, "'chat_template_kwargs' must be a JSON object: %s", why);
        return rc;
    }
    return check_kwargs(d->template_kwargs, err, err_len);
}

int request_defaults_take_message(struct request_defaults *d, const char *text)
{
    if (text[0] == '\0')
        return 0;
    d->budget_message = mem_strdup(text);
    return d->budget_message != NULL ? 0 : ERR_NOMEM;
}

int request_defaults_check_message(const struct request_defaults *d, const struct tokenizer *t,
                                   char *err, size_t err_len)
{
    struct token_list ids = {0};
    int rc;

    if (d->budget_message == NULL)
        return 0;
    rc = tokenizer_encode(t, d->budget_message, strlen(d->budget_message), 0, REQUEST_MAX_MESSAGE,
                          NULL, &ids);
    token_list_release(&ids);
    if (rc == ERR_LIMIT) {
        snprintf(err, err_len, "'reasoning_budget_message' has more than %d tokens",
                 REQUEST_MAX_MESSAGE);
        return ERR_INVAL;
    }
    if (rc < 0)
        snprintf(err, err_len, "out of memory");
    return rc;
}

void request_defaults_release(struct request_defaults *d)
{
    mem_free(d->budget_message);
    cJSON_Delete(d->template_kwargs);
    *d = (struct request_defaults){0};
}

void request_defaults_apply(const struct request_defaults *d, struct params *p)
{
    if (d == NULL)
        return;
    if (d->has_seed && (p->form & PARAMS_POOLED) == 0) {
        p->has_seed = true;
        p->sampling.seed = d->seed;
    }
    p->decisions.permutations = d->permutations;
    if ((p->form & PARAMS_TURNS) == 0)
        return;
    p->default_kwargs = d->template_kwargs;
    p->default_thinking = d->reasoning_budget == 0 ? THINKING_OFF : d->thinking;
    if (d->reasoning_budget > 0)
        p->thinking_budget = (uint32_t)d->reasoning_budget;
    p->budget_message = d->budget_message;
}
