/* server/kv_events/kv_event_publisher.c - see kv_event_publisher.h.
 *
 * One thread (run_publisher()) takes events from the engine's ring, applies them to its copy of the
 * index, publishes them and answers replay requests; between events it sleeps in zmq_poll(), with
 * an eventfd that the engine's wake callback writes. The listening sockets are bound at the start
 * and passed to ZeroMQ as descriptors, because the sandbox refuses bind(). The publishing socket is
 * an XPUB, which reports subscriptions, so that a new reader gets a snapshot of all blocks.
 */
#ifdef QUIRE_ZMQ
#include "server/kv_events/kv_event_publisher.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/socket.h"
#include "server/kv_events/block_set.h"
#include "server/kv_events/event_batch.h"
#include "server/kv_events/sent_batches.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

/* Blocks in a batch: vllm-router takes no more than 4096 events or 16 MiB. */
#define MAX_TAKEN 1024
/* Most bytes of a block in a batch: the map's keys, hashes, 16 tokens of 5 bytes, an adapter's name
 * twice. */
#define MOST_BLOCK_BYTES 1024
#define PICTURE_PAUSE_US 1000000u
#define LINGER_MS 200 /* ms to send the last batch when the publisher stops */
#define MAX_REQUEST 1024 /* bytes of a frame that is read: of replay requests and subscriptions */
#define KEEPALIVE_S 60   /* TCP keepalive, by which a reader whose machine is gone is detected */
#define HANDSHAKE_MS 5000 /* ms after which a client that does not speak ZeroMQ is disconnected */
#define MAX_WAITING 16    /* most messages of a reader that have not been read yet */
/* Bytes of all subscriptions since the socket was made: ZeroMQ keeps each prefix while the reader
 * is connected, without a limit. */
#define MAX_SUBSCRIBED ((size_t)256 << 10)
#define SUBSCRIPTION_BYTES 64 /* bytes counted for a subscription besides its text */
/* Bytes of replay answers that are not sent yet: a reader may ask and never read. */
#define MAX_OWED (2 * KV_EVENT_KEPT_BYTES)
#define ANSWER_BYTES 512 /* bytes counted for an answer besides the batch */
#define SEND_BUFFER (256 << 10) /* a reader's bytes in the kernel, which would take megabytes */

struct listening {
    int fd; /* -1: none; ZeroMQ has a copy */
    char endpoint[KV_EVENT_MAX_ENDPOINT];
};

struct kv_event_publisher {
    struct listening publish, replay;
    uint32_t hwm, buffer_steps;
    char topic[1024];
    bool has_tokens;
    void *context, *publish_socket, *replay_socket; /* the sockets: used by the thread only */
    int wake_fd;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_stopping;
    struct kv_events *events;
    /* The members below belong to the thread. */
    struct kv_event *taken;              /* [MAX_TAKEN] */
    struct block_set *set;
    bool is_partial;                     /* the set is being filled again */
    struct event_batch batch;
    struct buf bytes;
    struct sent_batches *sent;
    uint64_t next;                       /* number of the next batch */
    size_t subscribed;                   /* bytes of subscriptions, at most MAX_SUBSCRIBED */
    atomic_size_t owed;                  /* bytes of unsent answers, at most MAX_OWED; ZeroMQ's
                                          * thread subtracts */
    uint64_t picture_from;               /* number of the first batch of the last snapshot */
    uint64_t picture_us;                 /* when the last snapshot for a new subscriber was sent */
    bool owes_picture;
    _Atomic uint64_t n_batches, n_events, n_bytes, n_lost, n_pictures, n_replays; /* relaxed */
};

static void count_event(_Atomic uint64_t *n, uint64_t more)
{
    atomic_fetch_add_explicit(n, more, memory_order_relaxed);
}

/* ---- sending ---- */

static void put_big_endian(uint8_t bytes[8], uint64_t number)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
}

