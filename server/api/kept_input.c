/* server/api/kept_input.c - see kept_input.h.
 *
 * A body that uses kept responses is parsed twice (api_request.h). Before the first parse its ids
 * are only collected here, each once, so that the database's thread can read the responses; the
 * second parse refuses wrong fields. An item that is kept must have an id: one that lacks it gets
 * random hex and its place in the list.
 */
#include "server/api/kept_input.h"

#include "core/base/err.h"
#include "core/base/hash_index.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "server/api/params/field.h"
#include "server/api/params/kept_items.h"
#include "server/api/params/params.h"
#include "server/api/response/response_writer.h"

#include <string.h>

#define MAX_WISHES ((size_t)64 << 10) /* bytes of ids */

_Static_assert(RESPONSE_MAX_ID == PARAMS_MAX_RESPONSE_ID, "an id that is taken can be looked up");

/* ---- the ids that a body names ---- */

/* True: the id is in the wish already. `known` has the offset of each id in wish->items, plus
 * one. */
static bool is_known_item(const struct hash_index *known, const struct response_wish *wish,
                          const char *id)
{
    struct hash_walk w = {.hash = hash_of_text(id)};
    uintptr_t at;

    while ((at = hash_index_next(known, &w)) != 0)
        if (strcmp(wish->items.data + at - 1, id) == 0)
            return true;
    return false;
}

static int wish_for(const cJSON *item, struct hash_index *known, struct response_wish *wish,
                    struct api_error *e)
{
    const char *id = field_text(item, "id");

    if (id == NULL || id[0] == '\0' || strlen(id) > RESPONSE_MAX_ID)
        return api_error_set(e, 400, "input", NULL,
                             "'input' has an item_reference without the id of an item");
    if (is_known_item(known, wish, id))
        return 0;
    if (hash_index_add(known, hash_of_text(id), wish->items.len + 1) < 0)
        return api_error_no_memory(e);
    if (buf_add(&wish->items, id, strlen(id) + 1) == 0)
        return 0;
    return wish->items.err == ERR_NOMEM
               ? api_error_no_memory(e)
               : api_error_set(e, 400, "input", NULL, "'input' has too many item_references");
}

int kept_input_wish(const cJSON *body, struct response_wish *wish, struct api_error *e)
{
    const char *previous = field_text(body, "previous_response_id");
    const cJSON *input = field_find(body, "input");
    struct hash_index known = {0};
    int rc = 0;

    *wish = (struct response_wish){0};
    buf_init(&wish->items, MAX_WISHES);
    if (previous != NULL && strlen(previous) <= RESPONSE_MAX_ID) /* a longer one is refused later */
        memcpy(wish->previous, previous, strlen(previous) + 1);
    if (!cJSON_IsArray(input))
        return 0;
    for (const cJSON *it = input->child; it != NULL && rc == 0; it = it->next)
        if (params_is_reference(it))
            rc = wish_for(it, &known, wish, e);
    hash_index_release(&known);
    return rc < 0 ? ERR_INVAL : 0;
}

/* ---- the items that are kept ---- */

/* Append the item, with "id" and "type" before its own members if it lacks them. */
static int add_kept_item(const cJSON *item, const char *hex, unsigned n, struct buf *out)
{
    const char *id = field_text(item, "id"), *type = field_text(item, "type");
    char *text = json_value_text(item);

    if (text == NULL)
        return ERR_NOMEM;
    buf_add_char(out, '{');
    if (id == NULL || id[0] == '\0' || strlen(id) > RESPONSE_MAX_ID)
        buf_printf(out, "\"id\":\"%s_%s%u\",",
                   type == NULL || strcmp(type, "message") == 0 ? "msg" : "item", hex, n);
    if (type == NULL)
        buf_add_str(out, "\"type\":\"message\",");
    buf_add_str(out, text + 1);
    mem_free(text);
    return out->err;
}

static int add_kept_text(const cJSON *input, const char *hex, struct buf *out)
{
    buf_printf(out,
               "{\"id\":\"msg_%s0\",\"type\":\"message\",\"status\":\"completed\","
               "\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":",
               hex);
    json_add_cstring(out, input->valuestring);
    return buf_add_str(out, "}]}");
}

static const cJSON *resolve(const cJSON *item, const struct kept_items *kept)
{
    return params_is_reference(item) ? kept_items_find(kept, field_text(item, "id")) : item;
}

int kept_input_list(const cJSON *body, const struct kept_items *kept, struct buf *out)
{
    const cJSON *input = field_find(body, "input");
    unsigned n = 0;
    char hex[25];
    int rc = 0;

    response_random_hex(hex);
    buf_add_char(out, '[');
    if (cJSON_IsString(input))
        rc = add_kept_text(input, hex, out);
    else
        for (const cJSON *it = input->child; rc == 0 && it != NULL; it = it->next, n++) {
            if (n > 0)
                buf_add_char(out, ',');
            rc = add_kept_item(resolve(it, kept), hex, n, out);
        }
    return rc < 0 ? rc : buf_add_char(out, ']');
}
