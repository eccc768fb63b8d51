/* tests/check/amx_x86_64.c - see amx.h. Forms of instructions are those of Intel's SDM, volume 2. A
 * rule of the definition that is broken (a shape, a missing configuration) ends the program. */
#include "tests/check/amx.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define N_TILES 8
#define MAX_ROWS 16
#define MAX_BYTES 64 /* of a row */

struct tile {
    uint8_t bytes[MAX_ROWS][MAX_BYTES];
};

/* The shapes of the tiles, in the layout that ldtilecfg reads. */
struct config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};

static _Thread_local struct tile tiles[N_TILES];
static _Thread_local struct config shapes;

static void stop(const char *why)
{
    fprintf(stderr, "amx: %s\n", why);
    abort();
}

static void must(bool is_so, const char *what)
{
    if (!is_so)
        stop(what);
}

/* ---- the instructions ---- */

static void configure(const struct config *c)
{
    static const uint8_t zero[14];

    must(c->palette == 1 && c->start_row == 0, "palette 1 from row 0");
    must(memcmp(c->zero, zero, sizeof(zero)) == 0, "reserved bytes are zero");
    for (int i = 0; i < 16; i++) {
        must(i < N_TILES || (c->row_bytes[i] == 0 && c->n_rows[i] == 0), "eight tiles");
        must(c->row_bytes[i] <= MAX_BYTES && c->n_rows[i] <= MAX_ROWS, "16 rows of 64 bytes");
        must((c->row_bytes[i] == 0) == (c->n_rows[i] == 0), "rows and bytes, or neither");
    }
    shapes = *c;
    memset(tiles, 0, sizeof(tiles));
}

static void release(void)
{
    memset(&shapes, 0, sizeof(shapes));
    memset(tiles, 0, sizeof(tiles));
}

static void must_be_configured(unsigned t)
{
    must(shapes.palette == 1 && t < N_TILES && shapes.n_rows[t] > 0, "a tile with a shape");
}

static void load(unsigned t, const uint8_t *at, int64_t stride)
{
    must_be_configured(t);
    memset(&tiles[t], 0, sizeof(tiles[t]));
    for (int64_t row = 0; row < shapes.n_rows[t]; row++)
        memcpy(tiles[t].bytes[row], at + row * stride, shapes.row_bytes[t]);
}

static void store(unsigned t, uint8_t *at, int64_t stride)
{
    must_be_configured(t);
    for (int64_t row = 0; row < shapes.n_rows[t]; row++)
        memcpy(at + row * stride, tiles[t].bytes[row], shapes.row_bytes[t]);
}

/* Signed by signed bytes, four at a time: sums[row][lane] += a[row][4 k ..] . b[k][4 lane ..]. */
static void dot(unsigned sums, unsigned a, unsigned b)
{
    must_be_configured(sums);
    must_be_configured(a);
    must_be_configured(b);
    must(sums != a && sums != b && a != b, "three tiles");
    must(shapes.n_rows[a] == shapes.n_rows[sums], "as many rows as sums");
    must(shapes.row_bytes[b] == shapes.row_bytes[sums], "as many lanes as sums");
    must(shapes.row_bytes[a] % 4 == 0 && shapes.row_bytes[a] / 4 == shapes.n_rows[b], "one depth");
    for (int row = 0; row < shapes.n_rows[sums]; row++)
        for (int lane = 0; lane < shapes.row_bytes[sums] / 4; lane++) {
            int32_t sum;

            memcpy(&sum, &tiles[sums].bytes[row][4 * lane], 4);
            for (int k = 0; k < shapes.row_bytes[a]; k++)
                sum = (int32_t)((uint32_t)sum +
                                (uint32_t)((int8_t)tiles[a].bytes[row][k] *
                                           (int8_t)tiles[b].bytes[k / 4][4 * lane + k % 4]));
            memcpy(&tiles[sums].bytes[row][4 * lane], &sum, 4);
        }
}

/* ---- their form ---- */

/* The fields of an instruction with a VEX prefix of three bytes. */
struct form {
    unsigned extend_reg, extend_index, extend_base; /* 0 or 8 */
    unsigned third;                                 /* register in the prefix */
    unsigned prefix;                                /* 0: none, 1: 66, 2: F3, 3: F2 */
    unsigned opcode, mod, reg, rm;
    const uint8_t *rest; /* behind ModRM */
};

