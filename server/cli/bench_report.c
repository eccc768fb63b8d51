/* server/cli/bench_report.c - see bench_report.h.
 *
 * The rates are computed from each result in one place (struct rates), so that Markdown, CSV and
 * JSON show the same figures. The JSON text is built as a cJSON tree and printed at once.
 */
#include "server/cli/bench_report.h"

#include "core/base/err.h"
#include "core/json/json.h"

#include <inttypes.h>
#include <string.h>

static const char *kind_name(enum bench_kind kind)
{
    static const char *const names[] = {
        [BENCH_PREFILL] = "prefill", [BENCH_DECODE] = "decode", [BENCH_MIXED] = "mixed",
        [BENCH_ROWS] = "rows"};

    return names[kind];
}

/* The figures of a result that both tables show. */
struct rates {
    double tokens, ms, gops, peak_share, gbps, read_share;
};

static struct rates rates_of(const struct bench_report *r, const struct bench_result *b)
{
    const double gbps = b->read_bytes / b->median_s / 1e9;

    return (struct rates){
        .tokens = (b->n_prompt + b->n_streams) / b->median_s,
        .ms = b->median_s * 1e3,
        .gops = b->ops / b->median_s / 1e9,
        .peak_share = b->limit_s / b->median_s,
        .gbps = gbps,
        .read_share = gbps / r->limits.read_gbps,
    };
}

static void describe(const struct bench_result *b, char *text, size_t size)
{
    switch (b->kind) {
    case BENCH_PREFILL:
        snprintf(text, size, "prefill of %u", b->n_prompt);
        return;
    case BENCH_DECODE:
        snprintf(text, size, "decode, %u at %u", b->n_streams, b->depth);
        return;
    case BENCH_MIXED:
        snprintf(text, size, "%u of a prompt beside %u at %u", b->n_prompt, b->n_streams,
                 b->depth);
        return;
    case BENCH_ROWS:
        snprintf(text, size, "%u rows at %u, cost %.2f", b->n_prompt, b->depth, b->cost);
        return;
    }
}

/* The share of a part in the time of all samples, 0 .. 1. */
static double share_of(const struct bench_result *b, int part)
{
    double all = 0;

    for (int p = 0; p < RUNNER_N_PART; p++)
        all += b->part_s[p];
    return all > 0 ? b->part_s[part] / all : 0;
}

static void shares_markdown(const struct bench_report *r, FILE *out)
{
    char test[64];

    fprintf(out, "\n| %-34s |", "where the time went, %");
    for (int p = 0; p < RUNNER_N_PART; p++)
        fprintf(out, " %s |", runner_part_name((enum runner_part)p));
    fputs("\n|------------------------------------|", out);
    for (int p = 0; p < RUNNER_N_PART; p++)
        fprintf(out, "-%.*s:|", (int)strlen(runner_part_name((enum runner_part)p)), "------------");
    fputc('\n', out);
    for (uint32_t i = 0; i < r->n_results; i++) {
        describe(&r->results[i], test, sizeof(test));
        fprintf(out, "| %-34s |", test);
        for (int p = 0; p < RUNNER_N_PART; p++)
            fprintf(out, " %*.1f |", (int)strlen(runner_part_name((enum runner_part)p)),
                    100 * share_of(&r->results[i], p));
        fputc('\n', out);
    }
}

void bench_report_markdown(const struct bench_report *r, FILE *out)
{
    char test[64];

    fprintf(out, "quire %s, %s, %s, %u threads\n\n", r->version, r->cpu, r->isa, r->threads);
    fprintf(out, "Model %s (%s, %s): %.1f M parameters, %.1f MB packed; KV in %s.\n", r->model,
            r->arch, r->ftype, (double)r->n_params / 1e6, (double)r->weight_bytes / 1e6,
            r->kv_type);
    fprintf(out, "Limits: reading %.1f GB/s; products in Gop/s:", r->limits.read_gbps);
    for (int i = 0; i < KERN_N_PRODUCT; i++)
        fprintf(out, " %s %.0f%s", kern_product_name((enum kern_product)i), r->limits.gops[i],
                i + 1 < KERN_N_PRODUCT ? "," : ".\n\n");
    fprintf(out, "| %-34s | tokens/s | ms a step | Gop/s | of peak | GB/s | of reading |\n",
            "test");
    fputs("|------------------------------------|---------:|----------:|------:|--------:|-----:|"
          "-----------:|\n",
          out);
    for (uint32_t i = 0; i < r->n_results; i++) {
        const struct rates v = rates_of(r, &r->results[i]);

        describe(&r->results[i], test, sizeof(test));
        fprintf(out, "| %-34s | %8.1f | %9.2f | %5.0f | %5.0f %% | %4.1f | %8.0f %% |\n", test,
                v.tokens, v.ms, v.gops, 100 * v.peak_share, v.gbps, 100 * v.read_share);
    }
    shares_markdown(r, out);
    fputs("\nMedians. \"decode, 8 at 128\": 8 streams with 128 tokens each. Gop/s: matrix "
          "products; GB/s:\nweights, keys and values that a step reads.\n",
          out);
}

