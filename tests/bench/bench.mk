# Speed: nothing here is a test. Each target prints what it measures beside the limits of the machine.
$(BUILD)/bench/bench_kern: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/bench_kern_*.c))
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(LIB) ; $(link_test)

BENCH_MODEL := $(BUILD)/bench/qwen2.5-0.5b-shape.Q8_0.gguf
bench: $(BENCH) $(TOOLS) $(BUILD)/quire ##! kernels, plans, threads and a whole model of 0.5B parameters beside the machine's limits
	@$(BUILD)/bench/bench_kern --quick
	@$(BUILD)/bench/bench_plan
	@$(BUILD)/bench/bench_thread_pool
	@$(BUILD)/bench/bench_mask
	@mkdir -p $(dir $(BENCH_MODEL))
	@test -f $(BENCH_MODEL) || $(BUILD)/tools/mkmodel --shape qwen2.5-0.5b --type Q8_0 --out $(BENCH_MODEL)
	@$(BUILD)/quire bench --model $(BENCH_MODEL) $(ARGS)
bench-kern: $(BUILD)/bench/bench_kern ## single kernels beside the machine's limits; ARGS= adds flags and names
	@$(BUILD)/bench/bench_kern $(ARGS)

# The cross compiler makes arm64's kernels; llvm-mca knows their cores.
bench-mca: deps-mca deps-arm64 $(VOBJ) $(BUILD)/bench/bench_kern ## cycles of kernels' inner loops as llvm-mca foretells them, on arm64 too; instructions as QEMU counts them
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64)/bench/bench_one_product
	@$(PYTHON) tests/bench/mca.py --bench $(BUILD)/bench/bench_kern --run '$(ARM64_RUN)' \
	    --product $(ARM64)/bench/bench_one_product $(VECTOR) $(ARM64)/vector

DATA ?= ../shared/data
bench-tokenizer: $(BUILD)/bench/bench_tokenizer ## text to tokens and back, MB/s on one thread, over the novels in DATA
	@$(BUILD)/bench/bench_tokenizer $(DATA)/text/pd_english_novels.txt $(wildcard $(DATA)/vocabs/*.gguf)

bench-serving: $(BUILD)/quire $(TOOLS) ## what clients feel: shared prefixes, a flooding tenant, a long prompt beside streams, two models
	@mkdir -p $(dir $(BENCH_MODEL))
	@test -f $(BENCH_MODEL) || $(BUILD)/tools/mkmodel --shape qwen2.5-0.5b --type Q8_0 --out $(BENCH_MODEL)
	@QUIRE_BIN=$(BUILD)/quire $(PYTHON) tests/bench/bench_serving.py $(BENCH_MODEL)

bench-long: $(BUILD)/quire $(TOOLS) ## long contexts: 8 streams of 4,096 tokens, 16 that share as many, prompts up to 65,536 (PEER=python3 with xllamacpp: beside llama-server)
	@mkdir -p $(dir $(BENCH_MODEL))
	@test -f $(BENCH_MODEL) || $(BUILD)/tools/mkmodel --shape qwen2.5-0.5b --type Q8_0 --out $(BENCH_MODEL)
	@QUIRE_BIN=$(BUILD)/quire QUIRE_TOOLS=$(BUILD)/tools PEER='$(PEER)' $(PYTHON) tests/bench/bench_long.py $(BENCH_MODEL) $(ARGS)

bench-adapters: $(BUILD)/bench/bench_adapters $(TOOLS) ## what LoRA adapters cost in a batch of 16 streams (ARGS='--ranks 16,64')
	@mkdir -p $(dir $(BENCH_MODEL))
	@test -f $(BENCH_MODEL) || $(BUILD)/tools/mkmodel --shape qwen2.5-0.5b --type Q8_0 --out $(BENCH_MODEL)
	@for type in as-is q8_0; do echo "load_type $$type:"; $(BUILD)/bench/bench_adapters --model $(BENCH_MODEL) \
	    --adapters-dir $(dir $(BENCH_MODEL)) --log-level error --load-type $$type $(ARGS) || exit 1; done

bench-kv-store: $(BUILD)/quire $(TOOLS) ## the first token when 512 tokens of the prompt are in the block store, after a restart
	@mkdir -p $(dir $(BENCH_MODEL))
	@test -f $(BENCH_MODEL) || $(BUILD)/tools/mkmodel --shape qwen2.5-0.5b --type Q8_0 --out $(BENCH_MODEL)
	@QUIRE_BIN=$(BUILD)/quire $(PYTHON) tests/bench/bench_kv_store.py $(BENCH_MODEL) $(ARGS)

bench-speculation: deps-real $(BUILD)/quire ## SmolLM2 with and without guessed tokens: edits, quotes, code, JSON, a story (PEER=python3 with xllamacpp: beside llama-server)
	@model=$$($(PYTHON) tests/real/packages.py --folder $(REAL) smollm2) && \
	    QUIRE_BIN=$(BUILD)/quire PEER='$(PEER)' $(PYTHON) tests/bench/bench_speculation.py $$model $(ARGS)

bench-draft-model: deps-real $(BUILD)/quire ## the same with a draft model, of a model ten times as large (see tests/bench/draft_pair.py)
	@model=$$($(PYTHON) tests/real/packages.py --folder $(REAL) smollm2) && \
	    $(PYTHON) tests/bench/draft_pair.py $$model $(REAL)/pair && \
	    QUIRE_BIN=$(BUILD)/quire PEER='$(PEER)' $(PYTHON) tests/bench/bench_speculation.py \
	        $(REAL)/pair/large.gguf --draft $(REAL)/pair/draft.gguf --streams 1,4 $(ARGS)

bench-mtp: deps-test $(BUILD)/quire ## the same with a model's own layer for guesses, in models that count (see tests/bench/bench_mtp.py)
	@QUIRE_BIN=$(BUILD)/quire $(PYTHON) tests/bench/bench_mtp.py $(BUILD)/mtp $(ARGS)

bench-embeddings: deps-real $(BUILD)/quire ## 10,000 short texts through a real embedder (PEER=python3 with sentence-transformers: beside that)
	@folder=$$($(PYTHON) tests/real/packages.py --folder $(REAL) minilm) && \
	    QUIRE_BIN=$(BUILD)/quire PEER='$(PEER)' $(PYTHON) tests/bench/bench_embeddings.py $$folder