/* Map 0F38, W 0 and 128 bits, which all of AMX's have. */
static bool parse(const uint8_t *p, struct form *f)
{
    if (p[0] != 0xc4 || (p[1] & 0x1f) != 2 || (p[2] & 0x84) != 0)
        return false;
    f->extend_reg = (p[1] & 0x80) != 0 ? 0 : 8;
    f->extend_index = (p[1] & 0x40) != 0 ? 0 : 8;
    f->extend_base = (p[1] & 0x20) != 0 ? 0 : 8;
    f->third = ~(unsigned)p[2] >> 3 & 15;
    f->prefix = p[2] & 3;
    f->opcode = p[3];
    f->mod = p[4] >> 6;
    f->reg = p[4] >> 3 & 7;
    f->rm = p[4] & 7;
    f->rest = p + 5;
    return f->opcode == 0x49 || f->opcode == 0x4b || f->opcode == 0x5e;
}

static uint64_t register_of(const mcontext_t *m, unsigned number)
{
    static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15};

    return (uint64_t)m->gregs[order[number]];
}

/* The memory operand: its address, the index register's part of it apart (a tile's stride). */
static uint8_t *operand(struct form *f, const mcontext_t *m, int64_t *stride)
{
    unsigned base = f->rm + f->extend_base;
    uint64_t at;
    int32_t wide = 0;

    *stride = 0;
    if (f->rm == 4) {
        const uint8_t sib = *f->rest++;
        const unsigned index = (sib >> 3 & 7) + f->extend_index;

        base = (sib & 7) + f->extend_base;
        if (index != 4)
            *stride = (int64_t)(register_of(m, index) << (sib >> 6));
    }
    must(f->mod != 0 || base % 8 != 5, "a base register");
    at = register_of(m, base);
    if (f->mod == 1)
        at += (uint64_t)(int64_t)(int8_t)*f->rest++;
    if (f->mod == 2) {
        memcpy(&wide, f->rest, 4);
        f->rest += 4;
        at += (uint64_t)(int64_t)wide;
    }
    return (uint8_t *)at; /* NOLINT: the program's own pointer */
}

/* False: it is no instruction of AMX that is known here. */
static bool carry_out(struct form *f, const mcontext_t *m)
{
    int64_t stride;
    uint8_t *at;

    if (f->opcode == 0x5e && f->mod == 3 && f->prefix == 3) { /* tdpbssd */
        dot(f->reg, f->rm, f->third);
        return true;
    }
    if (f->opcode == 0x49 && f->mod == 3 && (f->prefix == 0 || f->prefix == 3)) {
        if (f->prefix == 0) { /* tilerelease */
            release();
            return true;
        }
        must_be_configured(f->reg); /* tilezero */
        memset(&tiles[f->reg], 0, sizeof(tiles[f->reg]));
        return true;
    }
    if (f->mod == 3 || f->opcode == 0x5e)
        return false;
    at = operand(f, m, &stride);
    if (f->opcode == 0x49 && f->prefix == 0) /* ldtilecfg */
        configure((const void *)at);
    else if (f->opcode == 0x4b && f->prefix == 3) /* tileloadd */
        load(f->reg, at, stride);
    else if (f->opcode == 0x4b && f->prefix == 2) /* tilestored */
        store(f->reg, at, stride);
    else
        return false;
    return true;
}

static void on_invalid(int number, siginfo_t *info, void *context)
{
    mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
    struct form f;
    (void)info;

    if (parse((const uint8_t *)m->gregs[REG_RIP], &f) && carry_out(&f, m))
        m->gregs[REG_RIP] = (greg_t)f.rest;
    else
        signal(number, SIG_DFL); /* it happens again, and ends the program */
}

void amx_model_install(void)
{
    const struct sigaction action = {.sa_sigaction = on_invalid,
                                     .sa_flags = SA_SIGINFO | SA_NODEFER};

    if (sigaction(SIGILL, &action, NULL) != 0)
        stop("sigaction");
}
