# Libraries that are used where they are installed, unless WITHOUT names them (WITHOUT='libcurl sqlite3'). OPTIONAL lists the
# files that depend on them.
OPTIONAL := server/process/syscall_filter.c server/storage/%.c \
            core/hub/%.c server/http/body_decoder.c server/kv_events/%.c server/engine_io/store_redis.c server/top/%.c server/cli/top.c
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
$(BUILD)/server/storage/%.o: DEFS = $(SQLITE)
endif
# Without libcurl nothing is fetched from the Hub (`quire pull`), and no server is asked (`quire top`).
ifneq ($(call optional,libcurl),)
LIBS    += $(shell $(PKGCONF) --libs libcurl)
LIBCURL := -DQUIRE_CURL $(shell $(PKGCONF) --cflags libcurl)
$(BUILD)/core/hub/%.o: DEFS = $(LIBCURL)
endif
# Without ncurses `quire top` has no screen, but --once prints.
ifneq ($(call optional,ncursesw),)
LIBS    += $(shell $(PKGCONF) --libs ncursesw)
NCURSES := -DQUIRE_NCURSES $(shell $(PKGCONF) --cflags ncursesw)
endif
$(BUILD)/server/top/%.o $(BUILD)/server/cli/top.o: DEFS = $(LIBCURL) $(NCURSES)
# Without zlib or libzstd request bodies with the encodings gzip and deflate, or zstd, get the status 415.
ifneq ($(call optional,zlib),)
LIBS    += $(shell $(PKGCONF) --libs zlib)
ZLIB    := -DQUIRE_ZLIB $(shell $(PKGCONF) --cflags zlib)
endif
ifneq ($(call optional,libzstd),)
LIBS    += $(shell $(PKGCONF) --libs libzstd)
ZSTD    := -DQUIRE_ZSTD $(shell $(PKGCONF) --cflags libzstd)
endif
$(BUILD)/server/http/body_decoder.o: DEFS = $(ZLIB) $(ZSTD)
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
