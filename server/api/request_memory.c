/* server/api/request_memory.c - see request_memory.h.
 *
 * `used` is the sum of all shares and of what HTTP counts. It changes on the I/O thread alone, so
 * there is no lock. A request's share is set from the scan of its body before parsing, and
 * afterwards from its prompts, requests and answer. The constants below are sizes per value or
 * token, rounded up.
 */
#include "server/api/chat/call_tools.h"
#include "server/api/request_memory.h"

#include "core/base/err.h"
#include "core/grammar/constraint.h"
#include "server/api/api_request.h"
#include "server/api/body_scan.h"
#include "server/api/response/response_writer.h"
#include "server/http/error.h"

/* Bytes of a cJSON value and of one of its strings, each with the allocator's overhead. */
#define JSON_VALUE_BYTES 80
#define JSON_STRING_BYTES 24
/* An alternative of a token in an answer, as chats write it: {"token":"…","logprob":…,"bytes":…} */
#define LOGPROB_BYTES 96
/* Bytes of a prompt's token in a request: its id and its share of a block's hash; with penalties
 * also its count and places in the index. */
#define ID_BYTES 5
#define COUNT_BYTES 28
/* An option of a decision: its texts, their copies, and its probability in the answer. */
#define DECISION_BYTES 400
/* Bytes of a token of a prompt or a prediction in the look-ups of drafts. */
#define LOOKUP_BYTES 8

int request_memory_set(struct request_memory *m, struct memory_share *s, uint64_t bytes,
                       struct api_error *e)
{
    const uint64_t others = m->used - s->bytes;

    if (bytes > s->bytes && bytes > m->max) {
        api_error_set(e, 413, NULL, "request_memory",
                      "the request would need %llu MB of memory besides the KV cache, but "
                      "request_memory is %llu MB",
                      (unsigned long long)(bytes >> 20), (unsigned long long)(m->max >> 20));
        return ERR_LIMIT;
    }
    if (bytes > s->bytes && others + bytes > m->max) {
        api_error_set(e, 429, NULL, "request_memory",
                      "the memory for requests (request_memory) is in use");
        return ERR_AGAIN;
    }
    s->memory = m;
    s->bytes = bytes;
    m->used = others + bytes;
    return 0;
}

void request_memory_grow(struct memory_share *s, uint64_t bytes)
{
    if (s->memory == NULL)
        return;
    s->bytes += bytes;
    s->memory->used += bytes;
}

bool request_memory_count(struct request_memory *m, int64_t bytes, bool may_refuse)
{
    if (may_refuse && bytes > 0 && m->used + (uint64_t)bytes > m->max)
        return false;
    m->used += (uint64_t)bytes; /* modulo 2^64: a negative number is subtracted */
    return true;
}

void request_memory_release(struct memory_share *s)
{
    if (s->memory != NULL)
        s->memory->used -= s->bytes;
    *s = (struct memory_share){0};
}

/* ---- sizes ---- */

uint64_t request_memory_of_body(const struct body_scan *scan)
{
    const uint64_t n_copies = scan->has_long_number ? 3 : 2;

    return n_copies * scan->n_bytes + scan->n_values * JSON_VALUE_BYTES +
           scan->n_strings * JSON_STRING_BYTES;
}

static uint64_t of_logprobs(uint64_t n_tokens, uint32_t n_top)
{
    return n_tokens * (n_top + 1) * LOGPROB_BYTES;
}

/* Bytes of the answer. A stream sends log-probabilities immediately; those of a prompt are kept
 * once, and are written once for each choice. */
static uint64_t of_answer(const struct params *p, const struct request *r)
{
    const uint32_t n_top = r->sampling.n_top > 0 ? (uint32_t)r->sampling.n_top : 0;
    uint64_t bytes = 0;

    if (r->sampling.n_top >= 0 && !p->stream)
        bytes += of_logprobs(r->max_tokens, n_top);
    if (r->score_prompt)
        bytes += of_logprobs(r->n_prompt, n_top) * (p->prompt_logprobs >= 0 ? 1 + p->n : 1);
    return bytes;
}

static uint64_t of_request(const struct params *p, const struct request *r)
{
    uint64_t bytes = sizeof(*r) + sizeof(struct choice) + (uint64_t)r->n_prompt * ID_BYTES;

    if (r->counts.list != NULL)
        bytes += (uint64_t)r->n_prompt * COUNT_BYTES;
    if (r->lookup.max > 0)
        bytes += (uint64_t)r->n_prompt * LOOKUP_BYTES;
    bytes += (uint64_t)r->prediction.n * (sizeof(*r->prediction.ids) + LOOKUP_BYTES);
    if (r->constraint != NULL)
        bytes += constraint_state_bytes();
    return bytes + r->sampling.n_bias * sizeof(struct logit_bias) + of_answer(p, r);
}

uint64_t request_memory_of_vectors(const struct params *p, const struct prompt *prompt)
{
    const uint64_t n = prompt->pooled_bytes / sizeof(*prompt->pooled);

    if (p->form == PARAMS_COHERE_EMBED)
        return n * (unsigned)__builtin_popcount(p->embedding_types) * RESPONSE_NUMBER_BYTES;
    if ((p->form & (PARAMS_NUMBERS | PARAMS_OLLAMA_VECTORS)) == 0)
        return 0;
    return n * (p->as_base64 ? RESPONSE_BASE64_BYTES : RESPONSE_NUMBER_BYTES);
}

static uint64_t of_marks(const struct marks *m)
{
    return m->n * (sizeof(*m->at) + (uint64_t)m->n_out * sizeof(*m->outs));
}

uint64_t request_memory_of_parsed(const struct api_request *p)
{
    const struct params *params = &p->params;
    uint64_t bytes = p->echo.cap + p->receipt.body.cap +
                     params->n_bad_words * sizeof(*params->bad_words) +
                     params->n_allowed * sizeof(*params->allowed) + params->prediction.cap +
                     p->prediction.cap * sizeof(*p->prediction.ids);

    bytes += 3 * (uint64_t)p->input.cap; /* the input of a kept response, and its copies for the
                                          * file */
    for (uint32_t i = 0; i < p->params.n_prompts; i++) {
        const struct prompt *prompt = &p->prompts[i];

        bytes += sizeof(*prompt) + prompt->ids.n * sizeof(*prompt->ids.ids) +
                 (prompt->text != NULL ? prompt->n_text : 0) + prompt->pooled_bytes +
                 request_memory_of_vectors(params, prompt) + of_marks(&prompt->marks) +
                 prompt->n_paths * (sizeof(*prompt->paths) + DECISION_BYTES) +
                 prompt->n_labels * (sizeof(*prompt->label_ids) + sizeof(*prompt->label_logprobs) +
                                     DECISION_BYTES);
    }
    bytes += call_tools_bytes(p->tools);
    for (uint32_t i = 0; i < p->n_choices; i++)
        if (p->requests[i] != NULL)
            bytes += of_request(&p->params, p->requests[i]);
    return bytes;
}

uint64_t request_memory_of_choice(const struct choice *c)
{
    return c->text.cap + c->entries.cap + c->ids.cap + c->logprobs.tokens.cap +
           c->logprobs.values.cap + c->logprobs.tops.cap + c->logprobs.offsets.cap +
           output_parser_bytes(&c->output) + c->stop.held.cap + c->indent.held.cap +
           c->tokens.n * sizeof(*c->tokens.ids);
}
