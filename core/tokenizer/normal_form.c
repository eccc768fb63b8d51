/* core/tokenizer/normal_form.c - see normal_form.h.
 *
 * Creating a form asks libunistring about every character once and stores the answers as three bit
 * sets. A text is then scanned by a table of first bytes and the bit sets; a run goes from the
 * character before a changing one to a point where nothing can join across, and only that run is
 * copied through libunistring. Runs have a limit, so a text of combining marks costs linear time
 * and bounded memory.
 */
#include "core/tokenizer/normal_form.h"

#include "core/base/buf.h"
#include "core/base/budget.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/base/utf8.h"

#include <string.h>
#include <unictype.h>
#include <uninorm.h>

#define N_CHARACTERS 0x30000 /* no character from here on changes */
#define MAX_RUN 4096         /* bytes after which a run ends at the next possible point */
#define LONGEST_RUN 65536    /* bytes after which a run ends in any case, to limit memory and
                              * time */
#define GROWTH 3             /* most growth: U+0390 takes three times its bytes in NFD */
#define GROWTH_K 11          /* ... and U+FDFA eleven times in NFKC and NFKD */
#define JAMO_VOWELS 0x1161   /* 21 of them; one is joined to the leading consonant before it */
#define JAMO_TRAILS 0x11A8   /* 27 */

enum kind {
    STILL = 0, /* the character is unchanged in the form, whatever is before it */
    CHANGES,   /* it becomes other characters, none of which is joined to the character before */
    HANGS,     /* it may be joined to the character before it, or change places with it */
    NEWER,     /* newer than Unicode 9.0: it stays, and nothing is joined to it */
};

struct normal_form {
    uninorm_t form;
    bool joins, is_compatible; /* joins: forms C and KC; is_compatible: KC and KD */
    /* by first byte: no character that begins with it changes or hangs; true for inner bytes too */
    bool is_still[256];
    uint64_t changes[N_CHARACTERS / 64];
    uint64_t hangs[N_CHARACTERS / 64];
    uint64_t newer[N_CHARACTERS / 64];
};

/* Characters of Unicode 10 to 18 that have a mapping or a combining class, are part of a character
 * that has one, or are marks. A range contains only these, and characters that no form changes.
 * Found with the libraries tokenizers 0.23 and unicodedata2 18. */
