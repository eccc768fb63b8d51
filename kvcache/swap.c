/* kvcache/swap.c - the slots of each swapped copy, and the choice of what to write and read
 * next.
 *
 * Every copy is in at most one of three lists: in_ram (may be written, oldest first), to_read and
 * under_way; its state says which slots it has. Reads go before writes, because a sequence waits
 * for a read. Writing starts when more than half of the RAM slots are used, so that swapping out
 * always finds room without waiting for the disk. The engine thread calls all of it; server code
 * carries the I/O out.
 */
#include "kvcache/swap.h"

#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "kvcache/id_set.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* After a failed write the next one is tried after so many swap_add(): a full disk stays full for a
 * while, and every trial costs a write of a whole copy. */
#define WRITE_PAUSE 16

struct copy {
    struct list link; /* in one of the lists of struct swap, or in none */
    enum swap_state state;
    uint32_t n;         /* blocks; 0: not in use */
    uint64_t age;       /* counts up with swap_add() */
    bool is_dropped;    /* dropped: exists only until its I/O has ended */
    bool is_wanted;     /* asked for by swap_fetch(): stays in RAM */
    uint32_t *ram, *file; /* [n] slots, valid if `state` says that it has them */
};

struct swap {
    struct swap_options opt;
    struct swap_stats stats; /* only the counters; swap_stats() derives the rest */
    struct id_set free_ram, free_file, free_copies;
    struct list in_ram;      /* copies that may be written to the file, oldest first */
    struct list to_read;     /* READING copies whose read has not started */
    struct list under_way;   /* WRITING and READING copies whose I/O has started */
    uint32_t n_to_read, n_under_way;
    uint32_t n_leaving;      /* RAM slots of copies that are being written */
    uint32_t pause;          /* swap_add() calls until writing is tried again */
    uint64_t last_age;
    struct copy *copies;     /* [max_copies] */
    uint32_t *slots;         /* the copies' slot lists, one allocation */
    uint8_t *seen;           /* [n_ram + n_file] scratch of swap_check() */
};

static int fill_set(struct id_set *set, uint32_t n)
{
    const int rc = id_set_init(set, n > 0 ? n : 1);

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        id_set_add(set, i);
    return rc;
}

static int take_memory(struct swap *s)
{
    const struct swap_options *o = &s->opt;
    const uint32_t per_copy = o->max_blocks < o->n_ram ? o->max_blocks : o->n_ram;

    if (fill_set(&s->free_ram, o->n_ram) < 0 || fill_set(&s->free_file, o->n_file) < 0 ||
        fill_set(&s->free_copies, o->max_copies) < 0)
        return ERR_NOMEM;
    s->copies = mem_calloc(o->max_copies, sizeof(*s->copies));
    s->slots = mem_calloc(2 * (size_t)o->max_copies, per_copy * sizeof(*s->slots));
    s->seen = mem_calloc((size_t)o->n_ram + o->n_file, 1);
    if (s->copies == NULL || s->slots == NULL || s->seen == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < o->max_copies; i++) {
        s->copies[i].ram = s->slots + 2 * (size_t)i * per_copy;
        s->copies[i].file = s->copies[i].ram + per_copy;
        list_init(&s->copies[i].link);
    }
    return 0;
}

