# Kernels with vector instructions. They take half the time of a build and are the same in every kind of build, so all of
# these share the folder VECTOR. `NATIVE=avx2` builds the kernels of one level and those that it needs, for `make run`.
#
# foo_x86_64.c is for that architecture only, and foo_avx2.c for CPUs with that level: no other file is compiled with its
# instructions, so none of them can stand in code that runs on every CPU.
LEVELS_x86_64  := avx512 amx avxvnni avx2
LEVELS_aarch64 := i8mm dotprod neon
ELSE  := $(foreach a,$(filter-out $(ARCH),$(ARCHS)),$a $(LEVELS_$a))
here   = $(filter-out $(ELSE:%=\%_%.c),$(wildcard $(1)))
VECTOR := $(OUT)/vector
VECTOR_CC ?= $(CC)
NATIVE  :=
ISAS    := $(if $(NATIVE),$(filter-out scalar,$(NATIVE:avxvnni=avxvnni avx2)),$(LEVELS_$(ARCH)))
# The files that compile for longest come first, so that no core waits for them in the end.
VSRC    := $(foreach i,$(ISAS),$(call here,kernels/*_$i.c kernels/*/*_$i.c))
VOBJ    := $(VSRC:%.c=$(VECTOR)/%.o)
VNNI    := $(filter %_avxvnni.o,$(VOBJ))
EVEX    := $(VNNI:.o=_evex.o)
VOBJ    += $(EVEX)
FOR     := $(NATIVE:%=-%)
# The files that know which levels there are.
TABLE   := kernels/kernels kernels/levels_$(ARCH)

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

# The best level of the CPU that compiles.
defines   = $(shell $(CC) -march=native -dM -E -x c /dev/null)
best_isa  = $(call best,$(defines))
best      = $(or $(if $(filter __AVX512VNNI__,$1),avx512),$(if $(filter __AVXVNNI__,$1),avxvnni),$(if \
               $(filter __AVX2__,$1),avx2),scalar)
