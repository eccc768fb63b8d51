# Quire - `make help` lists the targets; `make run` and `make test` are the two a newcomer needs.
BUILD   ?= build
CC      ?= cc
CFLAGS  ?= -O2 -g
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKGS    := libmicrohttpd libuv libcjson libpcre2-8 libxxhash
BASE    := -std=c11 -D_GNU_SOURCE -I. -fno-math-errno -ffp-contract=off -fvisibility=hidden \
           -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
           $(if $(CI),-Werror) $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS    := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -linih -lm -pthread
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# Everything but main.c goes into one archive that the binary and every test link.
SRC   := $(filter-out server/main.c,$(wildcard core/*/*.c kernels/*.c kvcache/*.c scheduler/*.c \
           server/*.c config/*.c))
OBJ   := $(SRC:%.c=$(BUILD)/%.o) $(BUILD)/config/demo_model.o
LIB   := $(BUILD)/libquire.a
UNIT  := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
SIM   := $(patsubst tests/sim/%.c,$(BUILD)/tests/%,$(wildcard tests/sim/sim_*.c))
GOLD  := $(patsubst tests/golden/%.c,$(BUILD)/tests/%,$(wildcard tests/golden/golden_*.c))
CHECK := $(BUILD)/tests/checkkern
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))

all: $(BUILD)/quire ## build the release binary, build/quire

# A file's name says what it needs: foo_avx2.c is built with AVX2 and no other file is, so no wide
# instruction can leak into code that runs unconditionally.
$(BUILD)/%_avx2.o:   ISA = -mavx2 -mfma -mf16c
$(BUILD)/%_avx512.o: ISA = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(BUILD)/kernels/%.o: OPT = -O3
$(BUILD)/core/base/version.o: DEFS = -DQUIRE_VERSION='"$(VERSION)"'

$(BUILD)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE) $(CFLAGS) $(OPT) $(ISA) $(DEFS) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.S config/demo/quire-demo.gguf
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -I. -c -o $@ $<

$(LIB): $(OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/quire: $(BUILD)/server/main.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(UNIT) $(SIM) $(GOLD) $(CHECK): $(BUILD)/tests/%: $(LIB)
$(BUILD)/tests/test_%: $(BUILD)/tests/unit/test_%.o ; $(link_test)
$(BUILD)/tests/sim_%: $(BUILD)/tests/sim/sim_%.o ; $(link_test)
$(BUILD)/tests/golden_%: $(BUILD)/tests/golden/golden_%.o ; $(link_test)
$(CHECK): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/check/*.c)) ; $(link_test)
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(LIB) ; $(link_test)
$(BUILD)/tools/%: $(BUILD)/tests/tools/%.o $(LIB) ; $(link_test)
define link_test
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LIBS) -lcmocka
endef

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:
.PHONY: all
