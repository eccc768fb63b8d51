# Tests. `make test` is what every change must pass; .ci/run names the others that CI runs.
UNIT  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/*/test_*.c))
SIM   := $(patsubst tests/sim/%.c,$(BUILD)/tests/%,$(wildcard tests/sim/sim_*.c))
GOLD  := $(patsubst tests/golden/%.c,$(BUILD)/tests/%,$(wildcard tests/golden/golden_*.c))
CHECK := $(BUILD)/tests/checkkern
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(filter-out tests/bench/bench_kern_%,$(wildcard tests/bench/bench_*.c)))
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))
# Each tests/fuzz/fuzz_x.c is a target: under libFuzzer in build/fuzz, and with tests/fuzz/replay.c
# as a program that goes through tests/fuzz/corpus/fuzz_x once. Vector kernels are those of the
# release: clang takes half an hour for them.
FUZZ   := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY := $(patsubst tests/fuzz/%.c,$(BUILD)/replay/%,$(wildcard tests/fuzz/fuzz_*.c))


LIBS_test_pretokenizer := -lpcre2-8 # to compare with
LIBS_test_regex := -lpcre2-8
$(UNIT) $(SIM) $(GOLD) $(CHECK): $(BUILD)/tests/%: $(LIB)
$(UNIT): %: %.o ; $(link_test)
$(BUILD)/tests/sim_%: $(BUILD)/tests/sim/sim_%.o ; $(link_test)
$(BUILD)/tests/golden_%: $(BUILD)/tests/golden/golden_%.o ; $(link_test)
$(BUILD)/tests/test_placed: $(BUILD)/tests/numa/test_placed.o $(LIB) ; $(link_test)
$(CHECK): $(patsubst %.c,$(BUILD)/%.o,$(call here,tests/check/*.c)) ; $(link_test)
$(BUILD)/tools/%: $(BUILD)/tests/tools/%.o $(LIB) ; $(link_test)
CLUSTER := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/tools/cluster/*.c))
$(BUILD)/tools/cluster_sim $(BUILD)/tests/unit/scheduler/test_cluster: $(CLUSTER)
define link_test
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDHARD) -o $@ $(filter %.o,$^) $(LIB) $(LIBS) -lcmocka $(LIBS_$(@F))
endef

test: deps-test ##! what a change must pass before all else: unit, check, sim, golden, corpora, end to end (minutes)
	@$(MAKE) --no-print-directory test-programs
	@$(CHECK)
	@$(MAKE) --no-print-directory $(DEBUG) all-here
	@$(MAKE) --no-print-directory e2e
# Release and debug in one go, so that no core waits for the end of a stage. Both link the vector
# kernels: these come first, for two makes must not write one file.
test-programs: $(BUILD)/quire $(TOOLS) $(CHECK) $(BENCH) bare debug-programs ## build all that make test runs
debug-programs: $(VOBJ)
	@$(MAKE) --no-print-directory $(DEBUG) programs-here

test-unit: ## one test per module, in the debug build (asserts, allocation guard)
	@$(MAKE) --no-print-directory $(DEBUG) unit-here
test-sim: ## the scheduler without a model: scripted and random traffic
	@$(MAKE) --no-print-directory $(DEBUG) sim-here
golden: ## real weights, real vocabularies, and promise P1: the same bits in any batch
	@$(MAKE) --no-print-directory $(DEBUG) golden-here
fuzz-replay: ## every input of tests/fuzz/corpus through its fuzz target, without clang
	@$(MAKE) --no-print-directory $(DEBUG) fuzz-replay-here
check: $(CHECK) ## every kernel of every instruction set against its definition
	@$(CHECK) $(CHECK_ARGS)
# Files of tests run side by side, one more than there are cores, for many tests wait for most of
# their time. A file's tests stay together and share their servers, which have one thread each unless
# the test says more: e2e-avx2, asan-e2e and tsan have as many as there are cores.
BESIDE := -n $(shell expr $$(nproc) + 1) --dist loadfile
# pytest rewrites the assertions of all files: four seconds of each process, unless it may keep them.
unexport PYTHONDONTWRITEBYTECODE
E2E_ENV = QUIRE_THREADS=1 QUIRE_BIN=$(BUILD)/quire QUIRE_DEBUG_BIN=build/debug/quire QUIRE_TOOLS=$(BUILD)/tools
e2e: $(BUILD)/quire $(TOOLS) bare ## the server over loopback, release and debug build: half of the tests, in a third of the time
	@$(MAKE) --no-print-directory $(DEBUG) build/debug/quire
	@$(E2E_ENV) $(PYTHON) -m pytest -q -rs $(BESIDE) -p no:cacheprovider -m 'not long' tests/e2e
	@$(MAKE) --no-print-directory e2e-avx2 PYTEST='-m "isa and not long"'
test-long: deps-test $(BUILD)/quire $(TOOLS) bare ## the end-to-end tests that make test leaves out: every architecture's bits, pressure, failing calls (minutes)
	@$(MAKE) --no-print-directory $(DEBUG) build/debug/quire
	@$(E2E_ENV) $(PYTHON) -m pytest -q -rs $(BESIDE) -p no:cacheprovider -m long tests/e2e
	@$(MAKE) --no-print-directory e2e-avx2 PYTEST='-m "isa and long"'

bare: $(OBJ) $(BUILD)/server/main.o ## build/bare/quire, without the libraries that may be missing (WITHOUT='libcurl': without some)
	@$(MAKE) --no-print-directory BUILD=build/bare SHARED=$(BUILD) WITHOUT='libseccomp sqlite3 libcurl libzmq hiredis ncursesw zlib libzstd' build/bare/quire
	@$(MAKE) --no-print-directory BUILD=build/bare/no-screen SHARED=$(BUILD) OPTIONAL='server/top/%.c server/cli/top.c' WITHOUT=ncursesw build/bare/no-screen/quire

# Most machines have no more than AVX2: what a test asks of a CPU must hold there.
e2e-avx2: ## the server as on a CPU without AVX-VNNI and AVX-512, debug build (PYTEST='-m isa')
	@$(MAKE) --no-print-directory $(DEBUG) build/debug/quire
	@QUIRE_DEBUG_ISA=avx2 QUIRE_BIN=build/debug/quire QUIRE_DEBUG_BIN=build/debug/quire QUIRE_TOOLS=$(BUILD)/tools \
	    $(PYTHON) -m pytest -q -rs $(BESIDE) -p no:cacheprovider $(PYTEST) tests/e2e

# The packages are installed beside copies of the tests, so that nothing but build/ is written to.
CLIENTS := $(BUILD)/clients
test-clients: deps-clients $(BUILD)/quire $(BUILD)/tools/schema ## real clients, locked versions, against a running server (ARGS='openai ai.mjs', ARGS=npm)
	@QUIRE_BIN=$(abspath $(BUILD))/quire QUIRE_TOOLS=$(abspath $(BUILD))/tools $(PYTHON) tests/clients/clients.py --folder $(CLIENTS) $(ARGS)

# A browser of Debian's, driven by npm's packages; screenshots are in build/page/shots, to be looked at.
PAGE := $(BUILD)/page
test-page: deps-page $(BUILD)/quire ## the page at / in a headless Chromium, with axe-core, locked versions (ARGS=chat.test.mjs)
	@mkdir -p $(PAGE) && cp tests/page/*.mjs tests/page/*.json $(PAGE)/
	@cd $(PAGE) && { cmp -s package-lock.json installed.lock || { npm ci --silent --ignore-scripts --no-audit --no-fund && cp package-lock.json installed.lock; }; }
	@cd $(PAGE) && QUIRE_BIN=$(abspath $(BUILD))/quire node --test --test-concurrency=1 --test-timeout=300000 $(or $(ARGS),chat.test.mjs states.test.mjs markdown.test.mjs axe.test.mjs)

test-templates: deps-test $(BUILD)/tools/render ## published chat templates, locked versions, with the chats that clients send
	@$(PYTHON) tests/templates/published.py --render $(BUILD)/tools/render --folder $(BUILD)/templates $(ARGS)

test-families: deps-test $(BUILD)/tools/answers ## what published chat templates write for tool calls, locked versions, read back: family by family (ARGS=qwen)
	@$(PYTHON) tests/templates/answers.py --tool $(BUILD)/tools/answers --folder $(BUILD)/templates $(ARGS)

test-schemas: deps-test $(BUILD)/tools/schema ## published JSON Schemas, locked versions: what is compiled, and validates
	@$(PYTHON) tests/schemas/published.py --tool $(BUILD)/tools/schema --folder $(BUILD)/schemas $(ARGS)

test-llama-server: deps-test $(BUILD)/quire ## llama-server's own tests, at a locked version: what passes, and why the rest does not (ARGS=unit/test_x.py)
	@$(PYTHON) tests/llama_server/published.py --server $(BUILD)/quire --folder $(BUILD)/llama-server $(ARGS)

ROUTERS := $(BUILD)/routers
test-routers: deps-test deps-real $(BUILD)/quire ## servers behind vllm-router (KV events) and Envoy, locked versions: cached tokens, kills, a gap
	@QUIRE_THREADS=1 QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/routers/routers.py --folder $(ROUTERS) $(ARGS)

# Four CPUs on two memory nodes, emulated: what only such machines have. The kernel's package is fetched.
NUMA := build/numa
NUMA_TESTS := $(addprefix build/debug/tests/,unit/base/test_numa unit/runtime/test_topology \
                unit/runtime/test_thread_pool test_placed)
test-numa: deps-test deps-numa $(BUILD)/quire ## where memory is, on a virtual machine with two memory nodes: minutes
	@$(MAKE) --no-print-directory $(DEBUG) $(NUMA_TESTS)
	@$(CC) -O1 -static -o $(NUMA)/init tests/numa/init.c
	@$(PYTHON) tests/numa/vm.py --folder $(NUMA) --init $(NUMA)/init $(BUILD)/quire $(NUMA_TESTS)

test-real: deps-test deps-real $(BUILD)/quire ## real models beside float64, and the same bits under load (ARGS=smollm2)
	@QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/real/real.py --folder $(REAL) $(ARGS)
	@$(PYTHON) tests/real/chat.py
test-normalizers: deps-test deps-real $(BUILD)/quire ## 10,000 random texts of all scripts by each normalizer, beside the library tokenizers (ARGS=nfc)
	@QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/real/normalizers.py --folder $(REAL) $(ARGS)
test-decisions: deps-test deps-real $(BUILD)/quire ## decisions of real models beside float64, and the same bits: six minutes a model (ARGS=smollm2)
	@QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/real/decisions.py --folder $(REAL) $(ARGS)
accuracy-kv: deps-test deps-real $(BUILD)/quire ## each kv_type at 4,096 tokens of real models beside float64: minutes (ARGS=smollm2)
	@QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/real/accuracy_kv.py --folder $(REAL) $(ARGS)

# These run in whatever build BUILD and CFLAGS say; the targets above choose.
programs-here: $(BUILD)/quire $(GOLD) $(SIM) $(UNIT) $(REPLAY)
all-here: $(GOLD) $(SIM) $(UNIT) $(REPLAY)
	@sh tests/run.sh $^
unit-here: $(UNIT)
	@sh tests/run.sh $^
sim-here: $(SIM)
	@sh tests/run.sh $^
golden-here: $(GOLD)
	@sh tests/run.sh $^
fuzz-replay-here: $(REPLAY)
	@sh tests/run.sh $^

asan: asan-units asan-e2e ##! the same tests under the address and undefined-behaviour sanitizers
asan-units: ## of these, what needs no server: minutes less
	@$(MAKE) --no-print-directory $(ASAN) all-here
# The vector kernels are those of the release, and have been checked there.
asan-e2e: ## of these, kernels and the server
	@$(MAKE) --no-print-directory $(ASAN) CHECK_ARGS='--isa scalar' check
	@$(MAKE) --no-print-directory $(ASAN) build/asan/quire
	@$(MAKE) --no-print-directory $(TOOLS)
	@QUIRE_BIN=build/asan/quire QUIRE_DEBUG_BIN=build/asan/quire QUIRE_TOOLS=$(BUILD)/tools \
	    $(PYTHON) -m pytest -q -rs $(BESIDE) -p no:cacheprovider $(PYTEST) tests/e2e
# Which tenth the commit says: each test has its turn within a few commits.
asan-e2e-part: ## of the server's tests a tenth, another one with each commit
	@$(MAKE) --no-print-directory asan-e2e \
	    PYTEST="--part=$$(( 0x$$(git rev-parse --short=7 HEAD) % 10 ))/10"
TSAN_UNIT := base/test_log_ring kvcache/test_kv_events kvcache/test_block_offers model/test_weight_cache \
             runtime/test_thread_pool scheduler/test_queue scheduler/test_engine_arbiter scheduler/test_prefix_fetch \
             server/test_worker_pool
tsan: ## threads: the queue, the thread pool, and the server under load, with the thread sanitizer
	@$(MAKE) --no-print-directory $(TSAN) UNIT='$(foreach t,$(TSAN_UNIT),$$(BUILD)/tests/unit/$(t))' unit-here
	@$(MAKE) --no-print-directory $(TSAN) build/tsan/quire
	@build/tsan/quire generate --isa scalar --threads 3 --prompt 'Once upon a time' --max-tokens 12 --log-level warn
	@QUIRE_BIN=build/tsan/quire QUIRE_DEBUG_BIN=build/tsan/quire QUIRE_TOOLS=$(BUILD)/tools \
	    $(PYTHON) -m pytest -q -rs -n $$(nproc) --dist loadfile -p no:cacheprovider tests/e2e -m threads

torture: deps-test $(TOOLS) ## fail every allocation and system call of a start and of requests in turn (TORTURE_S=seconds of each kind)
	@$(MAKE) --no-print-directory $(DEBUG) build/debug/quire
	@QUIRE_TORTURE_S=$(or $(TORTURE_S),0) QUIRE_BIN=build/debug/quire QUIRE_DEBUG_BIN=build/debug/quire QUIRE_TOOLS=$(BUILD)/tools \
	    $(PYTHON) -m pytest -q -s -rs -p no:cacheprovider tests/e2e/test_torture.py
chaos: ## everything at once for two minutes under each of the two sanitizers (CHAOS_S=seconds)
	@$(MAKE) --no-print-directory $(ASAN) build/asan/quire
	@$(MAKE) --no-print-directory $(TSAN) build/tsan/quire
	@for b in asan tsan; do QUIRE_CHAOS_S=$(or $(CHAOS_S),120) QUIRE_BIN=build/$$b/quire \
	    $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/e2e/test_chaos.py || exit 1; done

soak: $(BUILD)/quire ## every endpoint, bombs, aborts, slow readers for SECONDS=60; what it holds before and after
	@QUIRE_BIN=$(BUILD)/quire $(PYTHON) tests/soak/soak.py $(or $(SECONDS),60)
soak-asan: ## the same under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory $(ASAN) build/asan/quire
	@QUIRE_BIN=build/asan/quire $(PYTHON) tests/soak/soak.py $(or $(SECONDS),60)

test-novels: $(BUILD)/bench/bench_tokenizer ## 31 MB of novels come back byte for byte, by the rules of every family (a minute)
	@$(BUILD)/bench/bench_tokenizer $(DATA)/text/pd_english_novels.txt $(DATA)/vocabs/ggml-vocab-llama-spm.gguf
	@$(BUILD)/bench/bench_tokenizer --rules all $(DATA)/text/pd_english_novels.txt $(DATA)/vocabs/ggml-vocab-gpt-2.gguf

lint: deps-lint $(MHD) ##! include table, lone headers, banned functions, layout, cppcheck
	@CC='$(CC) $(MHD:%=-I$(DEPS)/include)' sh tests/lint/lint.sh
format: ## clang-format in place
	clang-format -i $(shell git ls-files '*.c' '*.h')

fuzz: deps-fuzz ## build the libFuzzer targets into build/fuzz (run: build/fuzz/fuzz_gguf -max_total_time=60)
	@$(MAKE) --no-print-directory BUILD=build/fuzz CC=clang VECTOR_CC='$(CC)' \
	    CFLAGS='-O1 -g -DQUIRE_DEBUG -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow \
	    -fno-sanitize-recover=all' fuzz-here
fuzz-templates: deps-test $(BUILD)/tools/render ## random chat templates against jinja2 (ARGS='--seconds 600')
	@$(PYTHON) tests/fuzz/fuzz_templates.py --render $(BUILD)/tools/render $(ARGS)
fuzz-all: fuzz ## every target for SECONDS=60 from its corpus; what is found is in build/fuzz (TARGETS= some)
	@sh tests/fuzz/run_all.sh build/fuzz $(or $(SECONDS),60) $(TARGETS)
fuzz-here: $(FUZZ)
$(FUZZ): $(BUILD)/%: $(BUILD)/tests/fuzz/%.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(LIB) $(LIBS)
$(REPLAY): $(BUILD)/replay/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/replay.o $(LIB) ; $(link_test)
