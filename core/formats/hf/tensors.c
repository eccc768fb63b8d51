/* core/formats/hf/tensors.c - see tensors.h.
 *
 * Every tensor of the folder becomes a piece with its GGUF name, layer, expert and role; sorting by
 * these brings the pieces of one GGUF tensor together. A run of one plain piece is used where it
 * is; any other run (experts, codes with scales, rows in another order) becomes a recipe.
 * Model-wide checks come last, as they need the whole list.
 */
#include "core/formats/hf/tensors.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf/quant.h"
#include "core/formats/hf_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the folder: a part of a GGUF tensor. */
struct piece {
    struct hf_found found;
    enum hf_role role;
    const struct safetensor *t;
};

struct adding {
    struct hf_tensors *to;
    struct hf_folder *f;
    const struct safetensors *files;
    struct hf_quant quant;
    struct piece *pieces;
    size_t n_pieces;
};

static int fail_tensor(const struct adding *a, const struct safetensor *t, int rc, const char *what)
{
    char shown[80];

    return hf_fail(a->f, rc, a->files->files[t->file], "tensor '%s': %s",
                   hf_printable(shown, sizeof(shown), t->name), what);
}

static bool name_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- names ---- */

/* Add a tensor of one of the folder's heads. */
static int name_head_piece(struct adding *a, const struct safetensor *t)
{
    const struct hf_head_file *h = &a->f->heads[t->file - a->files->n_main];
    struct piece *p = &a->pieces[a->n_pieces];
    const size_t n = strlen(h->theirs);
    const char *end = strncmp(t->name, h->theirs, n) == 0 ? t->name + n : t->name;

    if (strcmp(end, "weight") != 0 && strcmp(end, "bias") != 0)
        return fail_tensor(a, t, ERR_UNSUPPORTED, "is not supported for this model");
    p->found = (struct hf_found){0};
    snprintf(p->found.name, sizeof(p->found.name), "%s.%s", h->ours, end);
    p->role = ROLE_WEIGHT;
    p->t = t;
    a->n_pieces++;
    return 0;
}

static int name_piece(struct adding *a, const struct safetensor *t)
{
    struct piece *p = &a->pieces[a->n_pieces];
    char name[256];

    if (t->file >= a->files->n_main)
        return name_head_piece(a, t);
    if (a->f->is_tied && strcmp(t->name, "lm_head.weight") == 0)
        return 0;
    if (!hf_quant_split(&a->quant, t->name, name, &p->role))
        return 0;
    if (!hf_class_name(a->f->class, a->f->n_layer, name, &p->found) ||
        (a->f->is_parallel && strstr(p->found.name, ".ffn_norm.") != NULL))
        return fail_tensor(a, t, ERR_UNSUPPORTED, "is not supported for this model");
    p->t = t;
    a->n_pieces += p->found.name[0] != '\0';
    return 0;
}

static int by_place(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    const int order = strcmp(a->found.name, b->found.name);

    if (order != 0)
        return order;
    if (a->found.expert != b->found.expert)
        return a->found.expert < b->found.expert ? -1 : 1;
    return (a->role > b->role) - (a->role < b->role);
}

/* ---- plain numbers ---- */

struct shape {
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS];
};

static bool find_type(const char *name, enum block_type *type)
{
    static const enum block_type types[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(name, block_format(types[i])->name) == 0) {
            *type = types[i];
            return true;
        }
    return false;
}

static int read_shape(const struct adding *a, const struct safetensor *t, struct shape *s)
{
    if (t->n_dims < 1 || t->n_dims > SAFETENSORS_MAX_DIMS)
        return fail_tensor(a, t, ERR_FORMAT, "has no shape of 1 to 4 dimensions");
    s->n_dims = t->n_dims;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        s->dims[i] = t->dims[t->n_dims - 1 - i];
        if (s->dims[i] == 0)
            return fail_tensor(a, t, ERR_FORMAT, "has a dimension of 0");
    }
    return 0;
}

static bool is_same_kind(const struct safetensor *a, const struct safetensor *b)
{
    return strcmp(a->type, b->type) == 0 && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, sizeof(a->dims)) == 0;
}

/* Add a tensor whose bytes are used in the file unchanged. */
static int add_in_place(struct adding *a, const struct piece *p, enum block_type type,
                        const struct shape *s)
{
    struct hf_tensors *to = a->to;

    gguf_writer_tensor_elsewhere(a->f->w, p->found.name, type, s->n_dims, s->dims);
    to->places[to->n_places++] = (struct gguf_location){p->t->file, p->t->offset, NULL};
    return 0;
}

