/* core/base/list.h - intrusive doubly linked list.
 *
 * A list is a ring through a head of the same type; an element embeds a `struct list` and
 * list_entry() gets back from the link to the element. A link that is in no list points to itself.
 *
 * Thread: none of its own.
 * Memory: none; the links live in the elements.
 */
#ifndef CORE_BASE_LIST_H
#define CORE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define list_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* The body may unlink `it`, but no other element. */
#define list_each(it, head)                                                                        \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                      \
         it = it##_next, it##_next = it->next)

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_push_front(struct list *head, struct list *link)
{
    list_push_back(head->next, link);
}

static inline void list_unlink(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Append all elements of `from`, in their order, to `head`; `from` is empty afterwards. */
static inline void list_move_back(struct list *head, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    list_init(from);
}

/* Move all elements of `from` in front of the first one of `head`; `from` is empty afterwards. */
static inline void list_move_front(struct list *head, struct list *from)
{
    list_move_back(head->next, from);
}

#endif
