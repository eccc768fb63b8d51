/* core/tokenizer/normal_form.h - Unicode's normalization forms of UTF-8 text, as tokenizers have
 * them.
 *
 * The characters' mappings are libunistring's, except for characters that came after Unicode 9.0:
 * the library `tokenizers` has the tables of that version, and models were trained with it, so
 * these characters stay unchanged. Mappings of older characters never change (Unicode's stability
 * policy), so the result is the same with every version of libunistring.
 *
 * Most text has its form already. A table knows the characters that may change, or change what is
 * beside them, and only the runs around such characters are given to libunistring. Bytes that are
 * not UTF-8 stay unchanged. More than 64 KiB of marks in a row are ordered in pieces of 64 KiB.
 *
 * Thread: read-only once created.
 * Memory: 73 KiB.
 * Errors: ERR_NOMEM, the budget's and the buf's.
 */
#ifndef CORE_TOKENIZER_NORMAL_FORM_H
#define CORE_TOKENIZER_NORMAL_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;
struct buf;
struct normal_form;

enum normal_form_kind { NORMAL_FORM_C = 0, NORMAL_FORM_D, NORMAL_FORM_KC, NORMAL_FORM_KD };

int normal_form_create(struct normal_form **out, enum normal_form_kind kind);
void normal_form_destroy(struct normal_form **form);

/* The place of the first character that may change or be joined to the one before; n: the text is
 * in the form already. */
size_t normal_form_check(const struct normal_form *form, const char *text, size_t n);

/* Append the text in the form. Spends steps of the budget (NULL: no limit) run by run, and stops
 * with its error. */
int normal_form_add(const struct normal_form *form, const char *text, size_t n,
                    struct budget *budget, struct buf *out);

/* True: the character came after Unicode 9.0 and matters to a form or to the class of marks. */
bool normal_form_is_newer(uint32_t character);

#endif
