/* core/tokenizer/normal_form.h - Unicode's normalization forms (NFC, NFD, NFKC, NFKD) of UTF-8
 * text, as `tokenizers` computes them.
 *
 * The characters' mappings are libunistring's, except for characters that came after Unicode 9.0:
 * the library `tokenizers` has the tables of that version, and models were trained with it, so
 * these characters stay unchanged. Mappings of older characters never change (Unicode's stability
 * policy), so the result is the same with every version of libunistring.
 *
 * Most text has its form already. A table marks the characters that may change or be joined to
 * their neighbour, and only the runs around them go through libunistring. Bytes that are not UTF-8
 * stay unchanged. More than 64 KiB of marks in a row are ordered in pieces of 64 KiB.
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

/* Return the offset of the first character that may change or be joined to the one before; n: the
 * text is in the form already. */
size_t normal_form_check(const struct normal_form *form, const char *text, size_t n);

/* Append text[0..n), normalized, to the buf. Spends steps of the budget (NULL: no limit) run by
 * run, and stops with its error. */
int normal_form_add(const struct normal_form *form, const char *text, size_t n,
                    struct budget *budget, struct buf *out);

/* True: the character was added after Unicode 9.0, and a form changes it or it is a mark. */
bool normal_form_is_newer(uint32_t character);

#endif