/* Publish the batch without waiting: a subscriber whose queue is full loses it. */
static void publish_bytes(struct kv_event_publisher *p)
{
    uint8_t number[8];

    put_big_endian(number, p->next);
    if (zmq_send(p->publish_socket, p->topic, strlen(p->topic), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(p->publish_socket, number, sizeof(number), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        (void)zmq_send(p->publish_socket, p->bytes.data, p->bytes.len, ZMQ_DONTWAIT);
}

/* Send the batch. Without memory the batch and its number are lost: readers notice the gap. */
static void send_batch(struct kv_event_publisher *p)
{
    event_batch_finish(&p->batch, clock_unix_s(), &p->bytes);
    if (p->bytes.err < 0) {
        count_event(&p->n_lost, p->batch.n_events);
        sent_batches_clear(p->sent);
    } else {
        publish_bytes(p);
        if (p->replay_socket != NULL)
            sent_batches_add(p->sent, p->next, p->bytes.data, p->bytes.len);
        count_event(&p->n_batches, 1);
        count_event(&p->n_events, p->batch.n_events);
        count_event(&p->n_bytes, p->bytes.len);
    }
    p->next++;
    event_batch_clear(&p->batch);
}

/* Send a snapshot of all blocks, in as many batches as needed. */
static void send_picture(struct kv_event_publisher *p)
{
    uint32_t n, i = 0;
    const struct kv_event *const *blocks = block_set_list(p->set, &n);

    p->picture_from = p->next;
    p->owes_picture = false;
    count_event(&p->n_pictures, 1);
    event_batch_add_cleared(&p->batch);
    do {
        const uint32_t n_here = n - i < MAX_TAKEN ? n - i : MAX_TAKEN;

        event_batch_add(&p->batch, blocks + i, n_here);
        send_batch(p);
        i += n_here;
    } while (i < n);
}

/* ---- events of the engine ---- */

static void apply(struct kv_event_publisher *p, const struct kv_event *e)
{
    switch (e->kind) {
    case KV_EVENT_STORED:
        block_set_add(p->set, e);
        break;
    case KV_EVENT_REMOVED:
        block_set_remove(p->set, e->hash);
        break;
    case KV_EVENT_ALL_BEGIN:
        block_set_clear(p->set);
        p->is_partial = true;
        break;
    case KV_EVENT_ALL_END:
        p->is_partial = false;
        send_picture(p);
        break;
    }
}

static bool is_change(const struct kv_event *e)
{
    return e->kind == KV_EVENT_STORED || e->kind == KV_EVENT_REMOVED;
}

/* Publish a run of changes as one batch, unless a snapshot follows that includes them. */
static void handle(struct kv_event_publisher *p, uint32_t n)
{
    const struct kv_event *run[MAX_TAKEN];
    uint32_t n_run = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct kv_event *e = &p->taken[i];

        if (is_change(e) && !p->is_partial)
            run[n_run++] = e;
        if ((!is_change(e) || i + 1 == n) && n_run > 0) {
            event_batch_add(&p->batch, run, n_run);
            send_batch(p);
            n_run = 0;
        }
        apply(p, e);
    }
}

/* ---- replay requests ---- */

/* Read the frames of a message into frames[0 .. max-1], cut to MAX_REQUEST bytes; returns how many
 * there were, or -1: no message. */
static int receive_question(void *socket, uint8_t frames[][MAX_REQUEST], int *sizes, int max)
{
    int n = 0, more = 1;
    size_t size = sizeof(more);

    while (more) {
        uint8_t rest[MAX_REQUEST];
        const int got = zmq_recv(socket, n < max ? frames[n] : rest, MAX_REQUEST, ZMQ_DONTWAIT);

        if (got < 0)
            return n > 0 ? n : -1;
        if (n < max)
            sizes[n] = got;
        n++;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return n;
}

struct asker {
    const uint8_t *id;
    size_t n;
};

/* A batch that is being sent to one reader. */
struct owed {
    atomic_size_t *sum;
    atomic_size_t n; /* set last, and read first by ZeroMQ's thread, which then sees the rest */
    uint8_t bytes[];
};

/* Called on ZeroMQ's thread when the batch was sent or the reader has disconnected. */
static void on_sent(void *bytes, void *ud)
{
    struct owed *o = ud;
    const size_t n = atomic_load_explicit(&o->n, memory_order_acquire);

    (void)bytes;
    atomic_fetch_sub_explicit(o->sum, n + ANSWER_BYTES, memory_order_relaxed);
    mem_free(o);
}

static void send_owed(struct kv_event_publisher *p, const void *bytes, size_t n)
{
    struct owed *o = mem_alloc(sizeof(*o) + n);
    zmq_msg_t message;

    if (o == NULL) {
        (void)zmq_send(p->replay_socket, "", 0, ZMQ_DONTWAIT); /* ends the message */
        return;
    }
    o->sum = &p->owed;
    memcpy(o->bytes, bytes, n);
    atomic_store_explicit(&o->n, n, memory_order_release);
    atomic_fetch_add_explicit(&p->owed, n + ANSWER_BYTES, memory_order_relaxed);
    if (zmq_msg_init_data(&message, o->bytes, n, on_sent, o) < 0) {
        on_sent(o->bytes, o);
        (void)zmq_send(p->replay_socket, "", 0, ZMQ_DONTWAIT);
    } else if (zmq_msg_send(&message, p->replay_socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
    }
}

static void answer_question(struct kv_event_publisher *p, const struct asker *to, const char *topic,
                            uint64_t number, const void *bytes, size_t n)
{
    uint8_t text[8];

    put_big_endian(text, number);
    if (zmq_send(p->replay_socket, to->id, to->n, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(p->replay_socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(p->replay_socket, topic, strlen(topic), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(p->replay_socket, text, sizeof(text), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        send_owed(p, bytes, n);
}

static bool is_kept(const struct kv_event_publisher *p, uint64_t number)
{
    uint64_t from, end;

    sent_batches_range(p->sent, &from, &end);
    return end == p->next && number >= from;
}

/* Make a ZeroMQ socket that takes over a copy of a listening socket; NULL: it failed. */
static void *make_socket(struct kv_event_publisher *p, int type, const struct listening *l, int hwm)
{
    void *socket = zmq_socket(p->context, type);
    const int no = 0, yes = 1, linger = LINGER_MS, keepalive = KEEPALIVE_S;
    const int handshake = HANDSHAKE_MS, waiting = MAX_WAITING;
    const int64_t most = MAX_REQUEST;
    const bool is_ipv6 = strchr(l->endpoint, '[') != NULL;
    const int fd = socket != NULL ? fcntl(l->fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (socket == NULL)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket, ZMQ_SNDHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(socket, ZMQ_RCVHWM, &waiting, sizeof(waiting));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most));
    zmq_setsockopt(socket, ZMQ_HANDSHAKE_IVL, &handshake, sizeof(handshake));
    zmq_setsockopt(socket, ZMQ_TCP_KEEPALIVE, &yes, sizeof(yes));
    zmq_setsockopt(socket, ZMQ_TCP_KEEPALIVE_IDLE, &keepalive, sizeof(keepalive));
    if (type == ZMQ_XPUB)
        zmq_setsockopt(socket, ZMQ_XPUB_VERBOSE, &yes, sizeof(yes));
    /* The socket is bound already: the address is not used, but must be valid. */
    if (fd >= 0 && zmq_setsockopt(socket, ZMQ_USE_FD, &fd, sizeof(fd)) == 0 &&
        zmq_setsockopt(socket, ZMQ_IPV6, is_ipv6 ? &yes : &no, sizeof(no)) == 0 &&
        zmq_bind(socket, is_ipv6 ? "tcp://[::1]:1" : "tcp://127.0.0.1:1") == 0)
        return socket;
    if (fd >= 0)
        close(fd);
    zmq_close(socket);
    return NULL;
}

static void *make_replay_socket(struct kv_event_publisher *p)
{
    /* Room for all batches that are kept, and the end. */
    return make_socket(p, ZMQ_ROUTER, &p->replay, (int)p->buffer_steps + 2);
}

static void let_go(void **socket, void *fresh, const char *why)
{
    if (fresh == NULL)
        return;
    zmq_close(*socket);
    *socket = fresh;
    log_warn("kv_events", "event=readers_let_go reason=\"%s\"", why);
}

/* Called when readers do not read the answers to their requests: disconnect all, and drop the
 * answers. Real readers request them again. */
static void renew_replay_socket(struct kv_event_publisher *p)
{
    let_go(&p->replay_socket, make_replay_socket(p),
           "subscribers request batches and do not read them");
}

/* Send the batches from `number` on. If they are no longer kept, send the last snapshot and what
 * follows it instead, or a new snapshot, which all readers get. */
static void answer_from(struct kv_event_publisher *p, const struct asker *to, uint64_t number)
{
    if (number < p->next && !is_kept(p, number)) {
        if (!is_kept(p, p->picture_from))
            send_picture(p);
        number = p->picture_from;
    }
    for (uint64_t i = number; i < p->next && is_kept(p, number); i++) {
        size_t n;
        const void *bytes = sent_batches_get(p->sent, i, &n);

        if (atomic_load_explicit(&p->owed, memory_order_relaxed) + n > MAX_OWED) {
            renew_replay_socket(p);
            return;
        }
        answer_question(p, to, p->topic, i, bytes, n);
    }
    answer_question(p, to, "", UINT64_MAX, "", 0);
    count_event(&p->n_replays, 1);
}

/* Answer [id, "", number]; any other message is ignored. */
static void take_question(struct kv_event_publisher *p)
{
    uint8_t frames[3][MAX_REQUEST];
    int sizes[3];
    uint64_t number = 0;

    if (receive_question(p->replay_socket, frames, sizes, 3) != 3 || sizes[0] > MAX_REQUEST ||
        sizes[1] != 0 || sizes[2] != 8)
        return;
    for (int i = 0; i < 8; i++)
        number = number << 8 | frames[2][i];
    answer_from(p, &(struct asker){frames[0], (size_t)sizes[0]}, number);
}

/* Called when the subscriptions exceed MAX_SUBSCRIBED: disconnect all readers, which frees the
 * memory. Real readers reconnect, and get a snapshot. */
static void renew_publish_socket(struct kv_event_publisher *p)
{
    p->subscribed = 0;
    let_go(&p->publish_socket, make_socket(p, ZMQ_XPUB, &p->publish, (int)p->hwm),
           "subscribers sent too many subscriptions");
}

/* Read subscriptions: a frame that begins with 1 starts one, with 0 ends one. */
static void take_subscriptions(struct kv_event_publisher *p)
{
    uint8_t frames[1][MAX_REQUEST];
    int sizes[1];

    while (p->subscribed <= MAX_SUBSCRIBED &&
           receive_question(p->publish_socket, frames, sizes, 1) > 0) {
        p->owes_picture = p->owes_picture || (sizes[0] > 0 && frames[0][0] == 1);
        p->subscribed += (size_t)sizes[0] + SUBSCRIPTION_BYTES;
    }
    if (p->subscribed > MAX_SUBSCRIBED)
        renew_publish_socket(p);
}

/* Return the milliseconds until a due snapshot may be sent; -1: none is due. */
static long picture_due_ms(const struct kv_event_publisher *p)
{
    const uint64_t now = clock_us(), due = p->picture_us + PICTURE_PAUSE_US;

    if (!p->owes_picture)
        return -1;
    return p->picture_us == 0 || now >= due ? 0 : (long)((due - now + 999) / 1000);
}

static void pay_picture(struct kv_event_publisher *p)
{
    if (p->is_partial || picture_due_ms(p) != 0)
        return;
    p->picture_us = clock_us();
    send_picture(p);
}

/* ---- the thread ---- */

static void wake(void *ud)
{
    const struct kv_event_publisher *p = ud;
    const uint64_t one = 1;

    (void)!write(p->wake_fd, &one, sizeof(one)); /* an error means that the counter is full, and the
                                                  * thread awake */
}

/* Wait for events. Replay requests wait while the set is being filled again, because no complete
 * snapshot could be sent. */
static void wait_for_more(struct kv_event_publisher *p)
{
    zmq_pollitem_t items[] = {{.fd = p->wake_fd, .events = ZMQ_POLLIN},
                              {.socket = p->publish_socket, .events = ZMQ_POLLIN},
                              {.socket = p->replay_socket, .events = ZMQ_POLLIN}};
    const bool has_replay = p->replay_socket != NULL && !p->is_partial;
    uint64_t n;

    if (zmq_poll(items, has_replay ? 3 : 2, p->is_partial ? -1 : picture_due_ms(p)) < 0)
        return;
    if ((items[0].revents & ZMQ_POLLIN) != 0)
        (void)!read(p->wake_fd, &n, sizeof(n));
    if ((items[1].revents & ZMQ_POLLIN) != 0)
        take_subscriptions(p);
    if (has_replay && (items[2].revents & ZMQ_POLLIN) != 0)
        take_question(p);
}

static void *run_publisher(void *ud)
{
    struct kv_event_publisher *p = ud;

    for (;;) {
        const bool is_last = atomic_load(&p->is_stopping);
        size_t n;

        hold_here("QUIRE_DEBUG_HOLD_KV_EVENTS");
        n = kv_events_take(p->events, p->taken, MAX_TAKEN);

        handle(p, (uint32_t)n);
        pay_picture(p);
        if (n > 0)
            continue;
        if (is_last)
            break;
        if (kv_events_sleep(p->events))
            wait_for_more(p);
    }
    event_batch_add_cleared(&p->batch);
    send_batch(p);
    return NULL;
}

/* ---- life ---- */

static int open_listening(struct listening *l, const char *setting,
                          const struct kv_event_endpoint *e, char *err, size_t err_len)
{
    const bool is_all = strcmp(e->host, "*") == 0, is_ipv6 = strchr(e->host, ':') != NULL;
    const int buffer = SEND_BUFFER;
    char why[400];
    uint16_t port;

    if (listen_open(is_all ? "0.0.0.0" : e->host, e->port, &l->fd, &port, why, sizeof(why)) < 0) {
        snprintf(err, err_len, "'%s': %s", setting, why);
        return ERR_IO;
    }
    /* Accepted connections inherit the buffer's size. */
    (void)setsockopt(l->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    snprintf(l->endpoint, sizeof(l->endpoint), is_ipv6 ? "tcp://[%s]:%u" : "tcp://%s:%u", e->host,
             port);
    return 0;
}

static int take_memory(struct kv_event_publisher *p, const struct kv_event_publisher_options *o)
{
    p->hwm = o->hwm;
    p->buffer_steps = o->buffer_steps;
    p->has_tokens = o->has_tokens;
    snprintf(p->topic, sizeof(p->topic), "%s", o->topic);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->context = zmq_ctx_new();
    p->taken = mem_calloc(MAX_TAKEN, sizeof(*p->taken));
    if (p->wake_fd < 0 || p->context == NULL || p->taken == NULL)
        return ERR_NOMEM;
    return sent_batches_create(&p->sent, o->buffer_steps, KV_EVENT_KEPT_BYTES);
}

size_t kv_event_publisher_bytes(uint32_t n_blocks)
{
    return sizeof(struct kv_event_publisher) + MAX_TAKEN * sizeof(struct kv_event) +
           block_set_bytes(n_blocks);
}

int kv_event_publisher_open(struct kv_event_publisher **out,
                            const struct kv_event_publisher_options *o, char *err, size_t err_len)
{
    struct kv_event_publisher *p = mem_calloc(1, sizeof(*p));
    int rc;

    *out = NULL;
    if (p == NULL)
        return snprintf(err, err_len, "no memory for KV events"), ERR_NOMEM;
    p->publish.fd = p->replay.fd = p->wake_fd = -1;
    rc = take_memory(p, o);
    if (rc < 0)
        snprintf(err, err_len, "no memory or descriptors for KV events");
    if (rc == 0)
        rc = open_listening(&p->publish, "kv_events_endpoint", &o->publish, err, err_len);
    if (rc == 0 && o->replay.host != NULL)
        rc = open_listening(&p->replay, "kv_events_replay_endpoint", &o->replay, err, err_len);
    if (rc < 0) {
        kv_event_publisher_close(&p);
        return rc;
    }
    *out = p;
    return 0;
}

static int make_sockets(struct kv_event_publisher *p)
{
    p->publish_socket = make_socket(p, ZMQ_XPUB, &p->publish, (int)p->hwm);
    if (p->publish_socket == NULL)
        return ERR_INTERNAL;
    if (p->replay.endpoint[0] == '\0')
        return 0;
    p->replay_socket = make_replay_socket(p);
    return p->replay_socket != NULL ? 0 : ERR_INTERNAL;
}

int kv_event_publisher_start(struct kv_event_publisher *p, struct kv_events *events,
                             uint32_t n_blocks)
{
    const size_t most = (size_t)MAX_TAKEN * MOST_BLOCK_BYTES;
    char topic[300];
    int rc = block_set_create(&p->set, n_blocks);

    if (rc < 0)
        return rc;
    p->events = events;
    kv_events_on_wake(events, wake, p);
    p->batch = (struct event_batch){.has_tokens = p->has_tokens, .names = events};
    buf_init(&p->batch.body, most);
    buf_init(&p->bytes, most);
    rc = make_sockets(p);
    if (rc < 0)
        return rc;
    p->has_thread = pthread_create(&p->thread, NULL, run_publisher, p) == 0;
    if (!p->has_thread)
        return ERR_INTERNAL;
    log_info("kv_events", "endpoint=%s replay_endpoint=%s topic=%s", p->publish.endpoint,
             p->replay.endpoint[0] != '\0' ? p->replay.endpoint : "none",
             log_quote(topic, sizeof(topic), p->topic));
    return 0;
}

void kv_event_publisher_stop(struct kv_event_publisher *p)
{
    if (p == NULL || !p->has_thread)
        return;
    atomic_store(&p->is_stopping, true);
    wake(p);
    pthread_join(p->thread, NULL);
    p->has_thread = false;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void kv_event_publisher_close(struct kv_event_publisher **publisher)
{
    struct kv_event_publisher *p = publisher != NULL ? *publisher : NULL;

    if (p == NULL)
        return;
    kv_event_publisher_stop(p);
    if (p->publish_socket != NULL)
        zmq_close(p->publish_socket);
    if (p->replay_socket != NULL)
        zmq_close(p->replay_socket);
    if (p->context != NULL)
        zmq_ctx_term(p->context);
    close_fd(p->publish.fd);
    close_fd(p->replay.fd);
    close_fd(p->wake_fd);
    sent_batches_destroy(&p->sent);
    block_set_destroy(&p->set);
    buf_release(&p->batch.body);
    buf_release(&p->bytes);
    mem_free(p->taken);
    mem_free(p);
    *publisher = NULL;
}

struct kv_event_source kv_event_publisher_source(const struct kv_event_publisher *p)
{
    return (struct kv_event_source){
        .endpoint = p->publish.endpoint,
        .replay_endpoint = p->replay.endpoint[0] != '\0' ? p->replay.endpoint : NULL,
        .topic = p->topic,
        .hwm = p->hwm,
        .buffer_steps = p->buffer_steps,
    };
}

struct kv_event_counts kv_event_publisher_counts(const struct kv_event_publisher *p)
{
    struct kv_event_counts c = {0};

    if (p == NULL)
        return c;
    c.n_batches = atomic_load_explicit(&p->n_batches, memory_order_relaxed);
    c.n_events = atomic_load_explicit(&p->n_events, memory_order_relaxed);
    c.n_bytes = atomic_load_explicit(&p->n_bytes, memory_order_relaxed);
    c.n_dropped = atomic_load_explicit(&p->n_lost, memory_order_relaxed);
    if (p->has_thread)
        c.n_dropped += kv_events_stats(p->events).n_dropped;
    c.n_pictures = atomic_load_explicit(&p->n_pictures, memory_order_relaxed);
    c.n_replays = atomic_load_explicit(&p->n_replays, memory_order_relaxed);
    return c;
}
#endif
