/* server/storage/sqlite_bind.c - see sqlite_bind.h.
 *
 * A va_list with a letter per parameter, so that each store's bind function stays one line. Texts
 * are bound as SQLITE_STATIC, without a copy: they must live until the statement was stepped.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_bind.h"

#include "core/base/buf.h"

#include <stdint.h>

void sqlite_bind(sqlite3_stmt *st, const char *types, va_list ap)
{
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    for (int i = 1; types[i - 1] != '\0'; i++) {
        if (types[i - 1] == 'i') {
            sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
        } else if (types[i - 1] == 't') {
            sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
        } else {
            const struct buf *b = va_arg(ap, const struct buf *);

            sqlite3_bind_text64(st, i, b->data != NULL ? b->data : "", b->len, SQLITE_STATIC,
                                SQLITE_UTF8);
        }
    }
}
#endif
