/* tests/tools/mkmodel.c - write a GGUF model of random weights in any shape and type.
 *
 *   mkmodel --shape qwen2.5-0.5b --type Q4_0 --out model.gguf
 *   mkmodel --arch qwen3 --embd 256 --layers 4 --heads 4 --kv-heads 2 --head-dim 64 --ff 512
 *           --vocab 1000 --context 2048 --type F16 --seed 7 --out model.gguf
 *
 * --type A,B,... has the layers' matrices take turns at those types; the first one is that of
 * token_embd and output. Type Q4_K_M is the mix that quantisers make: Q4_K, but Q6_K in token_embd,
 * output, and in some layers' attn_v and ffn_down. Matrices whose rows no block of 256 divides get
 * Q5_0 for Q4_K and Q8_0 for Q6_K.
 */
#include "tests/tools/fixture.h"

#include <getopt.h>
#include <stdlib.h>

/* The shapes that the benches use. */
static const struct {
    const char *name;
    struct fixture f;
} shapes[] = {
    {"qwen2.5-0.5b",
     {.arch = "qwen2",
      .n_embd = 896,
      .n_layer = 24,
      .n_head = 14,
      .n_kv_head = 2,
      .head_dim = 64,
      .n_ff = 4864,
      .n_vocab = 102400,
      .n_ctx = 32768,
      .tied = true}},
    {"llama-3.2-1b",
     {.arch = "llama",
      .n_embd = 2048,
      .n_layer = 16,
      .n_head = 32,
      .n_kv_head = 8,
      .head_dim = 64,
      .n_ff = 8192,
      .n_vocab = 102400,
      .n_ctx = 131072,
      .tied = true}},
    {"llama-2-7b", /* two of its 32 layers: as many KV heads as query heads */
     {.arch = "llama",
      .n_embd = 4096,
      .n_layer = 2,
      .n_head = 32,
      .n_kv_head = 32,
      .head_dim = 128,
      .n_ff = 11008,
      .n_vocab = 4096,
      .n_ctx = 131072,
      .tied = true}},
    {"qwen3-30b-a3b", /* two of its 48 layers: 1.2 of 30 thousand million numbers */
     {.arch = "qwen3moe",
      .n_embd = 2048,
      .n_layer = 2,
      .n_head = 32,
      .n_kv_head = 4,
      .head_dim = 128,
      .n_ff = 768,
      .n_expert = 128,
      .n_used = 8,
      .n_vocab = 32768,
      .n_ctx = 32768,
      .tied = true}},
    {"qwen3.5-0.8b", /* delta nets, and attention in every fourth layer */
     {.arch = "qwen35",
      .n_embd = 1024,
      .n_layer = 24,
      .n_head = 8,
      .n_kv_head = 2,
      .head_dim = 256,
      .n_ff = 3584,
      .n_delta_key = 16,
      .n_delta_value = 16,
      .delta_dim = 128,
      .n_vocab = 102400,
      .n_ctx = 32768,
      .tied = true}},
    {"dense-0.8b", /* as many numbers as that, with attention everywhere */
     {.arch = "qwen3",
      .n_embd = 1024,
      .n_layer = 24,
      .n_head = 8,
      .n_kv_head = 2,
      .head_dim = 256,
      .n_ff = 5024,
      .n_vocab = 102400,
      .n_ctx = 32768,
      .tied = true}},
};

enum option_id {
    OPT_ARCH = 1,
    OPT_EMBD,
    OPT_LAYERS,
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_HEAD_DIM,
    OPT_FF,
    OPT_EXPERTS,
    OPT_USED,
    OPT_VOCAB,
    OPT_CONTEXT,
    OPT_TYPE,
    OPT_TIED,
    OPT_SEED,
    OPT_SHAPE,
    OPT_OUT,
};

static const struct option options[] = {
    {"arch", required_argument, NULL, OPT_ARCH},
    {"embd", required_argument, NULL, OPT_EMBD},
    {"layers", required_argument, NULL, OPT_LAYERS},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"ff", required_argument, NULL, OPT_FF},
    {"experts", required_argument, NULL, OPT_EXPERTS},
    {"used", required_argument, NULL, OPT_USED},
    {"vocab", required_argument, NULL, OPT_VOCAB},
    {"context", required_argument, NULL, OPT_CONTEXT},
    {"type", required_argument, NULL, OPT_TYPE},
    {"tied", no_argument, NULL, OPT_TIED},
    {"seed", required_argument, NULL, OPT_SEED},
    {"shape", required_argument, NULL, OPT_SHAPE},
    {"out", required_argument, NULL, OPT_OUT},
    {NULL, 0, NULL, 0},
};