int swap_create(struct swap **out, const struct swap_options *options)
{
    struct swap *s;

    *out = NULL;
    if (options->n_ram == 0 || options->max_copies == 0 || options->max_blocks == 0 ||
        options->n_ram > UINT32_MAX / 2 || options->n_file > UINT32_MAX / 2 ||
        options->max_copies > UINT32_MAX / 2)
        return ERR_INVAL;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->opt = *options;
    list_init(&s->in_ram);
    list_init(&s->to_read);
    list_init(&s->under_way);
    if (take_memory(s) < 0) {
        swap_destroy(&s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

void swap_destroy(struct swap **swap)
{
    struct swap *s = swap != NULL ? *swap : NULL;

    if (s == NULL)
        return;
    id_set_release(&s->free_ram);
    id_set_release(&s->free_file);
    id_set_release(&s->free_copies);
    mem_free(s->copies);
    mem_free(s->slots);
    mem_free(s->seen);
    mem_free(s);
    *swap = NULL;
}

/* ---- slots ---- */

/* Take the lowest free slots, so that a copy's slots are mostly neighbours: fewer, longer
 * transfers. */
static void take_slots(struct id_set *free, uint32_t n, uint32_t *slots)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        slots[i] = at = id_set_next(free, at);
        id_set_remove(free, at);
    }
}

static void give_slots(struct id_set *free, uint32_t n, const uint32_t *slots)
{
    for (uint32_t i = 0; i < n; i++)
        id_set_add(free, slots[i]);
}

static bool has_ram(const struct copy *c)
{
    return c->state == SWAP_RAM || c->state == SWAP_WRITING || c->state == SWAP_READING;
}

static bool has_file(const struct copy *c)
{
    return c->state == SWAP_FILE || c->state == SWAP_WRITING || c->state == SWAP_READING;
}

static struct copy *get(const struct swap *s, uint32_t copy)
{
    assert(copy < s->opt.max_copies && s->copies[copy].n > 0 && !s->copies[copy].is_dropped);
    return &s->copies[copy];
}

static void free_copy(struct swap *s, struct copy *c)
{
    list_unlink(&c->link);
    if (has_ram(c))
        give_slots(&s->free_ram, c->n, c->ram);
    if (has_file(c))
        give_slots(&s->free_file, c->n, c->file);
    id_set_add(&s->free_copies, (uint32_t)(c - s->copies));
    c->n = 0;
    c->is_dropped = c->is_wanted = false;
}

/* ---- copies ---- */

bool swap_can_add(const struct swap *s, uint32_t n)
{
    return n > 0 && n <= s->opt.max_blocks && n <= s->free_ram.count && s->free_copies.count > 0;
}

int64_t swap_add(struct swap *s, uint32_t n, const uint32_t **ram)
{
    struct copy *c;

    s->pause -= s->pause > 0;
    if (!swap_can_add(s, n)) {
        s->stats.n_refused++;
        return ERR_AGAIN;
    }
    c = &s->copies[id_set_next(&s->free_copies, 0)];
    id_set_remove(&s->free_copies, (uint32_t)(c - s->copies));
    c->n = n;
    c->state = SWAP_RAM;
    c->age = ++s->last_age;
    take_slots(&s->free_ram, n, c->ram);
    list_push_back(&s->in_ram, &c->link);
    s->stats.n_copies++;
    s->stats.blocks_out[0] += n;
    *ram = c->ram;
    return c - s->copies;
}

const uint32_t *swap_slots(const struct swap *s, uint32_t copy, uint32_t *n)
{
    const struct copy *c = get(s, copy);

    *n = c->n;
    return c->state == SWAP_RAM || c->state == SWAP_WRITING ? c->ram : NULL;
}

enum swap_state swap_where(const struct swap *s, uint32_t copy)
{
    return get(s, copy)->state;
}

uint32_t swap_n_blocks(const struct swap *s, uint32_t copy)
{
    return get(s, copy)->n;
}

static bool is_under_way(const struct swap *s, const struct copy *c)
{
    const struct list *l = s->under_way.next;

    while (l != &s->under_way && l != &c->link)
        l = l->next;
    return l == &c->link;
}

void swap_drop(struct swap *s, uint32_t copy)
{
    struct copy *c = get(s, copy);

    s->stats.n_copies--;
    if (is_under_way(s, c)) {
        c->is_dropped = true;
        return;
    }
    s->n_to_read -= c->state == SWAP_READING;
    free_copy(s, c);
}

void swap_used(struct swap *s, uint32_t copy, uint32_t n_loaded)
{
    s->stats.blocks_in[0] += n_loaded;
    swap_drop(s, copy);
}

int swap_fetch(struct swap *s, uint32_t copy)
{
    struct copy *c = get(s, copy);

    if (c->state == SWAP_LOST)
        return ERR_IO;
    if (c->state == SWAP_FILE) {
        if (c->n > s->free_ram.count || s->n_to_read + s->n_under_way >= SWAP_MAX_IO)
            return ERR_AGAIN;
        take_slots(&s->free_ram, c->n, c->ram);
        c->state = SWAP_READING;
        list_push_back(&s->to_read, &c->link);
        s->n_to_read++;
    }
    if (c->state == SWAP_RAM)
        list_unlink(&c->link);
    c->is_wanted = true;
    return 0;
}

/* ---- input and output ---- */

/* The oldest copy that fits into the file, if RAM is more than half full and writing is not paused.
 * Slots that are being written already count as free. */
static struct copy *next_to_write(const struct swap *s)
{
    const uint32_t used = s->opt.n_ram - s->free_ram.count - s->n_leaving;

    if (s->pause > 0 || (uint64_t)used * 2 <= s->opt.n_ram)
        return NULL;
    list_each(it, &s->in_ram) {
        struct copy *c = list_entry(it, struct copy, link);

        if (c->n <= s->free_file.count)
            return c;
    }
    return NULL;
}

bool swap_is_freeing(const struct swap *s)
{
    list_each(it, &s->under_way) {
        const struct copy *c = list_entry(it, struct copy, link);

        if (c->is_dropped || (c->state == SWAP_WRITING && !c->is_wanted))
            return true;
    }
    return next_to_write(s) != NULL;
}

static bool start_io(struct swap *s, struct copy *c, struct swap_io *out)
{
    list_unlink(&c->link);
    list_push_back(&s->under_way, &c->link);
    s->n_under_way++;
    *out = (struct swap_io){
        .copy = (uint32_t)(c - s->copies),
        .is_write = c->state == SWAP_WRITING,
        .n = c->n,
        .ram = c->ram,
        .file = c->file,
    };
    return true;
}

bool swap_next_io(struct swap *s, struct swap_io *out)
{
    struct copy *c;

    if (s->n_to_read > 0) {
        s->n_to_read--;
        return start_io(s, list_entry(s->to_read.next, struct copy, link), out);
    }
    c = s->n_under_way < SWAP_MAX_IO ? next_to_write(s) : NULL;
    if (c == NULL)
        return false;
    take_slots(&s->free_file, c->n, c->file);
    c->state = SWAP_WRITING;
    s->n_leaving += c->n;
    return start_io(s, c, out);
}

/* Put a copy back into in_ram, which is in the order of age. Nearly always the copy is the
 * oldest. */
static void enter_in_ram(struct swap *s, struct copy *c)
{
    struct list *at = s->in_ram.next;

    while (at != &s->in_ram && list_entry(at, struct copy, link)->age < c->age)
        at = at->next;
    list_push_back(at, &c->link);
}

/* End a write. A copy that was asked for meanwhile stays in RAM and is not written again. */
static void write_done(struct swap *s, struct copy *c, bool failed)
{
    s->n_leaving -= c->n;
    if (failed) {
        s->stats.n_write_errors++;
        s->pause = WRITE_PAUSE;
    } else {
        s->stats.blocks_out[1] += c->n;
    }
    if (c->is_dropped)
        return;
    if (!failed && !c->is_wanted) {
        give_slots(&s->free_ram, c->n, c->ram);
        c->state = SWAP_FILE;
        return;
    }
    give_slots(&s->free_file, c->n, c->file);
    c->state = SWAP_RAM;
    if (!c->is_wanted)
        enter_in_ram(s, c);
}

static void read_done(struct swap *s, struct copy *c, bool failed)
{
    if (failed)
        s->stats.n_read_errors++;
    else
        s->stats.blocks_in[1] += c->n;
    if (c->is_dropped)
        return;
    give_slots(&s->free_file, c->n, c->file);
    if (failed)
        give_slots(&s->free_ram, c->n, c->ram);
    c->state = failed ? SWAP_LOST : SWAP_RAM;
}

void swap_io_done(struct swap *s, uint32_t copy, int rc)
{
    struct copy *c = &s->copies[copy];

    assert(copy < s->opt.max_copies && c->n > 0 && is_under_way(s, c));
    list_unlink(&c->link);
    s->n_under_way--;
    if (c->state == SWAP_WRITING)
        write_done(s, c, rc < 0);
    else
        read_done(s, c, rc < 0);
    if (c->is_dropped)
        free_copy(s, c);
}

/* ---- inspection ---- */

uint32_t swap_n_io(const struct swap *s)
{
    return s->n_under_way;
}

struct swap_stats swap_stats(const struct swap *s)
{
    struct swap_stats stats = s->stats;

    stats.ram_slots = s->opt.n_ram;
    stats.ram_used = s->opt.n_ram - s->free_ram.count;
    stats.file_slots = s->opt.n_file;
    stats.file_used = s->opt.n_file - s->free_file.count;
    return stats;
}

/* Check that none of the copy's slots is free or belongs to another copy; add their number to
 * *n. */
static bool see(const struct id_set *free, uint8_t *seen, const struct copy *c,
                const uint32_t *slots, uint32_t *n)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (slots[i] >= free->n || id_set_has(free, slots[i]) || seen[slots[i]] != 0)
            return false;
        seen[slots[i]] = 1;
    }
    *n += c->n;
    return true;
}