/* Add a tensor in place, without its first rows. */
static int add_behind_pad(struct adding *a, const struct piece *p, enum block_type type,
                          struct shape *s)
{
    const uint64_t skipped = a->f->n_skipped;
    struct safetensor t = *p->t;
    struct piece rest = *p;

    if (s->n_dims != 2 || s->dims[1] <= skipped)
        return fail_tensor(a, p->t, ERR_FORMAT, "has no rows behind the padding's");
    s->dims[1] -= skipped;
    t.offset += skipped * s->dims[0] * block_format(type)->bytes;
    rest.t = &t;
    return add_in_place(a, &rest, type, s);
}

/* ---- recipes ---- */

static void set_part(struct hf_recipe *r, uint32_t group, enum hf_role role,
                     const struct safetensor *t)
{
    r->base.parts[group * HF_N_ROLE + role] =
        (struct gguf_part){.file = t->file, .offset = t->offset, .bytes = t->bytes};
}

static int add_made(struct adding *a, const struct piece *p, struct hf_recipe *r,
                    const struct shape *s)
{
    struct hf_tensors *to = a->to;

    hf_recipe_finish(r);
    to->places[to->n_places++] = (struct gguf_location){.recipe = &r->base};
    gguf_writer_tensor_elsewhere(a->f->w, p->found.name, r->to, s->n_dims, s->dims);
    return 0;
}

/* Set the shape: a vector stays a vector; of several vectors (experts) each becomes a row. */
static void shape_plain(struct hf_recipe *r, const struct piece *p, struct shape *s)
{
    const bool is_vector = s->n_dims == 1 || name_ends_with(p->found.name, ".bias");
    uint64_t n = 1;

    if (r->fit == FIT_TURNED || r->fit == FIT_TURNED_PAIRS) {
        const uint64_t in = s->dims[0];

        s->dims[0] = s->dims[1];
        s->dims[1] = in;
    }
    for (uint32_t i = 1; i < s->n_dims; i++)
        n *= s->dims[i];
    r->n_in = s->dims[0];
    r->n_rows = is_vector ? 1 : s->dims[1];
    r->base.rows_each = n;
}

/* Check that fused rows cover all heads, and that pairs have an even number of rows. */
static int check_order(const struct adding *a, const struct piece *p, const struct hf_recipe *r)
{
    const struct hf_folder *f = a->f;
    const uint64_t n = r->n_rows == 1 ? r->n_in : r->n_rows;
    const uint64_t all = ((uint64_t)f->n_head + 2 * (uint64_t)f->n_kv_head) * f->head_dim;

    if (((r->fit == FIT_PAIRS || r->fit == FIT_TURNED_PAIRS) && n % 2 != 0) ||
        ((r->fit == FIT_HEAD_QKV || r->fit == FIT_GROUP_QKV) &&
         (n != all || f->n_head % f->n_kv_head != 0)))
        return fail_tensor(a, p->t, ERR_FORMAT, "its shape does not fit the heads");
    return 0;
}

static void set_heads(const struct adding *a, struct hf_recipe *r)
{
    r->n_head = a->f->n_head;
    r->n_kv_head = a->f->n_kv_head;
    r->head = a->f->head_dim;
}

static int add_plain(struct adding *a, const struct piece *p, uint32_t n)
{
    struct hf_recipe *r;
    struct shape s = {0};
    enum block_type type;
    int rc = read_shape(a, p->t, &s);

    if (rc < 0)
        return rc;
    if (!find_type(p->t->type, &type))
        return fail_tensor(a, p->t, ERR_UNSUPPORTED, "is not F32, F16 or BF16");
    for (uint32_t i = 1; i < n; i++)
        if (!is_same_kind(p->t, p[i].t))
            return fail_tensor(a, p[i].t, ERR_FORMAT, "has not the shape and type of the first");
    if (p->found.fit == FIT_BEHIND_PAD)
        return add_behind_pad(a, p, type, &s);
    if (!p->found.is_expert &&
        (p->found.fit == FIT_PLAIN || (p->found.fit == FIT_TURNED && s.n_dims == 1)))
        return add_in_place(a, p, type, &s);
    if (p->found.fit == FIT_TURNED_PAIRS && s.n_dims == 1)
        return fail_tensor(a, p->t, ERR_FORMAT, "is not a matrix");
    r = hf_recipe_create(n);
    if (r == NULL)
        return fail_tensor(a, p->t, ERR_NOMEM, "out of memory");
    r->fit = p->found.fit == FIT_TURNED && s.n_dims == 1 ? FIT_PLAIN : p->found.fit;
    r->from = type;
    r->to = r->fit == FIT_PLUS_ONE || r->fit == FIT_MINUS_EXP ? BLOCK_F32 : type;
    set_heads(a, r);
    shape_plain(r, p, &s);
    for (uint32_t i = 0; i < n; i++)
        set_part(r, i, ROLE_WEIGHT, p[i].t);
    rc = check_order(a, p, r);
    if (rc == 0 && p->found.is_expert && s.n_dims == GGUF_MAX_DIMS)
        rc = fail_tensor(a, p->t, ERR_FORMAT, "has too many dimensions for an expert's");
    if (rc == 0 && p->found.is_expert)
        s.dims[s.n_dims++] = n;
    if (rc == 0)
        return add_made(a, p, r, &s);
    mem_free(r);
    return rc;
}