static const uint32_t newer_ranges[][2] = {
    {0x558, 0x558},     {0x58B, 0x58C},     {0x5C8, 0x5C9},     {0x7FD, 0x7FD},
    {0x897, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},     {0xB53, 0xB55},
    {0xC04, 0xC3C},     {0xCF3, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},
    {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},   {0x180F, 0x180F},
    {0x1ABF, 0x1AF0},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0x209D, 0x209F},
    {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},
    {0xAB69, 0xAB69},   {0x105C9, 0x107BF}, {0x10D24, 0x10F85}, {0x11070, 0x11074},
    {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
    {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11382, 0x113E2}, {0x1145E, 0x1145E},
    {0x1182C, 0x11B67}, {0x11D31, 0x11F5A}, {0x13440, 0x13455}, {0x1611E, 0x1612F},
    {0x16D63, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1B123, 0x1B126},
    {0x1CCD6, 0x1D128}, {0x1D250, 0x1D281}, {0x1D6A6, 0x1D6A6}, {0x1DF95, 0x1DFFF},
    {0x1E030, 0x1E6F5}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

static bool bit_is_set(const uint64_t *bits, uint32_t c)
{
    return c < N_CHARACTERS && (bits[c / 64] >> c % 64 & 1) != 0;
}

static void set_bit(uint64_t *bits, uint32_t c)
{
    bits[c / 64] |= (uint64_t)1 << c % 64;
}

bool normal_form_is_newer(uint32_t character)
{
    size_t i = 0;

    while (i < sizeof(newer_ranges) / sizeof(newer_ranges[0]) && newer_ranges[i][1] < character)
        i++;
    return i < sizeof(newer_ranges) / sizeof(newer_ranges[0]) && newer_ranges[i][0] <= character;
}

/* ---- classes of characters */

static void add_newer(struct normal_form *f)
{
    for (size_t i = 0; i < sizeof(newer_ranges) / sizeof(newer_ranges[0]); i++)
        for (uint32_t c = newer_ranges[i][0]; c <= newer_ranges[i][1]; c++)
            set_bit(f->newer, c);
}

/* Skip ideographs and syllables that no form takes apart or joins, by blocks, so that the tables
 * take a millisecond. */
static uint32_t next_character(uint32_t c)
{
    c++;
    if (c == 0x3400)
        return 0xA000;
    return c == 0x20000 ? 0x2F800 : c;
}

/* Mark the second characters of pairs that the form joins. */
static void add_joined(struct normal_form *f)
{
    ucs4_t parts[UC_DECOMPOSITION_MAX_LENGTH];

    for (uint32_t c = 0x80; c < N_CHARACTERS; c = next_character(c)) {
        const bool is_syllable = c >= 0xAC00 && c <= 0xD7A3; /* made of the jamo below */

        if (!is_syllable && !bit_is_set(f->newer, c) && uc_canonical_decomposition(c, parts) == 2)
            set_bit(f->hangs, parts[1]);
    }
    for (uint32_t i = 0; i < 21; i++)
        set_bit(f->hangs, JAMO_VOWELS + i);
    for (uint32_t i = 0; i < 27; i++)
        set_bit(f->hangs, JAMO_TRAILS + i);
}

/* Return the first character of the decomposition of c. */
static uint32_t first_part(const struct normal_form *f, uint32_t c)
{
    ucs4_t parts[UC_DECOMPOSITION_MAX_LENGTH];
    int tag;

    while ((f->is_compatible ? uc_decomposition(c, &tag, parts)
                             : uc_canonical_decomposition(c, parts)) > 0)
        c = parts[0];
    return c;
}

/* True: the character, by itself, becomes another text in this form. */
static bool changes_alone(const struct normal_form *f, uint32_t c)
{
    uint8_t from[4], room[64];
    size_t n = sizeof(room);
    const int len = u8_uctomb(from, c, sizeof(from));
    const uint8_t *to = len > 0 ? u8_normalize(f->form, from, (size_t)len, room, &n) : NULL;

    return to == room && (n != (size_t)len || memcmp(room, from, n) != 0);
}

static void find_changes(struct normal_form *f)
{
    for (uint32_t c = 0x80; c < N_CHARACTERS; c = next_character(c)) {
        uint32_t first;

        if (bit_is_set(f->newer, c) || (c >= 0xD800 && c < 0xE000))
            continue;
        first = first_part(f, c);
        if (uc_combining_class(first) != 0 || bit_is_set(f->hangs, first))
            set_bit(f->hangs, c);
        if (bit_is_set(f->hangs, c) || (first != c && changes_alone(f, c)))
            set_bit(f->changes, c);
    }
}

static uint8_t first_byte(uint32_t c)
{
    uint8_t bytes[4];

    return u8_uctomb(bytes, c, sizeof(bytes)) > 0 ? bytes[0] : 0;
}

static void find_still_bytes(struct normal_form *f)
{
    memset(f->is_still, true, sizeof(f->is_still));
    for (uint32_t c = 0x80; c < N_CHARACTERS; c++)
        if (bit_is_set(f->changes, c))
            f->is_still[first_byte(c)] = false;
}

int normal_form_create(struct normal_form **out, enum normal_form_kind kind)
{
    struct normal_form *f = mem_calloc(1, sizeof(*f));

    *out = f;
    if (f == NULL)
        return ERR_NOMEM;
    switch (kind) {
    case NORMAL_FORM_C:
        f->form = UNINORM_NFC;
        break;
    case NORMAL_FORM_D:
        f->form = UNINORM_NFD;
        break;
    case NORMAL_FORM_KC:
        f->form = UNINORM_NFKC;
        break;
    case NORMAL_FORM_KD:
        f->form = UNINORM_NFKD;
        break;
    }
    f->joins = kind == NORMAL_FORM_C || kind == NORMAL_FORM_KC;
    f->is_compatible = kind == NORMAL_FORM_KC || kind == NORMAL_FORM_KD;
    add_newer(f);
    if (f->joins)
        add_joined(f);
    find_changes(f);
    find_still_bytes(f);
    return 0;
}

void normal_form_destroy(struct normal_form **form)
{
    mem_free(*form);
    *form = NULL;
}

/* ---- text */

/* Return the kind of the character at `at` and its length in bytes. A byte that is not UTF-8 counts
 * as a newer character: nothing is joined to it. */
static enum kind kind_at(const struct normal_form *f, const char *text, size_t n, size_t at,
                         size_t *len)
{
    const uint8_t *s = (const uint8_t *)text + at;
    uint32_t c;

    *len = 1;
    if (s[0] < 0x80)
        return STILL;
    if (utf8_len(s, n - at) == 0)
        return NEWER;
    c = unicode_at(text + at, n - at, len);
    if (bit_is_set(f->newer, c))
        return NEWER;
    if (bit_is_set(f->hangs, c))
        return HANGS;
    return bit_is_set(f->changes, c) ? CHANGES : STILL;
}

/* Return the length of the character at s if it has two or three bytes and does not change, else 0.
 * Bytes of that shape that are not UTF-8 do not change either. */
static size_t still_len(const struct normal_form *f, const uint8_t *s, size_t n)
{
    uint32_t c;

    if (n < 3 || s[0] < 0xC0 || s[0] >= 0xF0 || (s[1] & 0xC0) != 0x80)
        return 0;
    if (s[0] < 0xE0) {
        c = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
        return bit_is_set(f->changes, c) ? 0 : 2;
    }
    c = (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    return (s[2] & 0xC0) != 0x80 || bit_is_set(f->changes, c) ? 0 : 3;
}

size_t normal_form_check(const struct normal_form *form, const char *text, size_t n)
{
    size_t at = 0, len;

    while (at < n) {
        enum kind kind;
        uint64_t eight;

        if (n - at >= sizeof(eight)) {
            memcpy(&eight, text + at, sizeof(eight));
            if ((eight & 0x8080808080808080u) == 0) {
                at += sizeof(eight);
                continue;
            }
        }
        len = form->is_still[(uint8_t)text[at]]
                  ? 1
                  : still_len(form, (const uint8_t *)text + at, n - at);
        if (len > 0) {
            at += len;
            continue;
        }
        kind = kind_at(form, text, n, at, &len);
        if (kind == CHANGES || kind == HANGS)
            return at;
        at += len;
    }
    return n;
}

/* Return the begin of the run around the changing character at `at`: the character before it, which
 * may be joined to it, unless that is a newer one. */
static size_t run_begin(const struct normal_form *f, const char *text, size_t from, size_t at)
{
    size_t begin, len;

    if (at == from)
        return at;
    begin = at - unicode_last(text + from, at - from);
    return kind_at(f, text, at, begin, &len) == STILL ? begin : at;
}

/* Return the end of the run: where two characters in a row do not change, before a newer one, or
 * the text's end. A run of more than MAX_RUN bytes ends before the next character that cannot be
 * joined to the one before. */
static size_t run_end(const struct normal_form *f, const char *text, size_t n, size_t begin,
                      size_t at)
{
    size_t still = SIZE_MAX; /* place of the last character, if it does not change */

    for (size_t len; at < n; at += len) {
        const enum kind kind = kind_at(f, text, n, at, &len);

        if (kind == STILL && still != SIZE_MAX)
            return still;
        if (kind == NEWER || at - begin >= (kind == HANGS ? LONGEST_RUN : MAX_RUN))
            return at;
        still = kind == STILL ? at : SIZE_MAX;
    }
    return n;
}

static int set_run(const struct normal_form *f, const char *run, size_t n, struct buf *out)
{
    uint8_t little[1024], *room = little;
    size_t len = n * (f->is_compatible ? GROWTH_K : GROWTH);
    const uint8_t *to;
    int rc = 0;

    if (len > sizeof(little))
        room = mem_alloc(len);
    if (room == NULL)
        return ERR_NOMEM;
    to = u8_normalize(f->form, (const uint8_t *)run, n, room, &len);
    rc = to == room ? buf_add(out, room, len) : ERR_NOMEM;
    if (room != little)
        mem_free(room);
    return rc;
}

int normal_form_add(const struct normal_form *form, const char *text, size_t n,
                    struct budget *budget, struct buf *out)
{
    for (size_t from = 0; from < n && out->err == 0;) {
        const size_t at = from + normal_form_check(form, text + from, n - from);
        const size_t begin = at < n ? run_begin(form, text, from, at) : n;
        const size_t end = at < n ? run_end(form, text, n, begin, at) : n;
        int rc = budget_spend(budget, 1 + (begin - from) / 32 + (end - begin) / 2);

        if (rc < 0)
            return rc;
        buf_add(out, text + from, begin - from);
        rc = begin < end ? set_run(form, text + begin, end - begin, out) : 0;
        if (rc != 0)
            return rc;
        from = end;
    }
    return out->err;
}
