/* server/api/label_tree.c - see label_tree.h.
 *
 * The tree grows depth first. A node has the options whose labels lead through it, in their order,
 * and its edges are in the order of their first options.
 */
#include "server/api/label_tree.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/api_request.h"
#include "server/http/http_call.h"

#include <string.h>

struct label_tree {
    struct api_request *p;
    uint32_t root;
    const struct label_spelling *spelled; /* [n_options] */
    uint64_t max_tokens, *n_tokens;
};

struct label_node {
    uint32_t prompt, depth;
    uint32_t n;                             /* options whose labels lead through the node */
    uint8_t options[DECISIONS_MAX_OPTIONS]; /* [n] */
};

/* Append a prompt with the tokens of prompt `parent` and one more. */
static int append_prompt(struct api_request *p, uint32_t parent, int32_t id)
{
    const uint32_t n = p->params.n_prompts;
    struct prompt *prompts = mem_realloc(p->prompts, (n + 1) * sizeof(*prompts));
    struct request **requests;
    int rc = 0;

    if (prompts == NULL)
        return ERR_NOMEM;
    p->prompts = prompts;
    prompts[n] = (struct prompt){.twin = n, .n_shared = (uint32_t)prompts[parent].ids.n};
    buf_init(&prompts[n].scores, HTTP_MAX_REPLY);
    requests = mem_realloc(p->requests, (n + 1) * sizeof(struct request *));
    if (requests == NULL)
        return ERR_NOMEM;
    p->requests = requests;
    requests[n] = NULL;
    p->params.n_prompts = p->n_choices = n + 1;
    for (size_t k = 0; rc == 0 && k < prompts[parent].ids.n; k++)
        rc = token_list_add(&prompts[n].ids, prompts[parent].ids.ids[k], SIZE_MAX);
    return rc == 0 ? token_list_add(&prompts[n].ids, id, SIZE_MAX) : rc;
}

static int32_t edge_of(const struct label_tree *t, const struct label_node *node, uint32_t k)
{
    return t->spelled[node->options[k]].ids[node->depth];
}

/* Give the node's prompt one label for each edge, and each option its step. */
static int label_node_prompt(const struct label_tree *t, const struct label_node *node)
{
    struct prompt *prompt = &t->p->prompts[node->prompt];
    struct label_path *paths = t->p->prompts[t->root].paths;

    prompt->label_ids = mem_calloc(node->n, sizeof(*prompt->label_ids));
    prompt->label_logprobs = mem_calloc(node->n, sizeof(*prompt->label_logprobs));
    if (prompt->label_ids == NULL || prompt->label_logprobs == NULL)
        return ERR_NOMEM;
    for (uint32_t k = 0; k < node->n; k++) {
        struct label_path *path = &paths[node->options[k]];
        uint32_t label = 0;

        while (label < prompt->n_labels && prompt->label_ids[label] != edge_of(t, node, k))
            label++;
        if (label == prompt->n_labels)
            prompt->label_ids[prompt->n_labels++] = edge_of(t, node, k);
        path->steps[path->n++] = (struct label_step){node->prompt, label};
    }
    return 0;
}

/* Collect the options of the edge `id`, of which at least one continues. ERR_NOENT: another ends
 * here; 1: all do. */
static int follow_edge(const struct label_tree *t, const struct label_node *node, int32_t id,
                       struct label_node *out)
{
    uint32_t n_ends = 0;

    *out = (struct label_node){.depth = node->depth + 1};
    for (uint32_t k = 0; k < node->n; k++)
        if (edge_of(t, node, k) == id) {
            n_ends += t->spelled[node->options[k]].n == out->depth;
            out->options[out->n++] = node->options[k];
        }
    if (n_ends == 0)
        return 0;
    return out->n == 1 ? 1 : ERR_NOENT;
}

static int check_room(const struct label_tree *t, const struct label_node *node)
{
    *t->n_tokens += t->p->prompts[node->prompt].ids.n + 1;
    return *t->n_tokens > t->max_tokens || t->p->params.n_prompts >= DECISIONS_MAX_PROMPTS
               ? ERR_LIMIT
               : 0;
}

static int grow_node(const struct label_tree *t, const struct label_node *node)
{
    int rc = label_node_prompt(t, node);

    for (uint32_t k = 0; rc == 0 && k < t->p->prompts[node->prompt].n_labels; k++) {
        const int32_t id = t->p->prompts[node->prompt].label_ids[k];
        struct label_node next;

        rc = follow_edge(t, node, id, &next);
        if (rc != 0) {
            rc = rc > 0 ? 0 : rc;
            continue;
        }
        next.prompt = t->p->params.n_prompts;
        rc = check_room(t, node);
        if (rc == 0)
            rc = append_prompt(t->p, node->prompt, id);
        if (rc == 0)
            rc = grow_node(t, &next);
    }
    return rc;
}

int label_tree_grow(struct api_request *p, uint32_t i, const struct label_spelling *spelled,
                    uint32_t n, uint64_t max_tokens, uint64_t *n_tokens)
{
    const struct label_tree t = {
        .p = p, .root = i, .spelled = spelled, .max_tokens = max_tokens, .n_tokens = n_tokens};
    struct label_node root = {.prompt = i, .n = n};

    p->prompts[i].paths = mem_calloc(n, sizeof(*p->prompts[i].paths));
    if (p->prompts[i].paths == NULL)
        return ERR_NOMEM;
    p->prompts[i].n_paths = n;
    for (uint32_t k = 0; k < n; k++)
        root.options[k] = (uint8_t)k;
    return grow_node(&t, &root);
}