void bench_report_csv(const struct bench_report *r, FILE *out)
{
    fputs("version,cpu,isa,threads,kv_type,model,ftype,test,prompt,streams,depth,samples,"
          "tokens_per_s,median_ms,least_ms,most_ms,gops,peak_share,gbps,read_share,"
          "cost",
          out);
    for (int p = 0; p < RUNNER_N_PART; p++)
        fprintf(out, ",%s_share", runner_part_name((enum runner_part)p));
    fputc('\n', out);
    for (uint32_t i = 0; i < r->n_results; i++) {
        const struct bench_result *b = &r->results[i];
        const struct rates v = rates_of(r, b);

        fprintf(out, "%s,\"%s\",%s,%u,%s,\"%s\",%s,%s,%u,%u,%u,%u,", r->version, r->cpu, r->isa,
                r->threads, r->kv_type, r->model, r->ftype, kind_name(b->kind), b->n_prompt,
                b->n_streams, b->depth, b->n_samples);
        fprintf(out, "%.2f,%.3f,%.3f,%.3f,%.2f,%.4f,%.3f,%.4f,", v.tokens, v.ms,
                b->least_s * 1e3, b->most_s * 1e3, v.gops, v.peak_share, v.gbps, v.read_share);
        if (b->kind == BENCH_ROWS)
            fprintf(out, "%.3f", b->cost);
        for (int p = 0; p < RUNNER_N_PART; p++)
            fprintf(out, ",%.4f", share_of(b, p));
        fputc('\n', out);
    }
}

static void add_bench_result(cJSON *array, const struct bench_report *r,
                             const struct bench_result *b)
{
    const struct rates v = rates_of(r, b);
    cJSON *o = cJSON_CreateObject(), *shares;

    cJSON_AddStringToObject(o, "test", kind_name(b->kind));
    cJSON_AddNumberToObject(o, "prompt_tokens", b->n_prompt);
    cJSON_AddNumberToObject(o, "streams", b->n_streams);
    cJSON_AddNumberToObject(o, "depth", b->depth);
    cJSON_AddNumberToObject(o, "samples", b->n_samples);
    cJSON_AddNumberToObject(o, "tokens_per_s", v.tokens);
    cJSON_AddNumberToObject(o, "median_ms", v.ms);
    cJSON_AddNumberToObject(o, "least_ms", b->least_s * 1e3);
    cJSON_AddNumberToObject(o, "most_ms", b->most_s * 1e3);
    cJSON_AddNumberToObject(o, "gops", v.gops);
    cJSON_AddNumberToObject(o, "peak_share", v.peak_share);
    cJSON_AddNumberToObject(o, "gbps", v.gbps);
    cJSON_AddNumberToObject(o, "read_share", v.read_share);
    if (b->kind == BENCH_ROWS)
        cJSON_AddNumberToObject(o, "cost", b->cost);
    shares = cJSON_AddObjectToObject(o, "time_shares");
    for (int p = 0; p < RUNNER_N_PART; p++)
        cJSON_AddNumberToObject(shares, runner_part_name((enum runner_part)p), share_of(b, p));
    cJSON_AddItemToArray(array, o);
}

int bench_report_json(const struct bench_report *r, FILE *out)
{
    cJSON *o = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(o, "model");
    cJSON *limits = cJSON_AddObjectToObject(o, "limits"), *gops;
    cJSON *results = cJSON_AddArrayToObject(o, "results");
    char *text;

    cJSON_AddStringToObject(o, "version", r->version);
    cJSON_AddStringToObject(o, "cpu", r->cpu);
    cJSON_AddStringToObject(o, "isa", r->isa);
    cJSON_AddNumberToObject(o, "threads", r->threads);
    cJSON_AddStringToObject(o, "kv_type", r->kv_type);
    cJSON_AddStringToObject(model, "name", r->model);
    cJSON_AddStringToObject(model, "arch", r->arch);
    cJSON_AddStringToObject(model, "ftype", r->ftype);
    cJSON_AddNumberToObject(model, "n_params", (double)r->n_params);
    cJSON_AddNumberToObject(model, "weight_bytes", (double)r->weight_bytes);
    cJSON_AddNumberToObject(limits, "read_gbps", r->limits.read_gbps);
    gops = cJSON_AddObjectToObject(limits, "gops");
    for (int i = 0; i < KERN_N_PRODUCT; i++)
        cJSON_AddNumberToObject(gops, kern_product_name((enum kern_product)i), r->limits.gops[i]);
    for (uint32_t i = 0; i < r->n_results; i++)
        add_bench_result(results, r, &r->results[i]);
    text = cJSON_Print(o); /* also NULL if an item above could not be created */
    cJSON_Delete(o);
    if (text == NULL)
        return ERR_NOMEM;
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    return 0;
}
