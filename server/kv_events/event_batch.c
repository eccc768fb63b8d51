/* server/kv_events/event_batch.c - see event_batch.h.
 *
 * Events are packed into `body` as they come, and event_batch_finish() puts the outer array around
 * them. A run of blocks, each the parent of the next, becomes one BlockStored map, a run of
 * removals one BlockRemoved. msgpack-c writes into the buffer; errors stay in the buffer and are
 * checked once, at the end.
 */
#include "server/kv_events/event_batch.h"

#ifdef QUIRE_ZMQ
#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

static int append(void *ud, const char *bytes, size_t n)
{
    buf_add(ud, bytes, n);
    return 0; /* errors are kept in the buffer */
}

static msgpack_packer packer(struct buf *b)
{
    msgpack_packer p;

    msgpack_packer_init(&p, b, append);
    return p;
}

static void pack_text(msgpack_packer *p, const char *text)
{
    msgpack_pack_str_with_body(p, text, strlen(text));
}

static void pack_hash(msgpack_packer *p, struct prefix_hash hash)
{
    uint8_t bytes[PREFIX_HASH_BYTES];

    prefix_hash_bytes(hash, bytes);
    msgpack_pack_bin_with_body(p, bytes, sizeof(bytes));
}

static void pack_hashes(msgpack_packer *p, const struct kv_event *const *run, uint32_t n)
{
    pack_text(p, "block_hashes");
    msgpack_pack_array(p, n);
    for (uint32_t i = 0; i < n; i++)
        pack_hash(p, run[i]->hash);
}

static void pack_tokens(msgpack_packer *p, const struct kv_event *const *run, uint32_t n)
{
    pack_text(p, "token_ids");
    msgpack_pack_array(p, (size_t)n * BLOCK_TOKENS);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < BLOCK_TOKENS; k++)
            msgpack_pack_int32(p, run[i]->tokens[k]);
}

/* Pack the values that, besides the tokens, decide a block's hash: the adapter, and for a text's
 * first block the salt. */
static void pack_extra_keys(msgpack_packer *p, const struct kv_event *e, const char *adapter)
{
    const bool has_salt = e->is_first && e->salt != 0;
    char salt[17];

    if (adapter == NULL && !has_salt) {
        msgpack_pack_nil(p);
        return;
    }
    msgpack_pack_array(p, (adapter != NULL) + (size_t)has_salt);
    if (adapter != NULL)
        pack_text(p, adapter);
    if (has_salt) {
        snprintf(salt, sizeof(salt), "%016" PRIx64, e->salt);
        pack_text(p, salt);
    }
}

static void pack_stored(msgpack_packer *p, const struct event_batch *b,
                        const struct kv_event *const *run, uint32_t n)
{
    const char *adapter = kv_events_adapter(b->names, run[0]->adapter);
    const bool has_extra = adapter != NULL || (run[0]->is_first && run[0]->salt != 0);

    msgpack_pack_map(p, has_extra ? 9 : 8);
    pack_text(p, "type");
    pack_text(p, "BlockStored");
    pack_hashes(p, run, n);
    pack_text(p, "parent_block_hash");
    if (run[0]->is_first)
        msgpack_pack_nil(p);
    else
        pack_hash(p, run[0]->before);
    pack_tokens(p, run, b->has_tokens ? n : 0);
    pack_text(p, "block_size");
    msgpack_pack_uint32(p, BLOCK_TOKENS);
    pack_text(p, "lora_id");
    msgpack_pack_nil(p);
    pack_text(p, "medium");
    pack_text(p, "GPU");
    pack_text(p, "lora_name");
    if (adapter != NULL)
        pack_text(p, adapter);
    else
        msgpack_pack_nil(p);
    if (!has_extra)
        return;
    pack_text(p, "extra_keys");
    msgpack_pack_array(p, n);
    for (uint32_t i = 0; i < n; i++)
        pack_extra_keys(p, run[i], adapter);
}

static void pack_removed(msgpack_packer *p, const struct kv_event *const *run, uint32_t n)
{
    msgpack_pack_map(p, 3);
    pack_text(p, "type");
    pack_text(p, "BlockRemoved");
    pack_hashes(p, run, n);
    pack_text(p, "medium");
    pack_text(p, "GPU");
}

/* True: the event can be in one map with the event before it. */
static bool goes_on(const struct kv_event *before, const struct kv_event *e)
{
    if (e->kind != before->kind)
        return false;
    return e->kind == KV_EVENT_REMOVED ||
           (!e->is_first && e->before.lo == before->hash.lo && e->before.hi == before->hash.hi &&
            e->adapter == before->adapter);
}

void event_batch_clear(struct event_batch *b)
{
    buf_clear(&b->body);
    b->n_events = 0;
}

void event_batch_add(struct event_batch *b, const struct kv_event *const *events, uint32_t n)
{
    msgpack_packer p = packer(&b->body);

    for (uint32_t i = 0, end; i < n; i = end) {
        end = i + 1;
        while (end < n && goes_on(events[end - 1], events[end]))
            end++;
        if (events[i]->kind == KV_EVENT_STORED)
            pack_stored(&p, b, events + i, end - i);
        else
            pack_removed(&p, events + i, end - i);
        b->n_events++;
    }
}

void event_batch_add_cleared(struct event_batch *b)
{
    msgpack_packer p = packer(&b->body);

    msgpack_pack_map(&p, 1);
    pack_text(&p, "type");
    pack_text(&p, "AllBlocksCleared");
    b->n_events++;
}

void event_batch_finish(const struct event_batch *b, double seconds, struct buf *out)
{
    msgpack_packer p = packer(out);

    buf_clear(out);
    msgpack_pack_array(&p, 3);
    msgpack_pack_double(&p, seconds);
    msgpack_pack_array(&p, b->n_events);
    buf_add(out, b->body.data, b->body.len);
    msgpack_pack_uint8(&p, 0); /* the data-parallel rank: there is only one */
    if (b->body.err < 0)
        out->err = b->body.err;
}
#endif
