/* server/cli/network.c - see network.h.
 *
 * The port is tested by a real bind() and listen(). If it is taken, /proc is searched for another
 * process named quire, which is then assumed to be the server. The certificate is loaded with its
 * key as a server would, and then the dates of its whole chain are compared with today.
 */
#include "server/cli/network.h"

#include "config/config.h"
#include "core/base/mem.h"
#include "server/cli/report.h"
#include "server/cli/system_file.h"
#include "server/http/tls.h"

#include <dirent.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DAY_S (24 * 60 * 60)
#define SOON_DAYS 21 /* certificates of 90 days are usually renewed 30 days before their end */
#define MAX_CHAIN 16
#define MAX_PEM (1 << 20)

/* ---- the port ---- */

/* Listen on an address and stop again. 0, or the errno of the failure. */
static int try_to_listen(const struct addrinfo *a)
{
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol), on = 1;
    int rc;

    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    rc = bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
    close(fd);
    return rc;
}

/* True: another process of this program exists; it probably has the port. */
static bool is_running(const char *root)
{
    char path[300], name[32];
    struct dirent *d;
    bool found = false;
    DIR *proc;

    snprintf(path, sizeof(path), "%.200s/proc", root);
    proc = opendir(path);
    while (proc != NULL && !found && (d = readdir(proc)) != NULL) {
        const long pid = strtol(d->d_name, NULL, 10);

        snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
        found = pid > 0 && pid != getpid() && system_file_read(root, path, name, sizeof(name)) &&
                strcmp(name, "quire") == 0;
    }
    if (proc != NULL)
        closedir(proc);
    return found;
}

static void tell_port(struct doctor_report *r, const struct config *c, int why, const char *root)
{
    if (why == EADDRINUSE && is_running(root)) {
        doctor_add(r, DOCTOR_OK, "port", "%s port %d is in use, and a Quire server is running",
                   c->host, (int)c->port);
    } else if (why == EADDRINUSE) {
        doctor_add(r, DOCTOR_PROBLEM, "port", "%s port %d is used by another program", c->host,
                   (int)c->port);
        doctor_remedy(r,
                      "choose another port, or end the program that ss -ltnp 'sport = :%d' shows",
                      (int)c->port);
    } else if (why == EACCES) {
        doctor_add(r, DOCTOR_PROBLEM, "port", "user %u is not allowed to listen on port %d",
                   geteuid(), (int)c->port);
        doctor_remedy(r, "choose a port from 1024 on, or set "
                         "AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit");
    } else if (why != 0) {
        doctor_add(r, DOCTOR_PROBLEM, "port", "the server cannot listen on %s port %d: %s", c->host,
                   (int)c->port, strerror(why));
        doctor_remedy(r,
                      "set host to an address of this machine; the command ip address lists them");
    } else {
        doctor_add(r, DOCTOR_OK, "port", "%s port %d is free", c->host, (int)c->port);
    }
}

static void check_port(struct doctor_report *r, const struct config *c, const char *root)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char port[8];
    int rc;

    if (c->host[0] == '\0')
        return;
    snprintf(port, sizeof(port), "%d", (int)c->port);
    rc = getaddrinfo(c->host, port, &hints, &list);
    if (rc != 0) {
        doctor_add(r, DOCTOR_PROBLEM, "port", "host '%s': %s", c->host, gai_strerror(rc));
        doctor_remedy(r, "host = 127.0.0.1 for this machine alone, 0.0.0.0 for all");
        return;
    }
    tell_port(r, c, try_to_listen(list), root);
    freeaddrinfo(list);
}

static void check_exposure(struct doctor_report *r, const struct config *c)
{
    if (!config_is_exposed(c)) {
        doctor_add(r, DOCTOR_OK, "access", "%s",
                   c->api_keys[0] != '\0' ? "every request needs a key"
                   : c->insecure == CONFIG_ON
                       ? "everybody can use the server, as insecure = on allows"
                       : "only this machine can connect");
        return;
    }
    doctor_add(r, DOCTOR_PROBLEM, "access", "everybody who can connect to %s can use the server",
               c->host);
    doctor_remedy(
        r,
        "quire key --name NAME >> KEYS and api_keys = KEYS; or insecure = on, if this is intended");
}

/* ---- the certificate ---- */

/* Read a file into memory to be freed with mem_free(). */
static int read_pem(const char *path, gnutls_datum_t *pem)
{
    FILE *f = fopen(path, "re");
    unsigned char *bytes = f != NULL ? mem_alloc(MAX_PEM) : NULL;

    if (bytes != NULL)
        *pem = (gnutls_datum_t){bytes, (unsigned)fread(bytes, 1, MAX_PEM, f)};
    if (f != NULL)
        fclose(f);
    return bytes != NULL ? 0 : -1;
}

/* Read the validity of the whole chain, in seconds since 1970: the latest begin and the earliest
 * end. */
static int read_validity(const char *path, time_t *from, time_t *to)
{
    gnutls_x509_crt_t chain[MAX_CHAIN];
    unsigned n = MAX_CHAIN;
    gnutls_datum_t pem;
    int rc;

    *from = 0;
    *to = 0;
    if (read_pem(path, &pem) < 0)
        return -1;
    rc = gnutls_x509_crt_list_import(chain, &n, &pem, GNUTLS_X509_FMT_PEM, 0);
    mem_free(pem.data);
    for (unsigned i = 0; rc > 0 && i < n; i++) {
        const time_t begin = gnutls_x509_crt_get_activation_time(chain[i]);
        const time_t end = gnutls_x509_crt_get_expiration_time(chain[i]);

        *from = begin > *from ? begin : *from;
        *to = i == 0 || end < *to ? end : *to;
        gnutls_x509_crt_deinit(chain[i]);
    }
    return rc > 0 ? 0 : -1;
}

static void tell_validity(struct doctor_report *r, time_t from, time_t to)
{
    const time_t now = time(NULL);
    const long days = (long)((to - now) / DAY_S);

    if (now >= to)
        doctor_add(r, DOCTOR_PROBLEM, "certificate",
                   "the certificate, or one in its chain, expired %ld days ago", -days);
    else if (now < from)
        doctor_add(r, DOCTOR_PROBLEM, "certificate", "the certificate becomes valid in %ld days",
                   (long)((from - now) / DAY_S) + 1);
    else if (days < SOON_DAYS)
        doctor_add(r, DOCTOR_NOTE, "certificate", "the certificate expires in %ld days", days);
    else {
        doctor_add(r, DOCTOR_OK, "certificate", "the certificate is valid for %ld days", days);
        return;
    }
    doctor_remedy(r, "renew it; a running server reads the new one on SIGHUP (systemctl reload)");
}

/* Check that certificate and key belong together, in the same way as a server at its start. */
static void check_certificate(struct doctor_report *r, const struct config *c)
{
    time_t from, to;
    struct tls *tls;
    char err[300];

    if (c->tls_certificate[0] == '\0')
        return;
    if (tls_open(&tls, c->tls_certificate, c->tls_key, err, sizeof(err)) < 0) {
        doctor_add(r, DOCTOR_PROBLEM, "certificate", "%s", err);
        doctor_remedy(
            r,
            "set tls_certificate to the PEM file with the chain, and tls_key to that of its key");
        return;
    }
    tls_close(&tls);
    if (read_validity(c->tls_certificate, &from, &to) == 0)
        tell_validity(r, from, to);
}

void doctor_check_network(struct doctor_report *r, const struct config *c, const char *root)
{
    check_port(r, c, root);
    check_exposure(r, c);
    check_certificate(r, c);
}
