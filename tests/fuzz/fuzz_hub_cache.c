/* tests/fuzz/fuzz_hub_cache.c - libFuzzer: a snapshot in the Hub's cache, from any list of paths.
 *
 * The input's lines are the files of a listing. Each path that the listing accepts becomes a link
 * in the snapshot: what hub_cache_link() says it made leads to the file's own blob, and beside the
 * repository's folder nothing is made. What it refuses has a sentence.
 */
#include "tests/fuzz/scratch.h"

#include <ftw.h>
#include <limits.h>

#include "core/hub/cache.h"
#include "core/hub/listing.h"

#define MAX_FILES 12
#define REPO "some/model"
#define COMMIT "0123456789012345678901234567890123456789"

static const char *const hashes[] = {
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void make_blobs(const struct hub_place *p)
{
    char path[HUB_MAX_LOCAL], err[300];

    for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++) {
        int fd;

        hub_cache_path(path, p, REPO, HUB_BLOBS, hashes[i], "");
        require(hub_cache_make_folders(path, err, sizeof(err)) == 0);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        require(fd >= 0);
        close(fd);
    }
}

static void read_lines(struct hub_listing *l, const uint8_t *data, size_t n)
{
    char line[HUB_MAX_PATH + 16], err[300];

    while (n > 0 && l->n < MAX_FILES) {
        const uint8_t *end = memchr(data, '\n', n);
        const size_t whole = end != NULL ? (size_t)(end - data) : n;
        const size_t len = whole < sizeof(line) ? whole : sizeof(line) - 1;

        memcpy(line, data, len);
        line[len] = '\0';
        err[0] = '\0';
        require(hub_listing_add(l, line, 0, hashes[len % 2], err, sizeof(err)) == 0 || err[0]);
        data += whole + (end != NULL);
        n -= whole + (end != NULL);
    }
}

static void check_link(const struct hub_place *p, const struct hub_file *f)
{
    char link[HUB_MAX_LOCAL], blob[HUB_MAX_LOCAL], real_link[PATH_MAX], real_blob[PATH_MAX];

    hub_cache_path(link, p, REPO, HUB_SNAPSHOTS, COMMIT, f->path);
    hub_cache_path(blob, p, REPO, HUB_BLOBS, f->hash, "");
    require(realpath(blob, real_blob) != NULL && realpath(link, real_link) != NULL);
    require(strcmp(real_blob, real_link) == 0);
}

/* The folder that holds the cache has nothing beside it, and the cache nothing but the model. */
static void check_only(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    require(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
        require(strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, name) == 0);
    closedir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hub_place p = {0};
    struct hub_listing l = {0};
    char outside[SCRATCH_MAX_PATH], err[300];

    snprintf(outside, sizeof(outside), "%s", scratch_path("hub"));
    snprintf(p.cache, sizeof(p.cache), "%s/cache", outside);
    make_blobs(&p);
    read_lines(&l, data, n);
    for (size_t i = 0; i < l.n; i++) {
        const struct hub_file *f = &l.files[i];

        err[0] = '\0';
        if (hub_cache_link(&p, REPO, COMMIT, f->path, f->hash, err, sizeof(err)) == 0)
            check_link(&p, f);
        else
            require(err[0] != '\0');
    }
    check_only(outside, "cache");
    check_only(p.cache, "models--some--model");
    hub_listing_release(&l);
    require(nftw(outside, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    return 0;
}
