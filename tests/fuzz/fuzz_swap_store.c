/* tests/fuzz/fuzz_swap_store.c - libFuzzer: a swap file as it is found at start, and what others do
 * to it while it is in use.
 *
 * The input: how long the file is that is found (2 bytes) and its bytes, then operations: which (1
 * byte) and a number (2 bytes). A model keeps what each slot of RAM and each slot of the file
 * should hold.
 *
 * A file that is empty or begins as swap files do is replaced, any other is left as it was. What is
 * read is what was written last, or an error, which only a file that somebody else has changed may
 * give; at the end the file is gone.
 */
#include "tests/fuzz/scratch.h"

#include <sys/stat.h>

#include "core/base/err.h"
#include "core/base/log.h"
#include "kvcache/swap_store.h"

enum { BYTES = 24, N_RAM = 4, N_FILE = 70, HEADER = 4096, RUN = 4 };
enum op { OP_SAVE = 0, OP_WRITE, OP_READ, OP_POKE, OP_CUT, OP_N };

struct model {
    struct swap_store *store;
    uint8_t ram[N_RAM][BYTES];   /* what each should hold */
    uint8_t file[N_FILE][BYTES];
    bool is_written[N_FILE];
    bool is_changed; /* by somebody else: reading may fail */
};

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void check_ram(const struct model *m)
{
    for (uint32_t i = 0; i < N_RAM; i++) {
        uint8_t got[BYTES];

        swap_store_load(m->store, i, got);
        require(memcmp(got, m->ram[i], BYTES) == 0);
    }
}

/* Which slots a transfer has: of the file either neighbours or the same distance apart. */
static uint32_t pick(uint32_t v, uint32_t ram[RUN], uint32_t file[RUN])
{
    const uint32_t n = 1 + v % RUN, step = 1 + (v >> 2) % 3, first = (v >> 4) % N_FILE;

    for (uint32_t i = 0; i < n; i++) {
        ram[i] = (i + (v >> 11)) % N_RAM;
        file[i] = (first + i * step) % N_FILE;
    }
    return n;
}

static void write_slots(struct model *m, uint32_t v)
{
    uint32_t ram[RUN], file[RUN];
    const uint32_t n = pick(v, ram, file);

    require(swap_store_write(m->store, n, ram, file) == 0);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(m->file[file[i]], m->ram[ram[i]], BYTES);
        m->is_written[file[i]] = true;
    }
}

static void read_slots(struct model *m, uint32_t v)
{
    uint32_t ram[RUN], file[RUN];
    const uint32_t n = pick(v, ram, file);
    int rc;

    for (uint32_t i = 0; i < n; i++)
        if (!m->is_written[file[i]])
            return; /* nobody reads what was never written */
    rc = swap_store_read(m->store, n, ram, file);
    require(rc == 0 || (rc == ERR_IO && m->is_changed));
    for (uint32_t i = 0; i < n; i++)
        if (rc == 0)
            memcpy(m->ram[ram[i]], m->file[file[i]], BYTES);
        else
            swap_store_save(m->store, ram[i], m->ram[ram[i]]); /* what a failure left is not used */
}

/* A byte of the file, or its length: as a disk that fails, or somebody who writes to it. */
static void disturb(struct model *m, const char *path, enum op op, uint32_t v)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const off_t at = v % (HEADER + N_FILE * BYTES);
    const uint8_t byte = (uint8_t)(v >> 7);

    require(fd >= 0);
    if (op == OP_POKE)
        require(pwrite(fd, &byte, 1, at) == 1);
    else
        require(ftruncate(fd, at) == 0);
    close(fd);
    m->is_changed = true;
}

static void run(struct model *m, const char *path, const uint8_t *data, size_t n)
{
    while (n > 0) {
        const enum op op = (enum op)(scratch_number(&data, &n, 1) % OP_N);
        const uint32_t v = scratch_number(&data, &n, 2);

        switch (op) {
        case OP_SAVE:
            memset(m->ram[v % N_RAM], (int)(v >> 2), BYTES);
            swap_store_save(m->store, v % N_RAM, m->ram[v % N_RAM]);
            break;
        case OP_WRITE:
            write_slots(m, v);
            break;
        case OP_READ:
            read_slots(m, v);
            break;
        case OP_POKE:
        case OP_CUT:
            disturb(m, path, op, v);
            break;
        case OP_N:
            break;
        }
        check_ram(m);
    }
}

/* The file is as it was found. */
static void check_left_alone(const char *path, const uint8_t *found, size_t n)
{
    static uint8_t got[1 << 16];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    require(fd >= 0 && read(fd, got, sizeof(got)) == (ssize_t)n && memcmp(got, found, n) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t n_found = scratch_number(&data, &n, 2);
    struct model m = {0};
    char err[300] = "", path[SCRATCH_MAX_PATH];
    struct swap_store_options o = {BYTES, N_RAM, N_FILE, path};
    bool is_ours;

    log_setup(LOG_OFF, false, 2);
    n_found = n_found < n ? n_found : n;
    is_ours = n_found == 0 || (n_found >= 8 && memcmp(data, "QUIRESWP", 8) == 0);
    snprintf(path, sizeof(path), "%s", scratch_write("swap", data, n_found));
    if (swap_store_open(&m.store, &o, err, sizeof(err)) == 0) {
        require(is_ours);
        run(&m, path, data + n_found, n - n_found);
        swap_store_close(&m.store);
        require(!is_there(path));
    } else {
        require(!is_ours && m.store == NULL && strstr(err, path) != NULL);
        check_left_alone(path, data, n_found);
    }
    return 0;
}
