/* server/api/chat/family_table.c - the families that are built in.
 *
 * The descriptions of the folder families/ are linked into the program as one text (families.S).
 * The first question parses them once, under pthread_once(), into a list that is never freed; a
 * description that fails is logged and left out.
 */
#include "server/api/chat/family.h"

#include "core/base/log.h"

#include <pthread.h>
#include <string.h>

extern const char family_texts[], family_texts_end[]; /* families.S */

/* Answers that a constraint has forced: a list of calls, or the arguments of one call. */
static const char forced_list[] = "name forced\n"
                                  "section \"[\" ~ CALLS ~ \"]\"\n"
                                  "between ~ \",\" ~\n"
                                  "call OBJECT\n"
                                  "members \"name\" \"arguments\"\n"
                                  "bare\n";
static const char forced_named[] = "name forced_named\n"
                                   "call JSON\n"
                                   "bare\n";

static struct family *table, *list_of_calls, *named_call;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct family *make_family(const char *text, size_t n)
{
    char why[100];
    struct family *f = family_create(text, n, why, sizeof(why));

    if (f == NULL)
        log_error("chat", "event=family_failed name='%.40s' reason='%s'", text, why);
    return f;
}

/* Finds the beginning of the next description: a line with a name. */
static const char *next_name(const char *at)
{
    static const char line[] = "\nname ";
    const char *next = memmem(at, (size_t)(family_texts_end - at), line, sizeof(line) - 1);

    return next != NULL ? next + 1 : family_texts_end;
}

static void make_table(void)
{
    struct family **last = &table;

    for (const char *at = next_name(family_texts), *end; at < family_texts_end; at = end) {
        end = next_name(at);
        *last = make_family(at, (size_t)(end - at));
        if (*last != NULL)
            last = &(*last)->next;
    }
    list_of_calls = make_family(forced_list, sizeof(forced_list) - 1);
    named_call = make_family(forced_named, sizeof(forced_named) - 1);
}

const struct family *family_table(void)
{
    pthread_once(&once, make_table);
    return table;
}

const struct family *family_forced(bool is_named)
{
    pthread_once(&once, make_table);
    return is_named ? named_call : list_of_calls;
}

const struct family *family_find(const char *name)
{
    const struct family *f = family_table();

    while (f != NULL && !family_has_name(f, name, strlen(name)))
        f = f->next;
    return f;
}

const struct family *family_of_template(const char *chat_template)
{
    const struct family *best = NULL;
    size_t most = 0;

    for (const struct family *f = family_table(); f != NULL; f = f->next) {
        const size_t n = family_signs_in(f, chat_template);

        if (n > most) {
            most = n;
            best = f;
        }
    }
    return best;
}