/* ---- quantised weights ---- */

static struct hf_coded coded_of(const struct piece *p, uint32_t n_roles)
{
    struct hf_coded c = {{NULL}};

    for (uint32_t i = 0; i < n_roles; i++)
        c.parts[p[i].role] = p[i].t;
    return c;
}

/* Shape the experts; if their numbers allow different types, all become BF16. */
static int shape_groups(struct adding *a, const struct piece *p, uint32_t n, uint32_t n_roles,
                        struct hf_recipe *r, uint64_t *n_each)
{
    struct hf_recipe first = {0};

    for (uint32_t i = 0; i < n; i++) {
        const struct hf_coded c = coded_of(p + i * n_roles, n_roles);
        const int rc =
            c.parts[ROLE_WEIGHT] == NULL
                ? fail_tensor(a, p[i * n_roles].t, ERR_FORMAT, "has no weights beside it")
                : hf_quant_shape(a->f, &a->quant, a->files, &c, r, n_each);

        if (rc < 0)
            return rc;
        if (i == 0)
            first = *r;
        if (r->n_in != first.n_in || r->n_rows != first.n_rows ||
            r->scale_type != first.scale_type || r->rows_each != first.rows_each)
            return fail_tensor(a, p[i * n_roles].t, ERR_FORMAT,
                               "has not the shape and type of the first");
        first.is_symmetric &= r->is_symmetric;
        if (r->to != first.to)
            first.to = r->bits == 4 && r->to != BLOCK_BF16 && first.to != BLOCK_BF16 ? BLOCK_Q8_0
                                                                                     : BLOCK_BF16;
        for (int role = 0; role < HF_N_ROLE; role++)
            if (c.parts[role] != NULL)
                set_part(r, i, (enum hf_role)role, c.parts[role]);
    }
    r->to = first.to;
    r->is_symmetric = first.is_symmetric;
    return 0;
}

static int add_coded(struct adding *a, const struct piece *p, uint32_t n, uint32_t n_roles)
{
    struct hf_recipe *r = hf_recipe_create(n);
    struct shape s = {2, {0}};
    uint64_t n_each = 1;
    int rc;

    if (r == NULL)
        return fail_tensor(a, p->t, ERR_NOMEM, "out of memory");
    r->fit = p->found.fit;
    set_heads(a, r);
    rc = shape_groups(a, p, n, n_roles, r, &n_each);
    if (rc == 0 && (r->fit == FIT_PLUS_ONE || r->fit == FIT_MINUS_EXP || r->fit == FIT_TURNED ||
                    r->fit == FIT_TURNED_PAIRS))
        rc = fail_tensor(a, p->t, ERR_UNSUPPORTED, "is quantised, which is not supported here");
    if (rc == 0)
        rc = check_order(a, p, r);
    if (rc < 0) {
        mem_free(r);
        return rc;
    }
    s.dims[0] = r->n_in;
    s.dims[1] = r->n_rows;
    if (p->found.is_expert || n_each > 1)
        s.dims[s.n_dims++] = p->found.is_expert ? n : n_each;
    r->base.rows_each = r->n_rows * n_each;
    return add_made(a, p, r, &s);
}

/* ---- pieces of one name ---- */

/* Check that experts are numbered from 0 on, each with the same parts. */
static int check_pieces(const struct adding *a, const struct piece *p, size_t n, uint32_t n_roles)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i].found.fit != p->found.fit || p[i].found.is_expert != p->found.is_expert ||
            (i > 0 && by_place(&p[i - 1], &p[i]) == 0))
            return fail_tensor(a, p[i].t, ERR_FORMAT, "occurs twice, also under another name");
        if (p[i].found.expert != i / n_roles || p[i].role != p[i % n_roles].role)
            return fail_tensor(a, p[i].t, ERR_FORMAT,
                               "of the experts before it one is missing, or has other parts");
    }
    return n % n_roles == 0 ? 0
                            : fail_tensor(a, p[n - 1].t, ERR_FORMAT,
                                          "has not the parts that the experts before it have");
}

