# aarch64 on another machine: Debian's cross compiler, and qemu-user. Servers run under wrappers, so nothing
# has to be registered with the kernel; models and other tools are made natively, being the same files.
ARM64     := build/arm64
ARM64_CC  ?= $(filter ccache,$(CC)) aarch64-linux-gnu-gcc
# Signed return addresses by a hash that takes an emulator no time: twice as fast, and as strict.
ARM64_RUN := qemu-aarch64 -L $(abspath $(ARM64)/sysroot) -cpu max,pauth-impdef=on
ARM64_ENV  = QUIRE_THREADS=1 QUIRE_EMULATED=1 QUIRE_DEBUG_LOOP_MS=0 QUIRE_BIN=$(ARM64)/run/quire QUIRE_DEBUG_BIN=$(ARM64)/run/debug/quire \
             QUIRE_TOOLS=$(BUILD)/tools
# Of the server's tests these files; and of all tests what takes few minutes and would notice most.
ARM64_E2E := completions streams disconnect constrained chat several_models tool_calls swap kv_store weight_cache \
             embeddings logging shutdown states
ARM64_PART := $(addprefix unit/,base/test_maths base/test_log_ring runtime/test_thread_pool kvcache/test_block_offers \
             kvcache/test_kv_events scheduler/test_queue model/test_weight_cache)
ARM64_DEBUG = $(subst build/debug,$(ARM64)/debug,$(DEBUG))
ARM64_NEED := $(ARM64)/quire $(ARM64)/tests/checkkern $(ARM64)/tools/logits
test-arm64: deps-test deps-arm64 $(BUILD)/quire $(TOOLS) ## aarch64, cross-built, in an emulator: unit, check, sim, golden, a part of the server's tests (hours)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_NEED)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_DEBUG) programs-here
	@$(ARM64_RUN) $(ARM64)/tests/checkkern $(CHECK_ARGS)
	@TEST_TIMEOUT=3600 QUIRE_EMULATED=1 QUIRE_RUN='$(ARM64_RUN)' \
	    $(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_DEBUG) all-here
	@$(MAKE) --no-print-directory across-machines e2e-arm64 pages-arm64
test-arm64-part: deps-test deps-arm64 $(BUILD)/quire $(TOOLS) ## of these some unit tests, some kernels, and answers and files of both architectures (minutes)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_NEED)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_DEBUG) $(ARM64_PART:%=$(ARM64)/debug/tests/%)
	@$(ARM64_RUN) $(ARM64)/tests/checkkern $(or $(CHECK_ARGS),quantise norm rope act kv_write exp log pack isa)
	@QUIRE_EMULATED=1 QUIRE_RUN='$(ARM64_RUN)' sh tests/run.sh $(ARM64_PART:%=$(ARM64)/debug/tests/%)
	@$(MAKE) --no-print-directory across-machines PYTEST='-k "F32 or Q4_K or levels or embeddings or blocks or cache or slots or receipts or decisions"'
across-machines: deps-arm64 $(BUILD)/quire $(TOOLS) ## the bits and the files of both architectures (PYTEST='-k embeddings')
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_NEED)
	@RUN='$(ARM64_RUN)' sh tests/arm64/wrap.sh $(ARM64)/run $(ARM64)/quire $(ARM64)/tools/logits
	@QUIRE_THREADS=1 QUIRE_BIN=$(BUILD)/quire QUIRE_OTHER=$(ARM64)/run QUIRE_TOOLS=$(BUILD)/tools \
	    $(PYTHON) -m pytest -q -rs -n $$(nproc) -p no:cacheprovider $(PYTEST) tests/e2e/test_across_machines.py
check-arm64: deps-arm64 ## the kernels of arm64's levels, each in an emulated CPU of that level (a quarter of an hour)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64)/tests/checkkern
	@for at in cortex-a72:neon neoverse-n1:dotprod max:i8mm; do \
	    $(ARM64_RUN) -cpu $${at%:*} $(ARM64)/tests/checkkern --isa $${at#*:} $(CHECK_ARGS) || exit 1; done
check-arm64-part: ## of the cases that take long one in eleven: a minute
	@$(MAKE) --no-print-directory check-arm64 CHECK_ARGS='--every 11'
e2e-arm64: ## of these the server's tests alone (ARM64_E2E='streams chat')
	@RUN='$(ARM64_RUN)' sh tests/arm64/wrap.sh $(ARM64)/run $(ARM64)/quire $(ARM64)/debug/quire
	@$(ARM64_ENV) $(PYTHON) -m pytest -q -rs $(BESIDE) -p no:cacheprovider $(ARM64_E2E:%=tests/e2e/test_%.py)
# What is mapped, and what begins at a page, where kernels have larger ones: not what reads text.
PAGES_UNIT := $(filter-out $(addprefix tests/unit/,grammar/% jinja/% tokenizer/%),$(wildcard tests/unit/*/test_*.c))
pages-arm64: deps-test deps-arm64 $(BUILD)/quire $(TOOLS) ## unit tests and files of aarch64 with pages of 16 and 64 KiB (half an hour)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_NEED)
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_DEBUG) programs-here
	@for p in 16384 65536; do \
	    TEST_TIMEOUT=3600 QUIRE_EMULATED=1 QUIRE_RUN="$(ARM64_RUN) -p $$p" \
	        $(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64_DEBUG) UNIT='$(PAGES_UNIT:%.c=$$(BUILD)/%)' \
	        unit-here || exit 1; \
	    $(MAKE) --no-print-directory e2e-arm64 ARM64_RUN="$(ARM64_RUN) -p $$p" \
	        ARM64_E2E='weight_cache swap kv_store' || exit 1; done
