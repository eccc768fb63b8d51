/* tests/fuzz/fuzz_lark.c - libFuzzer: any bytes as a grammar in Lark.
 *
 * The regular expression that comes of one is no longer than its limit, and has
 * no NUL; a refusal says why.
 */
#include "core/base/mem.h"
#include "server/api/params/lark_pattern.h"

#include "tests/fuzz/target.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = mem_alloc(n + 1), why[120] = "";
    struct buf out;
    int rc;

    if (text == NULL)
        return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    buf_init(&out, LARK_MAX_PATTERN);
    rc = lark_pattern(text, &out, why, sizeof(why));
    require((rc == 0) == (why[0] == '\0'));
    require(rc < 0 || (out.err == 0 && out.len <= LARK_MAX_PATTERN));
    require(rc < 0 || memchr(out.data, 0, out.len) == NULL);
    buf_release(&out);
    mem_free(text);
    return 0;
}
