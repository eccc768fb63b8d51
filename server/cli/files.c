/* server/cli/files.c - see files.h.
 *
 * Each setting that names a file or a folder is checked by one of a few functions: a file that is
 * read (check_read), a secret one (check_secret), a folder or file that is written (check_folder,
 * check_file). They look at the rights with faccessat() for the effective user, at the mode bits
 * for others, and at the free space of the file system. Each finding is added to the report with a
 * remedy.
 */
#include "server/cli/files.h"

#include "config/config.h"
#include "server/auth/api_keys.h"
#include "server/cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAX_PATH 4096
#define OTHERS_READ (S_IRGRP | S_IROTH)
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* True: the process may access the path, with its groups and capabilities. */
static bool may(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

/* ---- files that are read ---- */

enum secrecy { READ_BY_ALL = 0, READ_BY_OWNER };

/* Check that a file exists, is readable, and cannot be changed by other users; with READ_BY_OWNER
 * they cannot read it either. True: no fault was found. */
static bool check_read(struct doctor_report *r, const char *name, const char *path,
                       enum secrecy secrecy)
{
    struct stat st;

    if (stat(path, &st) < 0 || !may(path, R_OK)) {
        doctor_add(r, DOCTOR_PROBLEM, name, "'%s' cannot be read: %s", path, strerror(errno));
        doctor_remedy(r, "check the path, or chown and chmod the file for user %u", geteuid());
    } else if (st.st_mode & S_IWOTH) {
        doctor_add(r, DOCTOR_PROBLEM, name, "every user may change '%s'", path);
        doctor_remedy(r, "chmod o-w '%s'", path);
    } else if (secrecy == READ_BY_OWNER && (st.st_mode & S_IROTH)) {
        doctor_add(r, DOCTOR_PROBLEM, name, "every user may read '%s', which is secret", path);
        doctor_remedy(r, "chmod 600 '%s'", path);
    } else {
        return true;
    }
    return false;
}

static void check_settings(struct doctor_report *r, const char *path)
{
    if (path == NULL)
        doctor_add(r, DOCTOR_OK, "settings",
                   "no file is used: settings come from defaults, environment and flags");
    else if (check_read(r, "settings", path, READ_BY_ALL))
        doctor_add(r, DOCTOR_OK, "settings", "%s", path);
}

/* Check the file of keys. It has only hashes: other users who can read it learn names and limits,
 * but no key. */
static void check_keys(struct doctor_report *r, const struct config *c)
{
    struct keys *keys;
    struct stat st;
    char err[300];

    if (c->api_keys[0] == '\0' || !check_read(r, "api_keys", c->api_keys, READ_BY_ALL))
        return;
    if (keys_open(&keys, c->api_keys, 0, err, sizeof(err)) < 0) {
        doctor_add(r, DOCTOR_PROBLEM, "api_keys", "%s", err);
        doctor_remedy(r, "make valid entries with quire key");
        return;
    }
    if (stat(c->api_keys, &st) == 0 && (st.st_mode & S_IROTH)) {
        doctor_add(r, DOCTOR_NOTE, "api_keys", "every user may read the names and hashes in '%s'",
                   c->api_keys);
        doctor_remedy(r, "chmod 640 '%s'", c->api_keys);
    } else {
        doctor_add(r, DOCTOR_OK, "api_keys", "%u keys", keys_n(keys));
    }
    keys_close(&keys);
}

static void check_secret(struct doctor_report *r, const char *name, const char *path)
{
    if (path[0] != '\0' && check_read(r, name, path, READ_BY_OWNER))
        doctor_add(r, DOCTOR_OK, name, "%s", path);
}

/* ---- files and folders that are written ---- */

/* Check a folder. bytes: how much will be written there; 0: unknown. */
static void check_folder(struct doctor_report *r, const char *name, const char *folder,
                         uint64_t bytes)
{
    struct statvfs fs;
    struct stat st;

    if (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode)) {
        doctor_add(r, DOCTOR_PROBLEM, name, "the folder '%s' does not exist", folder);
        doctor_remedy(r, "install -d -m 700 '%s', owned by the user of the server", folder);
    } else if (!may(folder, W_OK | X_OK)) {
        doctor_add(r, DOCTOR_PROBLEM, name, "user %u may not write to '%s'", geteuid(), folder);
        doctor_remedy(r, "chown it to the user of the server; in a systemd unit ReadWritePaths=%s",
                      folder);
    } else if (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX)) {
        doctor_add(r, DOCTOR_PROBLEM, name, "every user may change the files in '%s'", folder);
        doctor_remedy(r, "chmod o-w '%s'", folder);
    } else if (statvfs(folder, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < bytes) {
        doctor_add(r, DOCTOR_NOTE, name, "%.1f GiB are free in '%s', but up to %.1f may be written",
                   gib((uint64_t)fs.f_bavail * fs.f_frsize), folder, gib(bytes));
        doctor_remedy(r, "choose another folder, or a smaller limit (kv_store_size, "
                         "responses_size, batch_size, swap_file_size)");
    } else {
        doctor_add(r, DOCTOR_OK, name, "%s", folder);
    }
}