static int add_named(struct adding *a, const struct piece *p, size_t n)
{
    uint32_t n_roles = 1;
    int rc;

    while (n_roles < n && p[n_roles].found.expert == p->found.expert)
        n_roles++;
    rc = check_pieces(a, p, n, n_roles);
    if (rc < 0)
        return rc;
    if (n_roles == 1 && p->role == ROLE_WEIGHT && p->t->type[0] != 'I' && p->t->type[0] != 'U')
        return add_plain(a, p, (uint32_t)n);
    if (a->quant.code == CODE_PLAIN)
        return add_plain(a, p, (uint32_t)n);
    return add_coded(a, p, (uint32_t)(n / n_roles), n_roles);
}

static int add_all_tensors(struct adding *a)
{
    int rc = 0;

    for (size_t i = 0, end; i < a->n_pieces && rc == 0; i = end) {
        for (end = i + 1;
             end < a->n_pieces && strcmp(a->pieces[i].found.name, a->pieces[end].found.name) == 0;)
            end++;
        rc = add_named(a, a->pieces + i, end - i);
    }
    return rc;
}

/* Check that StableLM's second branch has a norm, unless both branches take the same x. */
static int check_second_norm(const struct adding *a)
{
    bool has_norm = a->f->is_parallel || strcmp(a->f->arch, "stablelm") != 0;

    for (size_t i = 0; i < a->n_pieces && !has_norm; i++)
        has_norm = strstr(a->pieces[i].found.name, ".ffn_norm.weight") != NULL;
    return has_norm ? 0
                    : hf_fail(a->f, ERR_FORMAT, HF_CONFIG,
                              "'use_parallel_residual' is not true, "
                              "but there is no 'post_attention_layernorm'");
}

/* Check that there is an output matrix, or that the embedding serves as one. */
static int check_output(const struct adding *a)
{
    bool has_output = a->f->is_tied || (a->f->class->flags & HF_ENCODER) != 0;

    for (size_t i = 0; i < a->n_pieces && !has_output; i++)
        has_output = strcmp(a->pieces[i].found.name, "output.weight") == 0;
    return has_output ? 0
                      : hf_fail(a->f, ERR_FORMAT, HF_CONFIG,
                                "'tie_word_embeddings' is not true, "
                                "but there is no 'lm_head.weight'");
}

static void add_vectors(struct adding *a)
{
    for (uint32_t i = 0; i < a->f->n_vectors; i++) {
        const struct hf_vector *v = &a->f->vectors[i];
        const uint64_t n = v->n;

        gguf_writer_tensor(a->f->w, v->name, BLOCK_F32, 1, &n, v->v);
        a->to->places[a->to->n_places++] = (struct gguf_location){GGUF_OWN_DATA, 0, NULL};
    }
}

int hf_tensors_add(struct hf_tensors *to, struct hf_folder *f, const struct safetensors *files)
{
    struct adding a = {.to = to, .f = f, .files = files};
    int rc = hf_quant_read(f, &a.quant);

    if (rc < 0)
        return rc;
    to->places = mem_calloc(files->n_items + HF_MAX_VECTORS, sizeof(*to->places));
    a.pieces = mem_calloc(files->n_items + 1, sizeof(*a.pieces));
    if (to->places == NULL || a.pieces == NULL)
        rc = hf_fail(f, ERR_NOMEM, SAFETENSORS_ONE, "out of memory");
    for (size_t i = 0; i < files->n_items && rc == 0; i++)
        rc = name_piece(&a, &files->items[i]);
    if (rc == 0 && a.n_pieces > 0)
        qsort(a.pieces, a.n_pieces, sizeof(*a.pieces), by_place);
    if (rc == 0)
        rc = check_output(&a);
    if (rc == 0)
        rc = check_second_norm(&a);
    if (rc == 0)
        rc = add_all_tensors(&a);
    if (rc == 0)
        add_vectors(&a);
    mem_free(a.pieces);
    return rc;
}

void hf_tensors_release(struct hf_tensors *t, bool taken)
{
    for (uint64_t i = 0; i < t->n_places && !taken; i++)
        mem_free(t->places[i].recipe);
    mem_free(t->places);
    *t = (struct hf_tensors){0};
}
