/* core/hub/reference.h - "hf:OWNER/NAME[@REVISION][:QUANT|FILE]", a model of the Hugging Face Hub.
 *
 * REVISION is a branch, a tag or a commit ("main" where none is given). The part after the second
 * colon is the quantization of a GGUF file as its name has it (Q4_K_M, in any case), the path of a
 * GGUF file in the repository, or "safetensors": the folder of weights, where there are GGUF files
 * beside them.
 *
 * Thread: any.
 * Memory: none.
 * Errors: ERR_INVAL with a sentence that shows the reference.
 * Source: huggingface_hub, utils/_validators.py (allowed names of repositories).
 */
#ifndef CORE_HUB_REFERENCE_H
#define CORE_HUB_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#define HUB_MAX_REPO 96
#define HUB_MAX_REVISION 128
#define HUB_MAX_PATH 512 /* bytes of a file's path in a repository */
#define HUB_MAX_DEPTH 16 /* most folders in such a path; repositories of models have two or three */

struct hub_reference {
    char repo[HUB_MAX_REPO + 1]; /* OWNER/NAME */
    char revision[HUB_MAX_REVISION + 1];
    char want[HUB_MAX_PATH + 1]; /* a quantization, a path, "safetensors", or "" */
};

/* True: the text is a reference and not a path. "./hf:x" is a path. */
bool hub_reference_is(const char *text);

int hub_reference_parse(struct hub_reference *r, const char *text, char *err, size_t err_len);

/* Return the NAME of a text that hub_reference_is() accepts: its length and its start. 0 where the
 * text names no repository. */
size_t hub_reference_name(const char *text, const char **name);

/* True: a path of a repository may become one below a local folder: not empty, at most HUB_MAX_PATH
 * bytes of UTF-8, 255 a name and HUB_MAX_DEPTH folders, relative, without "." and "..", backslashes
 * and control characters. */
bool hub_path_is_safe(const char *path);

/* True: the text is forty lower-case hexadecimal digits. */
bool hub_is_commit(const char *text);

#endif
