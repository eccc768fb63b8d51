/* tests/fuzz/fuzz_hf_folder.c - libFuzzer: config.json and the weights of a model's folder.
 *
 * The input is a list of files: which (1 byte: 0 config.json, 1 tokenizer.json, 2
 * model.safetensors, whose header's length is put in front and so many zeros as the next byte says,
 * times 64, behind), how long (2 bytes), and the bytes.
 *
 * Of what is accepted, each row of each tensor can be had: from a file, or made.
 */
#include "tests/fuzz/scratch.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/hf/model.h"
#include "core/formats/hf_folder.h"
#include "core/formats/safetensors/safetensors.h"

#define MAX_FILE 16384
#define MAX_ROWS 4096 /* of a tensor; the first and the last of more */

static const char *const names[] = {HF_CONFIG, HF_TOKENIZER, SAFETENSORS_ONE};
enum { N_NAMES = sizeof(names) / sizeof(names[0]), WEIGHTS = 2 };

/* What a folder has that says nothing else. */
static const char tokenizer[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []},"
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}";

static void put_file(const uint8_t **data, size_t *n)
{
    static uint8_t file[8 + MAX_FILE + 64 * 255];
    const uint32_t kind = scratch_number(data, n, 1) % N_NAMES;
    const size_t zeros = kind == WEIGHTS ? 64 * scratch_number(data, n, 1) : 0;
    size_t len = scratch_number(data, n, 2);

    len = len < *n ? len : *n;
    len = len < MAX_FILE ? len : MAX_FILE;
    memset(file, 0, sizeof(file));
    for (size_t i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)len >> 8 * i);
    memcpy(file + 8, *data, len);
    if (kind == WEIGHTS)
        scratch_write(names[kind], file, 8 + len + zeros);
    else
        scratch_write(names[kind], file + 8, len);
    *data += len;
    *n -= len;
}

static uint32_t sum_row(const struct gguf_tensor *t, uint64_t row, uint8_t *room)
{
    const uint8_t *at = gguf_row(t, row, room);
    uint32_t sum = 0;

    for (uint64_t i = 0; i < gguf_row_bytes(t); i++)
        sum += at[i];
    return sum;
}

static void read_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    const uint64_t n = t->dims[1] * t->dims[2] * t->dims[3];
    uint8_t *room = mem_alloc((size_t)gguf_row_bytes(t));
    volatile uint32_t sum = 0;

    require(room != NULL && (t->data != NULL) != (t->recipe != NULL));
    require(t->bytes == n * gguf_row_bytes(t));
    gguf_will_read(g, t, 0, n);
    for (uint64_t i = 0; i < n && i < MAX_ROWS; i++)
        sum += sum_row(t, i, room);
    sum += sum_row(t, n - 1, room);
    gguf_has_read(g, t, 0, n);
    mem_free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char err[300] = "";
    struct gguf *g;

    log_setup(LOG_OFF, false, 2);
    scratch_write(HF_TOKENIZER, tokenizer, sizeof(tokenizer) - 1);
    scratch_unlink(HF_CONFIG);
    scratch_unlink(SAFETENSORS_ONE);
    for (size_t i = 0; i < N_NAMES && n > 0; i++)
        put_file(&data, &n);
    if (hf_model_open(&g, scratch_folder(), "gpt-2", err, sizeof(err)) < 0) {
        require(strncmp(err, scratch_folder(), strlen(scratch_folder())) == 0);
        return 0;
    }
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++)
        read_tensor(g, gguf_tensor_at(g, i));
    gguf_close(&g);
    return 0;
}
