/* core/text/presplit.h - cut text into the words that byte-level BPE treats one by one.
 *
 * Each family of models has a pattern, named by tokenizer.ggml.pre; PCRE2 runs it with JIT.
 *
 * Thread: struct presplit is read-only after creation; a struct presplit_run belongs to one.
 * Memory: through mem.h, but for the machine code.
 */
#ifndef CORE_TEXT_PRESPLIT_H
#define CORE_TEXT_PRESPLIT_H

#include <stddef.h>

struct gguf;
struct presplit;
struct presplit_run;

int presplit_create(struct presplit **out, const struct gguf *g, char *err, size_t err_len);
void presplit_destroy(struct presplit **p);

int presplit_run_create(struct presplit_run **out, const struct presplit *p); /* borrows p */
void presplit_run_destroy(struct presplit_run **run);

/* Set *end to where the word that begins at `from` ends; text[0..n) is valid UTF-8 and
 * from < n. 0, ERR_NOMEM, or ERR_INTERNAL if the pattern fails. */
int presplit_next(struct presplit_run *run, const char *text, size_t n, size_t from, size_t *end);

#endif