static void usage(void)
{
    fputs("usage: mkmodel [--shape qwen2.5-0.5b|llama-3.2-1b|llama-2-7b|qwen3-30b-a3b|\n"
          "                        qwen3.5-0.8b|dense-0.8b]\n"
          "               [--arch llama|qwen2|qwen3|qwen3moe] [--experts N] [--used N]\n"
          "               [--embd N] [--layers N] [--heads N] [--kv-heads N] [--head-dim N]\n"
          "               [--ff N] [--vocab N] [--context N] [--tied] [--seed N]\n"
          "               [--type F32|F16|BF16|Q8_0|Q4_0|Q4_K|Q6_K|Q5_0|...|Q4_K_M] --out FILE\n"
          "Any other type that `quire inspect` knows goes too, and A,B,...: matrices take turns.\n"
          "Q4_K_M: Q4_K with Q6_K in token_embd, output and part of attn_v and ffn_down; where\n"
          "256 does not divide a row, Q5_0 for Q4_K and Q8_0 for Q6_K.\n",
          stderr);
    exit(2);
}

static uint32_t number(const char *text)
{
    char *end;
    const unsigned long v = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || v > UINT32_MAX) {
        fprintf(stderr, "mkmodel: '%s' is no number\n", text);
        exit(2);
    }
    return (uint32_t)v;
}

static enum block_type type_named(const char *name)
{
    for (uint32_t t = 0; t < 256; t++)
        if (block_format(t) != NULL && strcmp(block_format(t)->name, name) == 0)
            return (enum block_type)t;
    fprintf(stderr, "mkmodel: there is no type '%s'\n", name);
    exit(2);
}

/* "Q4_K_M", a type, or several with commas between them. */
static void set_type(struct fixture *f, const char *value)
{
    char list[512], *next = NULL;

    f->mixed = strcmp(value, "Q4_K_M") == 0;
    if (f->mixed) {
        f->type = BLOCK_Q4_K;
        return;
    }
    snprintf(list, sizeof(list), "%s", value);
    f->n_mix = 0;
    for (char *name = strtok_r(list, ",", &next); name != NULL && f->n_mix < FIXTURE_MAX_MIX;
         name = strtok_r(NULL, ",", &next))
        f->mix[f->n_mix++] = type_named(name);
    f->type = f->n_mix > 0 ? f->mix[0] : type_named("");
    if (f->n_mix == 1)
        f->n_mix = 0;
}

static const char *arch_named(const char *name)
{
    if (strcmp(name, "llama") == 0 || strcmp(name, "qwen2") == 0 || strcmp(name, "qwen3") == 0 ||
        strcmp(name, "qwen3moe") == 0)
        return name;
    fprintf(stderr, "mkmodel: there is no architecture '%s'\n", name);
    exit(2);
}

/* A whole shape; type and seed that were given before stay. */
static void set_shape(struct fixture *f, const char *name)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (strcmp(shapes[i].name, name) == 0) {
            const struct fixture given = *f;

            *f = shapes[i].f;
            f->type = given.type;
            f->mixed = given.mixed;
            f->n_mix = given.n_mix;
            memcpy(f->mix, given.mix, sizeof(f->mix));
            f->seed = given.seed;
            return;
        }
    fprintf(stderr, "mkmodel: there is no shape '%s'\n", name);
    exit(2);
}

static void set(struct fixture *f, int id, const char *value, const char **out)
{
    switch ((enum option_id)id) {
    case OPT_ARCH:
        f->arch = arch_named(value);
        break;
    case OPT_EMBD:
        f->n_embd = number(value);
        break;
    case OPT_LAYERS:
        f->n_layer = number(value);
        break;
    case OPT_HEADS:
        f->n_head = number(value);
        break;
    case OPT_KV_HEADS:
        f->n_kv_head = number(value);
        break;
    case OPT_HEAD_DIM:
        f->head_dim = number(value);
        break;
    case OPT_FF:
        f->n_ff = number(value);
        break;
    case OPT_EXPERTS:
        f->n_expert = number(value);
        break;
    case OPT_USED:
        f->n_used = number(value);
        break;
    case OPT_VOCAB:
        f->n_vocab = number(value);
        break;
    case OPT_CONTEXT:
        f->n_ctx = number(value);
        break;
    case OPT_TYPE:
        set_type(f, value);
        break;
    case OPT_TIED:
        f->tied = true;
        break;
    case OPT_SEED:
        f->seed = number(value);
        break;
    case OPT_SHAPE:
        set_shape(f, value);
        break;
    case OPT_OUT:
        *out = value;
        break;
    }
}

int main(int argc, char **argv)
{
    struct fixture f = fixture_small();
    struct gguf_writer *w;
    const char *out = NULL;
    int id, rc;

    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (id == '?')
            usage();
        set(&f, id, optarg, &out);
    }
    if (out == NULL || optind != argc)
        usage();
    rc = gguf_writer_create(&w);
    if (rc == 0)
        rc = fixture_add(&f, w);
    if (rc == 0)
        rc = gguf_writer_save(w, out);
    gguf_writer_destroy(&w);
    fixture_release(&f);
    if (rc < 0)
        fprintf(stderr, "mkmodel: %s: %s\n", out, err_text(rc));
    return rc < 0;
}