/* Check a file that is created or appended to. */
static void check_file(struct doctor_report *r, const char *name, const char *path, uint64_t bytes)
{
    const char *slash = strrchr(path, '/');
    char folder[MAX_PATH] = ".";

    if (path[0] == '\0')
        return;
    if (slash != NULL)
        snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (access(path, F_OK) == 0 && !may(path, W_OK)) {
        doctor_add(r, DOCTOR_PROBLEM, name, "user %u may not write to '%s'", geteuid(), path);
        doctor_remedy(r, "chown it to the user of the server");
    } else {
        check_folder(r, name, folder, bytes);
    }
}

/* Check a folder whose files are offered to clients. */
static void check_offers(struct doctor_report *r, const char *name, const char *folder)
{
    if (folder[0] != '\0' && check_read(r, name, folder, READ_BY_ALL))
        doctor_add(r, DOCTOR_OK, name, "%s", folder);
}

/* Report a damaged database that was replaced by a new one. */
static void check_damaged(struct doctor_report *r, const char *path, const char *file)
{
    char damaged[MAX_PATH + 32];

    snprintf(damaged, sizeof(damaged), "%s%s.damaged", path, file);
    if (path[0] == '\0' || access(damaged, F_OK) != 0)
        return;
    doctor_add(r, DOCTOR_NOTE, "damaged", "a damaged database is kept as '%s'", damaged);
    doctor_remedy(r,
                  "check the disk; the log lists what was lost (event=row_lost, file_lost); then "
                  "remove it and '%s-wal'",
                  damaged);
}

static void check_server(struct doctor_report *r, const struct config *c)
{
    if (strncmp(c->kv_store, "dir:", 4) == 0)
        check_folder(r, "kv_store", c->kv_store + 4, c->kv_store_size);
    if (c->slot_save_path[0] != '\0')
        check_folder(r, "slot_save_path", c->slot_save_path, 0);
    if (c->batch_dir[0] != '\0')
        check_folder(r, "batch_dir", c->batch_dir, c->batch_size);
    check_offers(r, "models_dir", c->models_dir);
    check_file(r, "responses_db", c->responses_db, c->responses_size);
    check_file(r, "requests_db", c->requests_db, c->requests_size);
    check_file(r, "usage_db", c->usage_db, 0);
    check_damaged(r, c->batch_dir, "/batches.db");
    check_damaged(r, c->responses_db, "");
    check_damaged(r, c->usage_db, "");
    check_file(r, "log_file", c->log_file, 0);
    check_file(r, "unix_socket", c->unix_socket, 0);
    check_file(r, "handover_socket", c->handover_socket, 0);
}

static void check_model(struct doctor_report *r, const struct config *c)
{
    check_file(r, "swap_file", c->swap_file, c->swap_file_size);
    check_file(r, "journal", c->journal, 0);
    check_offers(r, "adapters_dir", c->adapters_dir);
    if (strcmp(c->weight_cache, "off") != 0 && strcmp(c->weight_cache, "on") != 0 &&
        c->weight_cache[0] != '\0')
        check_folder(r, "weight_cache", c->weight_cache, 0);
}

void doctor_check_files(struct doctor_report *r, const struct config *c, const char *settings)
{
    check_settings(r, settings);
    check_keys(r, c);
    check_secret(r, "tls_key", c->tls_key);
    check_secret(r, "kv_store_password", c->kv_store_password);
    check_server(r, c);
    for (uint32_t i = 0; i < config_n_models(c); i++) {
        struct config own;
        char err[200];

        if (config_model(&own, c, i, err, sizeof(err)) < 0) {
            doctor_add(r, DOCTOR_PROBLEM, "settings", "%s", err);
            continue;
        }
        check_model(r, &own);
        config_release(&own);
    }
}