static uint32_t length(const struct list *head)
{
    uint32_t n = 0;

    for (const struct list *l = head->next; l != head; l = l->next)
        n++;
    return n;
}

bool swap_check(const struct swap *s)
{
    uint32_t n_ram = 0, n_file = 0, n_copies = 0, n_dropped = 0, n_leaving = 0;

    memset(s->seen, 0, (size_t)s->opt.n_ram + s->opt.n_file);
    for (uint32_t i = 0; i < s->opt.max_copies; i++) {
        const struct copy *c = &s->copies[i];

        if ((c->n > 0) == id_set_has(&s->free_copies, i) ||
            (c->is_dropped && !is_under_way(s, c)) ||
            (c->n > 0 && has_ram(c) && !see(&s->free_ram, s->seen, c, c->ram, &n_ram)) ||
            (c->n > 0 && has_file(c) &&
             !see(&s->free_file, s->seen + s->opt.n_ram, c, c->file, &n_file)))
            return false;
        n_copies += c->n > 0;
        n_dropped += c->is_dropped;
        n_leaving += c->state == SWAP_WRITING ? c->n : 0;
    }
    return n_ram + s->free_ram.count == s->opt.n_ram &&
           n_file + s->free_file.count == s->opt.n_file && n_leaving == s->n_leaving &&
           s->stats.n_copies + n_dropped == n_copies && length(&s->to_read) == s->n_to_read &&
           length(&s->under_way) == s->n_under_way && id_set_check(&s->free_ram) &&
           id_set_check(&s->free_file) && id_set_check(&s->free_copies);
}
